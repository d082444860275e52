"""columns: writes the ids of a node type, of its table or as edges name them, and reads them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from foregather.errors import InputError
from foregather.graph.convert.spool import Spool
from foregather.graph.convert.typed.lookup.index import Index, IndexBuilder
from foregather.graph.convert.typed.lookup.keys import integer_keys, integers_of, packed, values_of
from foregather.graph.convert.typed.lookup.text_runs import TextRuns
from foregather.graph.convert.typed.tables import arrow
from foregather.graph.convert.typed.values import is_text, plain
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.mapped import fetch
from foregather.graph.on_disk.npy import map_array
from foregather.graph.on_disk.writer import FolderWriter

__all__ = ["IdColumn", "collect_ids", "kind_of", "stored_ids"]

_KEY = np.dtype([("key", "<u8")])


def kind_of(column: Any, where: str) -> str:
    """What the ids of a column are: "integers" or "text".

    Raises:
        InputError: neither.
    """
    pa = arrow()
    if is_text(column):
        return "text"
    if not pa.types.is_integer(plain(column).type) and not pa.types.is_null(column.type):
        raise InputError(f"{where} holds {column.type}, expected whole numbers or text as ids")
    return "integers"


def stored_ids(folder: Path, kind: str, memory: int) -> Iterator[Any]:
    """The ids of a type that is written, as columns."""
    pa = arrow()
    step = max(1, memory // 32)
    if kind == "integers":
        values = map_array(folder / "ids.npy")
        for start in range(0, len(values), step):
            yield pa.array(fetch(values[start : start + step]))
        return
    offsets, data = map_array(folder / "ids_offsets.npy"), map_array(folder / "ids_bytes.npy")
    for start in range(0, len(offsets) - 1, step):
        ends = fetch(offsets[start : start + step + 1])
        text = np.ascontiguousarray(fetch(data[int(ends[0]) : int(ends[-1])]))
        buffers = [None, pa.py_buffer(np.ascontiguousarray(ends - ends[0])), pa.py_buffer(text)]
        count = len(ends) - 1
        yield pa.LargeStringArray.from_buffers(count, buffers[1], buffers[2])


class IdColumn:
    """Writes the ids of a node table and makes their index.

    Args:
        writer: the folder being made.
        folder: of the type in it: "nodes/0".
        where: the words for the column.
        memory: bytes this may use.
        threads: threads of the kernels, 0 for all.
    """

    def __init__(
        self, writer: FolderWriter, folder: str, where: str, memory: int, threads: int
    ) -> None:
        self._writer, self._folder, self._where = writer, folder, where
        self._memory, self._threads = memory, threads
        self._builder: IndexBuilder | None = None

    def add(self, column: Any) -> None:
        """Writes the ids of the next nodes.

        Raises:
            InputError: one is missing, or they are neither whole numbers nor text.
        """
        pa = arrow()
        if self._builder is None:
            self._start(kind_of(column, self._where))
        assert self._builder is not None
        self._builder.add(column, self._where)
        column = plain(column)
        if self._builder.kind == "integers":
            self._ids.append(integers_of(column, self._where, "")[0].astype(np.int64, copy=False))
            return
        text = packed(column.cast(pa.large_binary()))
        self._ends.append(text.offsets[1:] + self._text.rows)
        self._text.append(text.data)

    def _start(self, kind: str) -> None:
        scratch = self._folder.replace("/", "-")
        self._builder = IndexBuilder(self._writer, scratch, kind, self._memory, self._threads)
        if kind == "integers":
            self._ids = self._writer.array(f"{self._folder}/ids", np.int64)
            return
        self._text = self._writer.array(f"{self._folder}/ids_bytes", np.uint8)
        self._ends = self._writer.array(f"{self._folder}/ids_offsets", np.int64)
        self._ends.append(np.zeros(1, np.int64))

    def finish(self) -> Index:
        """Finishes the arrays; ids that are the numbers of the rows are not kept.

        Raises:
            InputError: an id is there twice.
        """
        if self._builder is None:  # nothing names the type
            return Index(0, "rows")
        for name in ("ids",) if self._builder.kind == "integers" else ("ids_bytes", "ids_offsets"):
            self._writer.close(f"{self._folder}/{name}")
        if self._builder.ascending:
            self._writer.drop(f"{self._folder}/ids")
        return self._builder.finish(self._where, self._named)

    def _named(self, row: int) -> str:
        folder = self._writer.folder / self._folder
        ids = TextIds(map_array(folder / "ids_bytes.npy"), map_array(folder / "ids_offsets.npy"))
        return ids[row]


def collect_ids(columns: Iterable[tuple[Any, str]], kind: str, ids: IdColumn) -> int:
    """Writes the ids of a type that only edges name: ids ascend, text by its bytes.

    Args:
        columns: batches, each with the words for it.
        kind: the node type, for messages.
        ids: where they go.

    Returns:
        How many there are.

    Raises:
        InputError: some are whole numbers and some are text.
    """
    pa = arrow()
    found: _Distinct | None = None
    count = 0
    for column, where in columns:
        if pa.types.is_null(column.type):
            continue
        what = kind_of(column, where)
        if found is None:
            found = _Distinct(ids, what)
        if found.kind != what:
            shown = {"integers": "whole numbers", "text": "text"}
            raise InputError(
                f"{where} holds {shown[what]}, but other edges call nodes of type {kind!r} by "
                f'{shown[found.kind]}; set ids = "text" for the node type'
            )
        found.add(column, where)
    if found is not None:
        for part in found.sorted():
            ids.add(part)
            count += len(part)
    return count


class _Distinct:
    """The distinct ids of many columns, in order."""

    def __init__(self, ids: IdColumn, kind: str) -> None:
        self.kind = kind
        writer, memory = ids._writer, ids._memory
        scratch = ids._folder.replace("/", "-")
        self._runs: TextRuns | None = None
        self._keys: Spool | None = None
        self._limit = memory // 8
        if kind == "text":
            self._runs = TextRuns(writer, scratch, memory)
        else:
            path = writer.scratch(f"{scratch}-keys")
            self._keys = Spool(path, _KEY, memory // 8, ("key",), threads=ids._threads)
            writer.defer(self._keys.close)

    def add(self, column: Any, where: str) -> None:
        if self._runs is not None:
            self._runs.add(column)
            return
        assert self._keys is not None
        values, there = integers_of(column, where, "other edges call its nodes by whole numbers")
        keys = integer_keys(np.unique(values[there]))
        records = np.empty(len(keys), _KEY)
        records["key"] = keys
        self._keys.append(records)

    def sorted(self) -> Iterator[Any]:
        pa = arrow()
        if self._runs is not None:
            for texts in self._runs.sorted():
                yield texts.cast(pa.large_string())
            return
        assert self._keys is not None
        last = None
        for group in self._keys.groups(self._limit):
            keys = np.unique(group.records["key"])
            if last is not None and len(keys) and keys[0] == last:
                keys = keys[1:]  # the rest of one key that was split into parts
            if len(keys):
                last = keys[-1]
                yield pa.array(values_of(keys))
        self._keys.close()
