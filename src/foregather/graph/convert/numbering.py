"""numbering: maps sparse integers or strings to ids 0 to N-1, and stores the reverse mapping.

Integers are numbered in ascending order, strings in ascending order of their XXH64 key (two strings
with the same key are detected and refused, never merged). Keys are sorted through a spool, so their
number is not bounded by memory; edges wait in a scratch file until all keys are known.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.convert.names import NameTable
from foregather.graph.convert.source import EdgeChunk, Ids
from foregather.graph.convert.spool import Spool
from foregather.graph.convert.topology import check_weights, record_dtype
from foregather.graph.on_disk.files import discard, read_at, storage_error, write_all
from foregather.graph.on_disk.writer import FolderWriter
from foregather.observe.progress import Progress

__all__ = ["Numbering"]

Array = npt.NDArray[Any]
_KEY = np.dtype([("key", "<u8")])
_SIGN = np.uint64(1 << 63)  # flipping it makes signed order equal unsigned order


class Numbering:
    """Renumbers the nodes of a stream of edges.

    Args:
        writer: the folder being made; gets `mapping` (integers) or `mapping_bytes` and
            `mapping_offsets` (strings).
        ids: "sparse" or "string".
        weight: whether edges carry a weight.
        features: (width, dtype) of edge features or None.
        memory: bytes this may use.
        threads: threads of the kernels, 0 for all.
    """

    def __init__(
        self,
        writer: FolderWriter,
        ids: Ids,
        weight: bool,
        features: tuple[int, np.dtype[Any]] | None,
        memory: int,
        threads: int = 0,
    ) -> None:
        self.writer, self.ids, self.memory, self.threads = writer, ids, memory, threads
        self.count = 0
        self._position = 0
        self._dtype = record_dtype(True, weight, features)
        self._keys = Spool(writer.scratch("keys"), _KEY, memory // 6, ("key",), threads=threads)
        self._names = NameTable(writer, memory // 6, threads) if ids == "string" else None
        self._edges = _Scratch(writer.scratch("keyed"))
        self._sorted = _Scratch(writer.scratch("sorted"))
        for scratch in (self._keys, self._edges, self._sorted):
            writer.defer(scratch.close)

    def add(self, chunk: EdgeChunk) -> None:
        """Stores the edges of a chunk and their keys."""
        source, target = self._key(chunk.source, "source"), self._key(chunk.target, "target")
        if self._names is not None and chunk.names is not None:
            self._names.add(chunk.names)
        distinct = np.unique(np.concatenate([source, target]))
        self._keys.append(distinct.view(_KEY))
        records = np.empty(len(source), self._dtype)
        records["source"], records["target"] = source, target
        if "weight" in (self._dtype.names or ()):
            records["weight"] = check_weights(chunk.weight, self._position)
        if "features" in (self._dtype.names or ()):
            records["features"] = chunk.features
        self._edges.append(records)
        self._position += len(source)

    def _key(self, ids: Array, role: str) -> npt.NDArray[np.uint64]:
        if self.ids == "string":
            return ids.astype(np.uint64, copy=False)
        if ids.dtype.kind not in "iu":
            raise InputError(
                f"{role} ids have dtype {ids.dtype}, expected integers or strings to number"
            )
        keys: npt.NDArray[np.uint64] = ids.astype(np.int64).view(np.uint64) ^ _SIGN
        return keys

    def finish(self) -> int:
        """Numbers the keys, writes the mapping, and returns how many there are."""
        mapping = self.writer.array("mapping", np.int64) if self.ids == "sparse" else None
        last = None
        with Progress("numbering nodes", self._keys.count, "keys") as bar:
            for group in self._keys.groups(self.memory // 6):
                keys = np.unique(group.records["key"])
                if last is not None and len(keys) and keys[0] == last:
                    keys = keys[1:]  # the rest of one key that was split into parts
                if len(keys):
                    last = keys[-1]
                    self._sorted.append(keys)
                    if mapping is not None:
                        mapping.append((keys ^ _SIGN).view(np.int64))
                self.count += len(keys)
                bar.advance(len(group.records))
        self._keys.close()
        if mapping is not None:
            self.writer.close("mapping")
        if self._names is not None:
            self._names.finish(self.count)
        return self.count

    def edges(self) -> Iterator[EdgeChunk]:
        """Yields the edges again, in order, with their new ids."""
        step = max(1, self.memory // (6 * (self._dtype.itemsize + 32)))
        part = max(1, self.memory // (3 * 8))  # sorted keys held at a time
        whole = self._sorted.read(np.dtype("<u8"), 0, self.count) if self.count <= part else None
        names = (self._dtype.names or ())[2:]
        for start in range(0, self._position, step):
            records = self._edges.read(self._dtype, start, min(step, self._position - start))
            yield EdgeChunk(
                self._translate(records["source"], whole, part),
                self._translate(records["target"], whole, part),
                np.ascontiguousarray(records["weight"]) if "weight" in names else None,
                np.ascontiguousarray(records["features"]) if "features" in names else None,
            )
        self._edges.close()
        self._sorted.close()

    def _translate(self, keys: Array, whole: Array | None, part: int) -> Array:
        keys = np.ascontiguousarray(keys)
        result = np.full(len(keys), -1, np.int64)
        found = np.empty(len(keys), np.int64)
        for start in range(0, self.count, part):
            count = min(part, self.count - start)
            table = whole if whole is not None else self._sorted.read(np.dtype("<u8"), start, count)
            _core.lookup_sorted(table, keys, found, self.threads)
            hit = found >= 0
            result[hit] = found[hit] + start
        return result


class _Scratch:
    """Bytes appended in order and read back anywhere; removed with the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 - closed in close()
        except OSError as error:
            raise storage_error(error, path, "making") from error

    def append(self, values: Array) -> None:
        write_all(self._file, values, self.path)

    def read(self, dtype: np.dtype[Any], start: int, count: int) -> Array:
        values = np.empty(count, dtype)
        read_at(self._file.fileno(), values, start * dtype.itemsize, self.path)
        return values

    def close(self) -> None:
        discard(self._file, self.path)
