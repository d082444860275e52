"""ids: finds the number of a node by the id that tables call it by.

An index is exact: text is found by a 64-bit key and then compared. It holds the ids of one type in
memory, text as it is and 16 bytes for each node.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.convert.typed.tables import arrow
from foregather.graph.convert.typed.values import is_text
from foregather.graph.hetero.text_ids import TextIds

__all__ = ["IdIndex", "IntegerIds", "RowIds", "TextIndex", "collect_ids", "index_ids"]

Rows = npt.NDArray[np.int64]


class IdIndex:
    """The ids of one node type.

    Attributes:
        count: how many nodes there are.
    """

    count: int

    def find(self, column: Any, where: str) -> Rows:
        """The node of each id of a column; -1 where it is missing or unknown.

        Raises:
            InputError: the column holds ids of another kind.
        """
        raise NotImplementedError(type(self).__name__)

    def original(self) -> npt.NDArray[np.int64] | TextIds | None:
        """What a node table keeps of them: None where they are 0 to count - 1."""
        raise NotImplementedError(type(self).__name__)


def _integers(column: Any, where: str, kind: str) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Whole numbers of a column, and where there are any."""
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    if not pa.types.is_integer(column.type):
        raise InputError(
            f"{where} holds {column.type}, but {kind}; make both the same, for example with "
            'ids = "text" for the node type'
        )
    there = column.is_valid().to_numpy(zero_copy_only=False)
    try:
        values: Rows = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise InputError(f"{where} holds an id that int64 does not") from error
    return values, there


class RowIds(IdIndex):
    """Ids that are row numbers from 0."""

    def __init__(self, count: int) -> None:
        self.count = count

    def find(self, column: Any, where: str) -> Rows:
        """As `IdIndex.find`."""
        values, there = _integers(column, where, "its node type is numbered from 0")
        return np.where(there & (values >= 0) & (values < self.count), values, -1)

    def original(self) -> None:
        """The ids need not be kept."""


class IntegerIds(IdIndex):
    """Whole numbers, each once."""

    def __init__(self, values: Rows, where: str) -> None:
        self.count = values.size
        self._values = values
        self._order = np.argsort(values, kind="stable")
        self._sorted = values[self._order]
        same = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if same.size:
            raise _twice(where, self._sorted[same[0]], self._order[same[0] : same[0] + 2])

    def find(self, column: Any, where: str) -> Rows:
        """As `IdIndex.find`."""
        values, there = _integers(column, where, "the ids of its node type are integers")
        if not self.count:
            return np.full(values.size, -1, np.int64)
        place = np.minimum(np.searchsorted(self._sorted, values), self.count - 1)
        there &= self._sorted[place] == values
        return np.where(there, self._order[place], -1)

    def original(self) -> Rows | None:
        """The ids in the order of the nodes."""
        same = np.array_equal(self._values, np.arange(self.count))
        return None if same else self._values


class TextIndex(IdIndex):
    """Text, each once."""

    def __init__(self, names: Any, where: str) -> None:
        pa = arrow()
        self.count = len(names)
        self._names = names.cast(pa.large_binary())
        packed = self._text = _packed(self._names)
        keys = _keys(packed)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        same = np.flatnonzero(self._keys[1:] == self._keys[:-1])
        if same.size:
            rows = self._order[same[0] : same[0] + 2]
            first, second = (self._text[int(row)] for row in rows)
            if first == second:
                raise _twice(where, first, rows)
            raise InputError(
                f"{where} holds {first!r:.80} and {second!r:.80}, which have the same 64-bit key; "
                "rename one of them"
            )

    def find(self, column: Any, where: str) -> Rows:
        """As `IdIndex.find`."""
        pa = arrow()
        if pa.types.is_null(column.type) or not self.count:
            return np.full(len(column), -1, np.int64)
        if not is_text(column):
            raise InputError(
                f"{where} holds {column.type}, but the ids of its node type are text; make both "
                'the same, for example with ids = "text" for the node type'
            )
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        distinct = column.dictionary.cast(pa.large_binary())
        packed = _packed(distinct)
        place = np.minimum(np.searchsorted(self._keys, _keys(packed)), self.count - 1)
        rows = self._order[place]
        equal = pa.compute.equal(self._names.take(pa.array(rows)), distinct)
        rows = np.where(equal.to_numpy(zero_copy_only=False).astype(np.bool_), rows, -1)
        at = column.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        found: Rows = np.append(rows, -1)[at]
        return found

    def original(self) -> TextIds:
        """The ids in the order of the nodes."""
        return self._text


