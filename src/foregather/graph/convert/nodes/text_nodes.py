"""text_nodes: reads a table of nodes from delimited text, gzipped or not.

The form is detected from the first lines as for edge lists, and only where a wrong guess would be
noticed: a column of numbers in which a word follows stops the conversion with its line.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, InputError
from foregather.graph.convert.nodes.node_options import NodeFile
from foregather.graph.convert.nodes.node_rows import NodeTableChunk, find_columns
from foregather.graph.convert.reading.columns import plain_name
from foregather.graph.convert.reading.first_line import are_integers
from foregather.graph.convert.reading.tables import Layout, drive
from foregather.graph.convert.reading.text_dialect import find_delimiter, sample_lines, split_line
from foregather.graph.convert.source import Strings

__all__ = ["TextNodes"]

Array = npt.NDArray[Any]
Line = tuple[int, list[bytes]]

_NUMBER = re.compile(
    rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_USUAL = {"id", "node", "node_id", "nodeid", "name", "label", "class", "y", "split", "time"}


class TextNodes:
    """A table of nodes in text.

    Args:
        asked: the table and what the user says about it.
        strings: ids are read as text, otherwise as integers.
        with_time: the column of times is read.

    Raises:
        FormatError: empty, or a header alone.
        InputError: a column does not exist or does not hold what it should, or the first line
            could be a header or a row.
    """

    unit = "line"

    def __init__(self, asked: NodeFile, strings: bool, with_time: bool) -> None:
        self._path = Path(asked.path)
        self.name = self._path.name
        _, lines = sample_lines(self._path, self.name, "row", "a node")
        delimiter = _delimiter(self.name, [line for _, line in lines])
        table = [(number, split_line(line, delimiter)) for number, line in lines]
        header = _has_header(self.name, table, asked) if asked.header is None else asked.header
        self.header: Sequence[str] | None = None
        first = table[0][0]
        if header:
            # Text may start with # or %, so with text ids such lines are rows after the header.
            first += 1
            self.header = [field.decode("utf-8", "replace") for field in table.pop(0)[1]]
        if not table:
            raise FormatError(f"{self.name} has a header and no rows; expected a row per node")
        self._count = len(self.header if self.header is not None else table[0][1])
        numbers = [_is_number(table, column) for column in range(self._count)]
        self.columns = find_columns(self.name, self.header, self._count, asked, numbers)
        self._check_features(table)
        self._strings, self._time = strings, self.columns.time if with_time else -1
        self.text_labels = self.columns.label >= 0 and _is_text(
            self.name, table, self.columns.label, asked.label_kind
        )
        self.dates = self._time >= 0 and _are_dates(self.name, table, self._time)
        self._layout = Layout(delimiter, first_row=first, comments=not strings)
        self._table = self._new_table()

    def _check_features(self, table: list[Line]) -> None:
        for column in self.columns.features:
            for number, fields in table:
                if (
                    column < len(fields)
                    and fields[column]
                    and not _NUMBER.fullmatch(fields[column])
                ):
                    raise InputError(
                        f"{self.name} line {number} has {_shown(fields[column])} in column "
                        f"{column + 1}, expected a number; leave the column out of the features"
                    )

    def _new_table(self) -> _core.Table:
        columns = self.columns
        numbers = list(columns.features)
        classes: list[int] = []
        if columns.label >= 0:
            (classes if self.text_labels else numbers).append(columns.label)
        if columns.split >= 0:
            classes.append(columns.split)
        return _core.Table(
            count=self._count,
            id=columns.id,
            text_ids=self._strings,
            time=self._time,
            dates=self.dates,
            numbers=numbers,
            classes=classes,
        )

    def rows(self, step: int) -> Iterator[NodeTableChunk]:
        """Reads the table in order, at most `step` rows at a time."""
        self._table = self._new_table()
        width = len(self.columns.features) + (self.columns.label >= 0 and not self.text_labels)
        kinds = self.text_labels + (self.columns.split >= 0)

        def parse(lines: _core.Lines, text: Array) -> tuple[NodeTableChunk, int, int, int]:
            room = min(step, text.size // max(2, self._count) + 1)
            places, ids = np.empty(room, np.int64), np.empty(room, np.uint64)
            numbers, classes = np.empty((room, width)), np.empty((room, kinds), np.int32)
            times = np.empty(room if self._time >= 0 else 0, np.int64)
            data = np.empty(text.size if self._strings else 0, np.uint8)
            held = np.empty(room if self._strings else 0, np.uint64)
            offsets = np.zeros(len(held) + 1, np.int64)
            rows, count, size, named = self._table.parse(
                lines,
                text,
                places,
                ids,
                data,
                offsets,
                held,
                numbers.reshape(-1),
                classes.reshape(-1),
                times,
            )
            names = Strings(data[: offsets[named]], offsets[: named + 1], held[:named])
            found = self._row_arrays(numbers[:rows], classes[:rows])
            made = NodeTableChunk(
                ids[:rows] if self._strings else ids[:rows].view(np.int64),
                names if self._strings else None,
                places[:rows],
                *found,
                times[:rows] if self._time >= 0 else None,
            )
            return made, rows, count, size

        row_bytes = 16 + 8 * width + 4 * kinds
        yield from drive(self._path, step, row_bytes, self._layout, parse)

    def _row_arrays(
        self, numbers: npt.NDArray[np.float64], classes: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.float64], Array | None, npt.NDArray[np.int32] | None]:
        """Features, labels and splits of rows as they were parsed."""
        features = numbers[:, : len(self.columns.features)]
        label: Array | None = None
        if self.columns.label >= 0:
            label = classes[:, 0] if self.text_labels else numbers[:, -1]
        return features, label, classes[:, -1] if self.columns.split >= 0 else None

    def classes(self) -> list[str]:
        """Names of the classes that labels had so far, by number."""
        return self._table.classes(0) if self.text_labels else []

    def splits(self) -> list[str]:
        """Names of the splits so far, by number."""
        return self._table.classes(int(self.text_labels)) if self.columns.split >= 0 else []


def _delimiter(file: str, rows: list[bytes]) -> str:
    """The delimiter; a table of one column has none, and is read as one of commas."""
    if not any(re.search(rb"[\t,;| ]", row.strip()) for row in rows):
        return ","
    return find_delimiter(file, rows)


def _has_header(file: str, table: list[Line], asked: NodeFile) -> bool:
    """Whether the first line holds names.

    Raises:
        InputError: it could also be a row.
    """
    columns = (asked.id, asked.label, asked.split, asked.time, *(asked.features or ()))
    if any(c is not None and not re.fullmatch("[0-9]+", str(c)) for c in columns):
        return True
    number, first = table[0]
    if any(not field or _NUMBER.fullmatch(field) for field in first):
        return False
    if {plain_name(field.decode("utf-8", "replace")) for field in first} & _USUAL:
        return True
    if any(_NUMBER.fullmatch(field) for _, fields in table[1:] for field in fields):
        return True
    raise InputError(
        f"{file} line {number} could be column names or a row; pass --node-header yes to skip the "
        "line or --node-header no to read it"
    )


def _fields(table: list[Line], column: int) -> list[tuple[int, bytes]]:
    """The fields of a column that hold something, and their lines."""
    return [(n, fields[column]) for n, fields in table if column < len(fields) and fields[column]]


def _is_number(table: list[Line], column: int) -> bool:
    held = _fields(table, column)
    return bool(held) and all(_NUMBER.fullmatch(field) for _, field in held)


def _is_text(file: str, table: list[Line], column: int, kind: str) -> bool:
    """Whether labels are names; a mixture of names and numbers is refused."""
    if kind != "auto":
        return kind == "text"
    held = _fields(table, column)
    odd = [(n, field) for n, field in held if not _NUMBER.fullmatch(field)]
    if odd and len(odd) < len(held):
        raise InputError(
            f"{file} line {odd[0][0]} has the label {_shown(odd[0][1])}, but other lines have "
            "numbers; correct it, or pass --node-label-kind text if labels are names"
        )
    return bool(odd)


def _are_dates(file: str, table: list[Line], column: int) -> bool:
    """Whether times are dates; anything but dates alone or whole numbers alone is refused."""
    held = _fields(table, column)
    odd = [one for one in held if not are_integers([one[1]], [0])]
    if not odd:
        return False
    bad = odd[:1] if len(odd) < len(held) else [one for one in odd if not _is_date(one[1])]
    if bad:
        raise InputError(
            f"{file} line {bad[0][0]} has {_shown(bad[0][1])} in column {column + 1}, expected "
            "times: whole numbers, or dates such as 2024-02-29 or 2024-02-29T12:30:00"
        )
    return True


def _is_date(field: bytes) -> bool:
    return _core.parse_time(field.decode("utf-8", "replace")) is not None


def _shown(field: bytes) -> str:
    text = field.decode("utf-8", "replace")
    return repr(text if len(text) <= 40 else text[:40] + "...")
