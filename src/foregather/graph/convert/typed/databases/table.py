"""table: one table of a database, as a place that columns are read from.

Several columns that are a key together are read as one column of text: their values, joined by
commas.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from foregather.errors import FormatError, InputError
from foregather.graph.convert.typed.databases.catalogue import TableEntry
from foregather.graph.convert.typed.databases.duck import read_batches
from foregather.graph.convert.typed.databases.sqlite import read_rows

__all__ = ["DatabaseTable", "joined"]

_KINDS = {"integer": "int64", "number": "double", "text": "large_string"}


def joined(columns: Sequence[str]) -> str:
    """The name of a key of several columns."""
    return "+".join(columns)


@dataclass(frozen=True)
class DatabaseTable:
    """A table of a SQLite or DuckDB file.

    Attributes:
        path: the file.
        engine: "sqlite" or "duckdb".
        entry: what the catalogue says about it.
        keys: those of several columns.
        spelled: columns that are read by an SQL expression, which SQLite has for keys of other
            spelling.
    """

    path: Path
    engine: str
    entry: TableEntry
    keys: tuple[tuple[str, ...], ...] = ()
    spelled: tuple[tuple[str, str], ...] = ()

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.path.name}:{self.entry.name}"

    @property
    def rows(self) -> int:
        """How many it has."""
        return self.entry.rows

    def batches(self, wanted: Sequence[str], text: Sequence[str], rows: int) -> Iterator[Any]:
        """As `read_columns`.

        Raises:
            InputError: there is no such column.
            FormatError: the file is damaged.
        """
        several = {joined(key): key for key in self.keys}
        parts = {one: several.get(one) or (self._find(one),) for one in wanted}
        columns = list(dict.fromkeys(column for found in parts.values() for column in found))
        whole = {column for found in parts.values() if len(found) > 1 for column in found}
        forced = [*whole, *(parts[one][0] for one in text if len(parts[one]) == 1)]
        empty = True
        for batch in self._read(columns, forced, rows):
            empty = False
            yield {one: _one([batch[column] for column in parts[one]]) for one in wanted}
        if empty:
            yield {one: _arrow().nulls(0) for one in wanted}

    def _find(self, column: str) -> str:
        names = self.entry.names()
        if column in names:
            return column
        if column.isascii() and column.isdigit() and 1 <= int(column) <= len(names):
            return names[int(column) - 1]
        near = get_close_matches(column, names, 1, 0.6)
        hint = f"the nearest is {near[0]!r}" if near else f"its columns are {', '.join(names):.300}"
        raise InputError(f"{self.name} has no column {column!r:.80}; {hint}")

    def _read(self, columns: list[str], text: list[str], rows: int) -> Iterator[dict[str, Any]]:
        """The columns, those of a kind that is nothing here as missing values."""
        pa = _arrow()
        kinds = {one.name: one.stored or one.kind for one in self.entry.columns}
        if self.engine == "duckdb":
            for batch in read_batches(self.path, self.entry, columns, text, rows):
                yield {
                    name: pa.nulls(batch.num_rows)
                    if kinds[name] in ("other", "none") and name not in text
                    else batch.column(name)
                    for name in columns
                }
            return
        for found in read_rows(self.path, self.entry, columns, text, rows, dict(self.spelled)):
            made = {}
            for name, values in zip(columns, zip(*found, strict=True), strict=True):
                kind = _KINDS.get("text" if name in text else kinds[name])
                try:
                    made[name] = pa.nulls(len(values)) if kind is None else pa.array(values, kind)
                except (pa.ArrowException, OverflowError, UnicodeError) as error:
                    raise FormatError(
                        f"{self.name} has other values in column {name!r} than it had a moment ago"
                    ) from error
            yield made


def _arrow() -> Any:
    import pyarrow
    import pyarrow.compute

    return pyarrow


def _one(columns: list[Any]) -> Any:
    """One column of several, missing where one of them is; no two rows are the same by it."""
    if len(columns) == 1:
        return columns[0]
    pa = _arrow()
    compute = pa.compute
    parts = []
    for column in columns:
        column = column.cast("large_string")
        for sign in ("\\", ","):
            column = compute.replace_substring(column, sign, "\\" + sign)
        parts.append(column)
    return compute.binary_join_element_wise(*parts, pa.scalar(",", pa.large_string()))
