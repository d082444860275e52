"""plan: decides what the tables of a database become, and says what was decided.

A row is a node; a foreign key is a relation and its reverse. Numbers are features, text of few
different values is categories, dates are times if they are named or the only ones. What is left out
is named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from foregather.errors import InputError
from foregather.graph.convert.typed.databases import duck, sqlite
from foregather.graph.convert.typed.databases.catalogue import (
    Catalogue,
    Column,
    ForeignKey,
    TableEntry,
    spelled_as,
)
from foregather.graph.convert.typed.databases.table import DatabaseTable, joined
from foregather.graph.convert.typed.databases.wishes import (
    TableWishes,
    check_names,
    nearest,
    skipping,
)
from foregather.graph.convert.typed.description.kind import database_kind
from foregather.graph.convert.typed.description.node_spec import Foreign, NodeSpec
from foregather.graph.hetero.columns import BATCH_NAMES
from foregather.graph.hetero.names import check_name
from foregather.units import format_number

__all__ = ["plan_database"]

MOST_CATEGORIES = 1000  # different texts; a column with more is left out unless it is named


def plan_database(
    path: Path, wishes: Mapping[str, TableWishes], skip_columns: Sequence[str] = ()
) -> tuple[list[NodeSpec], list[str]]:
    """The node types of a database, and sentences about what was chosen.

    Args:
        path: the database.
        wishes: what is said about tables, by their names.
        skip_columns: columns that are left out, each as "table.column".

    Raises:
        InputError: something is named that is not there, or a key cannot be followed.
        FormatError: the file is no database, or damaged.
        StorageError: it cannot be read, or is being written.
        MissingDependencyError: duckdb is not installed.
    """
    engine = database_kind(path) or "sqlite"
    read = duck.read_catalogue if engine == "duckdb" else sqlite.read_catalogue
    catalogue = read(path, MOST_CATEGORIES)
    wishes = skipping(path, catalogue, wishes, skip_columns)
    check_names(path, catalogue, wishes)
    kept = {
        one.name: one
        for one in catalogue.tables
        if wishes.get(one.name, TableWishes()).leave_out is not True
    }
    if not kept:
        raise InputError(f"{path.name} has no tables that become nodes")
    nodes: list[NodeSpec] = []
    notes: list[str] = []
    plans: list[_TablePlan] = []
    several: set[tuple[str, tuple[str, ...]]] = set()  # keys of tables that others name
    for table in kept.values():
        plan = _TablePlan(path, table, catalogue, kept, wishes)
        nodes.append(plan.node(engine))
        notes.append(plan.said())
        several |= plan.asked
        plans.append(plan)
    _check_units(plans)
    gone = [one.name for one in catalogue.tables if one.name not in kept]
    if gone:
        notes.append(f"Tables left out as asked: {', '.join(gone)}.")
    if catalogue.views:
        notes.append(f"Views are left out: {', '.join(catalogue.views)}.")
    return [_with_keys(node, several) for node in nodes], notes


def _check_units(plans: "Sequence[_TablePlan]") -> None:
    """Refuses times that were chosen here and are whole numbers in one table, dates in another.

    Raises:
        InputError: nobody said that they are in one unit.
    """
    whole = [one for one in plans if one.time_kind == "whole numbers"]
    dates = [one for one in plans if one.time_kind == "dates"]
    if whole and dates and any(one.chose_time for one in (*whole, *dates)):
        raise InputError(
            f"the times of table {whole[0].name!r} are whole numbers and those of "
            f"{dates[0].name!r} are dates, which become seconds since 1970; if both are in that "
            "unit, name the time of each table in a description, else leave one out (time = '')"
        )


def _with_keys(node: NodeSpec, several: set[tuple[str, tuple[str, ...]]]) -> NodeSpec:
    """Lets a table read the keys of several columns that other tables call its rows by.

    Raises:
        InputError: a column is called as such a key.
    """
    table = node.file
    assert isinstance(table, DatabaseTable)
    keys = tuple(sorted({*table.keys, *(key for name, key in several if name == node.name)}))
    for key in keys:
        if joined(key) in table.entry.names():
            raise InputError(
                f"table {node.name!r} has a column {joined(key)!r}, which is how the key of "
                f"{', '.join(key)} is called; rename the column"
            )
    return replace(node, file=replace(table, keys=keys))


class _TablePlan:
    """What one table becomes."""

    def __init__(
        self,
        path: Path,
        table: TableEntry,
        catalogue: Catalogue,
        kept: Mapping[str, TableEntry],
        wishes: Mapping[str, TableWishes],
    ) -> None:
        check_name(table.name, "node type")
        wish = wishes.get(table.name, TableWishes())
        self._path, self._table, self._wish, self._wishes = path, table, wish, wishes
        self._columns = {one.name: one for one in table.columns}
        self._gone: list[str] = []  # columns left out, each with the reason
        self.asked: set[tuple[str, tuple[str, ...]]] = set()  # keys of several columns elsewhere
        self.spelled: dict[str, str] = {}  # columns that are read by another expression
        out = set(wish.leave_out) if isinstance(wish.leave_out, tuple) else set()
        keys = [*table.primary] if len(table.primary) == 1 and wish.ids != "text" else []
        self._check_kinds([*keys, *(one for one in wish.named() if one not in out)])
        self._gone += [f"{name} (as asked)" for name in table.names() if name in out]
        self._foreign = [
            found
            for key in table.foreign
            if not out & set(key.columns)
            if (found := self._follow(key, catalogue, kept)) is not None
        ]
        own = {c for key in table.foreign for c in key.columns} | set(table.primary)
        own |= out | {one for one in (wish.labels, wish.split) if one}
        free = [one for one in table.columns if one.name not in own]
        self._dates = [one for one in free if one.kind == "date" and one.name != wish.time]
        self._time = self._choose_time(wish.time)
        self._features = self._choose_features(free)
        self._categories = self._choose_categories(free)
        for one in free:
            taken = (self._time, *self._features, *self._categories)
            if one.name not in taken:
                self._gone.append(f"{one.name} ({self._why(one)})")

    @property
    def name(self) -> str:
        """Of the table."""
        return self._table.name

    @property
    def chose_time(self) -> bool:
        """Whether the time is the only date, which nobody named."""
        return self._time is not None and self._wish.time is None

    @property
    def time_kind(self) -> str:
        """What the time is stored as; empty where there is none."""
        if self._time is None:
            return ""
        column = self._columns[self._time]
        return "whole numbers" if "integer" in (column.kind, column.stored) else "dates"

    def _check_kinds(self, columns: list[str]) -> None:
        """Refuses columns that would be read as if they were empty.

        Raises:
            InputError: names the first of them.
        """
        for column in (self._columns[name] for name in columns):
            if column.kind == "other":
                hint = ' (or ids = "text")' if column.name in self._table.primary else ""
                raise InputError(
                    f"column {column.name!r} of table {self._table.name!r} holds "
                    f"{column.declared or 'values'} of several kinds or neither numbers nor text; "
                    f"repair it, or leave it out{hint}, such as by --skip-columns "
                    f"{self._table.name}.{column.name}"
                )

    def _follow(
        self, key: ForeignKey, catalogue: Catalogue, kept: Mapping[str, TableEntry]
    ) -> tuple[tuple[str, ...], Foreign] | None:
        """A foreign key as a relation; None where its table is left out.

        Raises:
            InputError: it names a table or columns that are not there.
        """
        where = f"the foreign key {joined(key.columns)!r} of table {self._table.name!r}"
        tables = {one.name.lower(): one for one in catalogue.tables}
        there = tables.get(key.table.lower())
        if there is None:
            raise InputError(
                f"{where} names table {key.table!r}, which {self._path.name} does not have; "
                f"{nearest(key.table, [one.name for one in catalogue.tables])}, or leave the "
                "column out with leave_out"
            )
        if there.name not in kept:
            self._gone.append(f"{joined(key.columns)} (its table is left out)")
            return None
        named = {name.lower(): name for name in there.names()}
        other = tuple(named.get(one.lower(), one) for one in key.referenced) or there.primary
        if not other:
            raise InputError(
                f"{where} names table {there.name!r}, which has no primary key; name the column it "
                "refers to in the database, or leave the column out with leave_out"
            )
        if len(other) != len(key.columns) or not set(other) <= set(there.names()):
            raise InputError(
                f"{where} has {len(key.columns)} columns, but refers to {joined(other)!r} of table "
                f"{there.name!r}, whose columns are {', '.join(there.names()):.300}"
            )
        own = key.columns
        ids = {one.name: one.kind for one in there.columns}
        text = len(own) > 1 or ids[other[0]] == "text" or self._as_text(there, other)
        self._check_kinds([] if text else [*own])
        self._respell(key, there, other)
        if other == there.primary:
            return own, Foreign(check_name(joined(own), "relation"), there.name)
        self.asked |= {(there.name, other)} if len(other) > 1 else set()
        return own, Foreign(check_name(joined(own), "relation"), there.name, joined(other))

    def _respell(self, key: ForeignKey, there: TableEntry, other: tuple[str, ...]) -> None:
        """Lets keys that the database takes for equal, but that are spelled otherwise, be read.

        Raises:
            InputError: the column is needed as it is spelled.
        """
        if not set(other) & set(there.collated):
            return
        for own, column in zip(key.columns, other, strict=True):
            said = spelled_as(self._table.name, own, there.name, column, (key.columns, other))
            if own in self._table.primary or self.spelled.setdefault(own, said) != said:
                raise InputError(
                    f"column {own!r} of table {self._table.name!r} refers to {there.name!r}, which "
                    "compares keys without case or trailing blanks (COLLATE), and is also part of "
                    "another key; leave the column out"
                )

    def _as_text(self, table: TableEntry, key: tuple[str, ...]) -> bool:
        """Whether the description takes the ids of a table as text."""
        return key == table.primary and self._wishes.get(table.name, TableWishes()).ids == "text"

    def _choose_time(self, asked: str | None) -> str | None:
        if asked is not None:
            return asked or None
        if len(self._dates) != 1 or self._dates[0].missing:
            return None
        return self._dates[0].name

    def _choose_features(self, free: list[Column]) -> tuple[str, ...]:
        if self._wish.features is not None:
            return self._wish.features
        named = (self._time, *(self._wish.categories or ()))
        return tuple(
            one.name for one in free if one.kind in ("integer", "number") and one.name not in named
        )

    def _choose_categories(self, free: list[Column]) -> tuple[str, ...]:
        if self._wish.categories is not None:
            return self._wish.categories
        taken = {self._time, *self._features, *self._wish.arrays}
        taken |= BATCH_NAMES | ({"x"} if self._features else set())
        return tuple(
            one.name
            for one in free
            if one.kind == "text" and one.distinct <= MOST_CATEGORIES and one.name not in taken
        )

    def _why(self, column: Column) -> str:
        if column.kind == "none":
            return "no values"
        if column.kind == "date":
            if self._wish.time is None and len(self._dates) == 1:
                return f"a date that is missing in {format_number(column.missing, 'row')}"
            if self._wish.time is None:
                return f"one of {len(self._dates)} dates; name the time"
            return "a date that is not the time"
        if column.kind == "text" and column.distinct > MOST_CATEGORIES:
            return f"more than {MOST_CATEGORIES} different texts"
        if column.kind == "text" and column.name in ("x", *self._wish.arrays):
            return "its name is that of a feature array"
        if column.kind == "text" and column.name in BATCH_NAMES:
            return "batches call something else so; rename it"
        if column.kind == "other":
            return f"{column.declared or 'values of several kinds'}, neither numbers nor text"
        return "not asked for"

    def node(self, engine: str) -> NodeSpec:
        """The node type."""
        table = self._table
        several = [one for one, _ in self._foreign if len(one) > 1]
        several += [table.primary] if len(table.primary) > 1 else []
        keys = tuple(sorted(set(several)))
        return NodeSpec(
            table.name,
            DatabaseTable(self._path, engine, table, keys, tuple(self.spelled.items())),
            None,
            joined(table.primary) if table.primary else None,
            self._wish.ids,
            self._wish.labels,
            self._time,
            self._wish.split,
            self._features,
            self._wish.arrays,
            self._categories,
            tuple(key for _, key in self._foreign),
        )

    def said(self) -> str:
        """What was chosen, in one sentence."""
        table, wish = self._table, self._wish
        said = [f"ids from {joined(table.primary)}" if table.primary else "ids are row numbers"]
        if self._time is not None:
            why = "" if wish.time else " (its only date)"
            said.append(f"time from {self._time}{why}")
        else:
            said.append("no time")
        if self._features:
            said.append(f"features x from {', '.join(self._features)}")
        if self._categories:
            said.append(f"categories from {', '.join(self._categories)}")
        for name, column in (("labels", wish.labels), ("splits", wish.split)):
            said += [f"{name} from {column}"] if column else []
        for _, key in self._foreign:
            other = "" if key.key is None else f" by {key.key}"
            said.append(f"{key.column} refers to {key.type}{other}")
        said += [f"left out: {', '.join(self._gone)}"] if self._gone else []
        return f"Table {table.name}: {'; '.join(said)}."
