"""numbering: maps sparse integers or strings to ids 0 to N-1, and stores the reverse mapping.

Integers are numbered in ascending order, strings in ascending order of their XXH64 key (two strings
with the same key are detected and refused, never merged). Keys of integers are sorted through a
spool, those of strings by the table of names, so their number is not bounded by memory; edges wait
in a scratch file until all keys are known.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, InputError
from foregather.graph.convert.names import NameTable
from foregather.graph.convert.scratch import Scratch
from foregather.graph.convert.source import EdgeChunk, Ids, Strings
from foregather.graph.convert.spool import Spool
from foregather.graph.convert.topology import check_weights, record_dtype
from foregather.graph.mapped import fetch
from foregather.graph.on_disk.npy import map_array
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
        self._names = NameTable(writer, memory, threads) if ids == "string" else None
        self._keys: Spool | None = None
        if self._names is None:
            self._keys = Spool(writer.scratch("keys"), _KEY, memory // 6, ("key",), threads=threads)
            writer.defer(self._keys.close)
        self._edges = Scratch(writer.scratch("keyed"))
        self._sorted = Scratch(writer.scratch("sorted"))
        for scratch in (self._edges, self._sorted):
            writer.defer(scratch.close)

    def add(self, chunk: EdgeChunk) -> None:
        """Stores the edges of a chunk and their keys."""
        source, target = self._key(chunk.source, "source"), self._key(chunk.target, "target")
        if self._names is not None and chunk.names is not None:
            self._names.add(chunk.names)
        if self._keys is not None:
            self._keys.append(np.unique(np.concatenate([source, target])).view(_KEY))
        records = np.empty(len(source), self._dtype)
        records["source"], records["target"] = source, target
        if "weight" in (self._dtype.names or ()):
            records["weight"] = check_weights(chunk.weight, self._position)
        if "features" in (self._dtype.names or ()):
            records["features"] = chunk.features
        self._edges.append(records)
        self._position += len(source)

    def add_ids(self, ids: Array, names: Strings | None) -> None:
        """Stores ids (keys, where they are text) that are not edges'."""
        keys = self._key(ids, "node")
        if self._names is not None and names is not None:
            self._names.add(names)
        if self._keys is not None:
            self._keys.append(np.unique(keys).view(_KEY))

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
        parts = self._integers() if self._names is None else self._names.finish()
        for keys in parts:
            self._sorted.append(keys)
            self.count += len(keys)
        return self.count

    def _integers(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Yields the distinct keys, ascending, and writes the mapping."""
        assert self._keys is not None
        mapping = self.writer.array("mapping", np.int64)
        last = None
        with Progress("numbering nodes", self._keys.count, "keys") as bar:
            for group in self._keys.groups(self.memory // 6):
                keys = np.unique(group.records["key"])
                if last is not None and len(keys) and keys[0] == last:
                    keys = keys[1:]  # the rest of one key that was split into parts
                if len(keys):
                    last = keys[-1]
                    mapping.append((keys ^ _SIGN).view(np.int64))
                    yield keys
                bar.advance(len(group.records))
        self._keys.close()
        self.writer.close("mapping")

    def edges(self) -> Iterator[EdgeChunk]:
        """Yields the edges again, in order, with their new ids."""
        step = max(1, self.memory // (6 * (self._dtype.itemsize + 32)))
        find = self._finder()
        names = (self._dtype.names or ())[2:]
        for start in range(0, self._position, step):
            records = self._edges.read(self._dtype, start, min(step, self._position - start))
            yield EdgeChunk(
                self._known(find(records["source"]), start),
                self._known(find(records["target"]), start),
                np.ascontiguousarray(records["weight"]) if "weight" in names else None,
                np.ascontiguousarray(records["features"]) if "features" in names else None,
            )
        self._edges.close()

    def _finder(self) -> "_Finder":
        return _Finder(self._sorted, self.count, self.memory // 3, self.threads)

    def numbers(self) -> Callable[[Array], npt.NDArray[np.int64]]:
        """A function from ids (keys, where they are text) to numbers, -1 where unknown."""
        find = self._finder()
        return lambda ids: find(self._key(ids, "node"))

    def original(self, node: int) -> str:
        """The original id of a node, as messages show it."""
        folder = self.writer.folder
        if self.ids == "sparse":
            return str(int(fetch(map_array(folder / "mapping.npy")[node : node + 1])[0]))
        start, end = fetch(map_array(folder / "mapping_offsets.npy")[node : node + 2]).tolist()
        text = fetch(map_array(folder / "mapping_bytes.npy")[start : min(end, start + 60)])
        return repr(text.tobytes().decode("utf-8", "replace"))

    @staticmethod
    def _known(found: npt.NDArray[np.int64], start: int) -> npt.NDArray[np.int64]:
        if len(found) and int(found.min()) < 0:
            at = start + int(np.argmin(found))
            raise FormatError(f"edge {at} has the key of a name that was not given")
        return found


class _Finder:
    """Finds the numbers of keys: their positions among the sorted ones, -1 where absent.

    Args:
        keys: the sorted keys.
        count: how many there are.
        memory: bytes for keys and their index; more are searched in parts, one pass for each.
        threads: threads of the kernels, 0 for all.
    """

    def __init__(self, keys: Scratch, count: int, memory: int, threads: int) -> None:
        self._keys, self._count, self._threads = keys, count, threads
        self._part = max(1, memory // 12)  # 8 bytes of a key, at most 4 of the index
        self._whole = self._index(0) if count <= self._part else None

    def _index(self, start: int) -> _core.KeyIndex:
        count = min(self._part, self._count - start)
        return _core.KeyIndex(self._keys.read(np.dtype("<u8"), start, count))

    def __call__(self, keys: Array) -> npt.NDArray[np.int64]:
        keys = np.ascontiguousarray(keys)
        found = np.empty(len(keys), np.int64)
        if self._whole is not None:
            self._whole.find(keys, found, self._threads)
            return found
        result = np.full(len(keys), -1, np.int64)
        for start in range(0, self._count, self._part):
            self._index(start).find(keys, found, self._threads)
            hit = found >= 0
            result[hit] = found[hit] + start
        return result
