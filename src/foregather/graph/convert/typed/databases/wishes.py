"""wishes: what is asked of the tables of a database, checked against its catalogue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from foregather.errors import InputError
from foregather.graph.convert.typed.databases.catalogue import Catalogue

__all__ = ["TableWishes", "check_names", "nearest", "skipping"]


@dataclass(frozen=True)
class TableWishes:
    """What a description says about a table of a database; None where it says nothing.

    Attributes:
        time: a column; "" for none.
        features: the columns of numbers; None takes all of them.
        categories: the columns of text; None takes those of few different values.
        leave_out: columns that are not taken; True leaves out the table.
        ids: "text" takes the primary key as text, and so the keys that name it; "rows" lets files
            name the rows of a table without one by their numbers from 0.
    """

    time: str | None = None
    labels: str | None = None
    split: str | None = None
    features: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None
    leave_out: tuple[str, ...] | bool = ()
    arrays: Mapping[str, Path] = field(default_factory=dict)
    ids: str = "auto"

    def named(self) -> list[str]:
        """Every column that is named."""
        found = [one for one in (self.time, self.labels, self.split) if one]
        found += [*(self.features or ()), *(self.categories or ())]
        return found + (list(self.leave_out) if isinstance(self.leave_out, tuple) else [])


def check_names(path: Path, catalogue: Catalogue, wishes: Mapping[str, TableWishes]) -> None:
    """Refuses wishes about tables and columns that are not there.

    Raises:
        InputError: names the first of them, and the nearest name there is.
    """
    tables = {one.name: one for one in catalogue.tables}
    for name, wish in wishes.items():
        if name in catalogue.views:
            raise InputError(
                f"{name!r} of {path.name} is a view, whose rows have no order of their own; make a "
                "table of it"
            )
        if name not in tables:
            raise InputError(
                f"{path.name} has no table {name!r:.80}; {nearest(name, list(tables))}"
            )
        if wish.ids == "rows" and tables[name].primary:
            raise InputError(
                f'[nodes.{name}] has ids = "rows", but the table has a primary key; leave ids out'
            )
        for column in wish.named():
            if column not in tables[name].names():
                raise InputError(
                    f"table {name!r} of {path.name} has no column {column!r:.80}; "
                    f"{nearest(column, tables[name].names())}"
                )


def skipping(
    path: Path, catalogue: Catalogue, wishes: Mapping[str, TableWishes], columns: Sequence[str]
) -> dict[str, TableWishes]:
    """The wishes, with further columns left out.

    Raises:
        InputError: one is not "table.column" of this database.
    """
    found = dict(wishes)
    known = {
        f"{one.name}.{column}": (one, column) for one in catalogue.tables for column in one.names()
    }
    for name in (columns,) if isinstance(columns, str) else columns:
        if name not in known:
            raise InputError(
                f"--skip-columns has {name!r:.80}, which is no table.column of {path.name}; "
                f"{nearest(name, list(known))}"
            )
        table, column = known[name]
        if column in table.primary:
            raise InputError(
                f"--skip-columns has {name!r:.80}, part of the primary key, which names the "
                f"rows of {table.name!r}; leave the table out in a description instead"
            )
        wish = found.get(table.name, TableWishes())
        if isinstance(wish.leave_out, tuple):
            found[table.name] = replace(wish, leave_out=(*wish.leave_out, column))
    return found


def nearest(asked: str, known: Sequence[str]) -> str:
    """The known name next to one that is not known, as part of a sentence."""
    near = get_close_matches(asked, known, 1, 0.5)
    return f"the nearest is {near[0]!r}" if near else f"there are: {', '.join(known):.300}"
