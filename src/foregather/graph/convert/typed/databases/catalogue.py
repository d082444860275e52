"""catalogue: what a database says about its tables: columns, primary keys and foreign keys."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "Catalogue",
    "Column",
    "ForeignKey",
    "TableEntry",
    "distinct_texts",
    "listed",
    "quoted",
    "spelled_as",
]


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
    """A table.

    Attributes:
        name: of the table.
        rows: how many it has.
        columns: in their order.
        primary: the columns of the primary key.
        foreign: the foreign keys.
        order: what rows are read by, an SQL expression; empty: as they are stored.
        collated: columns of keys whose texts the database compares without case (NOCASE) or
            trailing blanks (RTRIM).
    """

    name: str
    rows: int
    columns: tuple[Column, ...]
    primary: tuple[str, ...] = ()
    foreign: tuple[ForeignKey, ...] = ()
    order: str = ""
    collated: tuple[str, ...] = ()

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


def spelled_as(
    table: str, own: str, other_table: str, other: str, keys: tuple[Sequence[str], Sequence[str]]
) -> str:
    """A column of a foreign key as the row that it names spells it, in SQL.

    The names on the left of a comparison decide how it is made: those of the named table.

    Args:
        table: that has the key.
        own: a column of the key.
        other_table: the table that is named.
        other: the column there.
        keys: all columns of the key, here and there.
    """
    met = " AND ".join(
        f"named.{quoted(there)} = {quoted(table)}.{quoted(here)}"
        for here, there in zip(*keys, strict=True)
    )
    found = f"SELECT named.{quoted(other)} FROM {quoted(other_table)} AS named WHERE {met} LIMIT 1"
    return f"COALESCE(({found}), {quoted(table)}.{quoted(own)})"


def listed(names: Sequence[str]) -> str:
    """Names as SQL lists them."""
    return ", ".join(quoted(name) for name in names)