def _packed(names: Any) -> TextIds:
    """The strings of a large_binary array without missing ones; it shares their memory."""
    _, offset_buffer, data_buffer = names.buffers()
    if len(names) == 0 or offset_buffer is None:
        return TextIds(np.empty(0, np.uint8), np.zeros(1, np.int64))
    offsets = np.frombuffer(offset_buffer, np.int64)[names.offset :][: len(names) + 1]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return TextIds(data[offsets[0] : offsets[-1]], offsets - offsets[0])


def _keys(names: TextIds) -> npt.NDArray[np.uint64]:
    keys = np.empty(len(names), np.uint64)
    _core.hash_strings(names.data, names.offsets, keys)
    return keys


def _twice(where: str, name: Any, rows: Any) -> InputError:
    first, second = sorted(int(row) + 1 for row in rows)
    return InputError(
        f"{where} holds {name!s:.80} in row {first} and in row {second}, expected each id once"
    )


def index_ids(columns: list[Any], where: str) -> IdIndex:
    """The index of an id column, whose batches are given in order.

    Raises:
        InputError: an id is missing, there twice, or neither a whole number nor text.
    """
    pa = arrow()
    whole = pa.chunked_array(columns).combine_chunks() if columns else pa.array([], pa.int64())
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    if pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    empty = whole.null_count
    if empty == 0 and is_text(whole):
        empty = pa.compute.sum(pa.compute.equal(whole, "")).as_py() or 0
    if empty:
        gone = whole.is_null() if whole.null_count else pa.compute.equal(whole, "")
        row = int(np.argmax(gone.to_numpy(zero_copy_only=False))) + 1
        raise InputError(f"{where} has no id in row {row}; every node needs one")
    if is_text(whole):
        return TextIndex(whole, where)
    if not pa.types.is_integer(whole.type) and len(whole):
        raise InputError(f"{where} holds {whole.type}, expected whole numbers or text as ids")
    values, _ = _integers(whole.cast(pa.int64()) if not len(whole) else whole, where, "")
    return IntegerIds(np.array(values), where)


def collect_ids(columns: Iterable[tuple[Any, str]], kind: str) -> IdIndex:
    """The index of a type that only edges name: ids ascend, text by its bytes.

    Args:
        columns: batches, each with the words for it.
        kind: the node type, for messages.

    Raises:
        InputError: some are whole numbers and some are text.
    """
    pa = arrow()
    found: Any = None
    for column, where in columns:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_null(column.type):
            continue
        if not is_text(column) and not pa.types.is_integer(column.type):
            raise InputError(f"{where} holds {column.type}, expected whole numbers or text as ids")
        column = column.cast(pa.large_string() if is_text(column) else pa.int64())
        if found is not None and found.type != column.type:
            raise InputError(
                f"{where} holds {column.type}, but other edges call nodes of type {kind!r} by "
                f'{found.type}; set ids = "text" for the node type'
            )
        column = pa.compute.unique(column.drop_null())
        if is_text(column):
            column = column.filter(pa.compute.not_equal(column, ""))
        found = column if found is None else pa.compute.unique(pa.concat_arrays([found, column]))
    if found is None:
        return RowIds(0)
    if is_text(found):
        found = found.cast(pa.large_binary())
    ordered = found.take(pa.compute.sort_indices(found))
    if pa.types.is_integer(found.type):
        return IntegerIds(ordered.to_numpy(zero_copy_only=False), kind)
    return TextIndex(ordered.cast(pa.large_string()), kind)
