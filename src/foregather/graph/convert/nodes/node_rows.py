"""node_rows: what a reader of node tables yields, and the columns that it found.

A reader streams the table as often as asked, a bounded number of rows at a time, in order.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.convert.nodes.node_options import NodeFile
from foregather.graph.convert.reading.columns import Column, find_column, plain_name
from foregather.graph.convert.source import Strings

__all__ = ["NodeColumns", "NodeReader", "NodeTableChunk", "find_columns"]

Array = npt.NDArray[Any]

_IDS = ("id", "node", "node_id", "nodeid", "name")
_LABELS = ("label", "class", "y")
_SPLITS = ("split",)
_TIMES = ("time", "timestamp", "date")


class NodeColumns(NamedTuple):
    """Columns by position from 0; -1 where there is none."""

    id: int
    label: int
    split: int
    time: int
    features: tuple[int, ...]
    left: tuple[int, ...]  # not read


class NodeTableChunk(NamedTuple):
    """Some rows, in the order of the table.

    Attributes:
        ids: int64, or XXH64 keys (uint64) of text.
        names: the texts, each distinct one at least once; None for integers.
        lines: where each row is: its line in a text, its row from 1 otherwise.
        features: float64 [n, width]; NaN where empty.
        label: float64, NaN where empty; or the number of a class, -1 where empty; or None.
        split: the number of a split, -1 where empty; or None.
        time: int64, `NO_TIME` where empty; or None.
    """

    ids: Array
    names: Strings | None
    lines: npt.NDArray[np.int64]
    features: npt.NDArray[np.float64]
    label: Array | None
    split: npt.NDArray[np.int32] | None
    time: npt.NDArray[np.int64] | None


class NodeReader(Protocol):
    """A table of nodes that can be read."""

    #: Short name for messages.
    name: str
    #: What a place in the table is called: "line" or "row".
    unit: str
    columns: NodeColumns
    #: Names of all columns, or None for a text without a header.
    header: Sequence[str] | None
    #: Labels are names of classes.
    text_labels: bool
    #: Times are dates, as microseconds since 1970.
    dates: bool

    def rows(self, step: int) -> Iterator[NodeTableChunk]:
        """Reads the table in order, at most `step` rows at a time."""
        ...

    def classes(self) -> list[str]:
        """Names of the classes that labels had so far, by number."""
        ...

    def splits(self) -> list[str]:
        """Names of the splits so far, by number."""
        ...


def column_name(reader: NodeReader, column: int) -> str:
    """A column as messages call it."""
    named = f" ({reader.header[column]})" if reader.header is not None else ""
    return f"column {column + 1}{named}"


def find_columns(
    file: str,
    names: Sequence[str] | None,
    count: int,
    asked: NodeFile,
    numbers: Sequence[bool],
) -> NodeColumns:
    """The columns asked for, or those of the usual names.

    Args:
        file: short name of the table, for messages.
        names: of the columns, or None.
        count: number of columns.
        asked: what the user says.
        numbers: for each column whether it holds numbers.

    Raises:
        InputError: a column does not exist, is asked for twice, or is no column of features.
    """

    def find(given: Column | None, usual: Sequence[str]) -> int:
        if given is not None:
            return find_column(file, names, count, given)
        return next((plain.index(name) for name in usual if name in plain), -1)

    plain = [plain_name(name) for name in names or ()]
    ids = max(0, find(asked.id, _IDS))
    label, split = find(asked.label, _LABELS), find(asked.split, _SPLITS)
    time = find(asked.time, _TIMES)
    used = [c for c in (ids, label, split, time) if c >= 0]
    if asked.features is None:
        features = tuple(c for c in range(count) if c not in used and numbers[c])
        for column in features:
            if names is not None and plain[column] in (*_LABELS, *_SPLITS):
                raise InputError(
                    f"{file} has the column {names[column]!r}, which would be a feature; name the "
                    "features with --node-features"
                )
    else:
        features = tuple(find_column(file, names, count, one) for one in asked.features)
    for column in (*used, *features):
        if (*used, *features).count(column) > 1:
            raise InputError(f"column {column + 1} of {file} is requested twice")
    left = tuple(c for c in range(count) if c not in used and c not in features)
    return NodeColumns(ids, label, split, time, features, left)
