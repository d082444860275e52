"""catalogue: what a database says about its tables: columns, primary keys and foreign keys."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Catalogue", "Column", "ForeignKey", "TableEntry", "distinct_texts", "listed", "quoted"]


@dataclass(frozen=True)
class Column:
    """A column as it is stored.

    Attributes:
        name: as in the catalogue.
        declared: its type there.
        kind: "integer", "number", "text", "date" or "other"; "none" where it has no values.
        stored: of a date, what it is stored as: "integer", "text" or "date".
        missing: rows without a value.
        distinct: of text, how many different ones there are, one more than the limit at most.
    """

    name: str
    declared: str
    kind: str
    stored: str = ""
    missing: int = 0
    distinct: int = 0


@dataclass(frozen=True)
class ForeignKey:
    """Columns whose values name a row of a table; no columns there: its primary key."""

    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableEntry:
    """A table; rows are read in the order of `order`, an SQL expression, or as they are stored."""

    name: str
    rows: int
    columns: tuple[Column, ...]
    primary: tuple[str, ...] = ()
    foreign: tuple[ForeignKey, ...] = ()
    order: str = ""

    def names(self) -> list[str]:
        """The columns in their order."""
        return [one.name for one in self.columns]


@dataclass(frozen=True)
class Catalogue:
    """The tables of a database, sorted by name, and the names of its views."""

    tables: tuple[TableEntry, ...]
    views: tuple[str, ...] = ()


def quoted(name: str) -> str:
    """A name as SQL spells it."""
    return '"' + name.replace('"', '""') + '"'


def distinct_texts(table: str, column: str, most: int) -> str:
    """The query for how many different texts a column has, one more than `most` at most."""
    name = quoted(column)
    return (
        f"SELECT COUNT(*) FROM (SELECT DISTINCT {name} FROM {quoted(table)} "
        f"WHERE {name} IS NOT NULL LIMIT {most + 1})"
    )


def listed(names: Sequence[str]) -> str:
    """Names as SQL lists them."""
    return ", ".join(quoted(name) for name in names)
