"""joined: finds the nodes of a whole column of ids that do not fit into memory, by sorting both.

The keys of the column are sorted through a spool and met with the sorted ids, one pass over each;
the nodes found are sorted back into the order of the column. So the work grows with the rows and
the ids, not with their product.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.convert.scratch import Scratch
from foregather.graph.convert.spool import Group, Spool
from foregather.graph.convert.typed.lookup.index import Index
from foregather.graph.convert.typed.lookup.keys import Keys
from foregather.graph.on_disk.writer import FolderWriter
from foregather.observe.progress import Progress

__all__ = ["JoinedColumn"]

_U8 = np.dtype("<u8")
_KEY = np.dtype([("key", "<u8"), ("place", "<u8"), ("check", "<u8")])
_FOUND = np.dtype([("place", "<u8"), ("row", "<i8")])


class JoinedColumn:
    """The nodes that a column names, found beforehand; batches are then answered in order.

    Args:
        index: of ids that do not fit into memory.
        columns: every batch of the column, each with the words for it.
        writer: the folder being made; scratch files are next to it.
        name: of the scratch files.
        memory: bytes this may use, about.
        threads: threads of the kernels, 0 for all.

    Raises:
        InputError: the column holds ids of another kind.
    """

    def __init__(
        self,
        index: Index,
        columns: Iterable[tuple[Any, str]],
        writer: FolderWriter,
        name: str,
        memory: int,
        threads: int,
    ) -> None:
        self.count, self.kind = index.count, index.kind
        self._index, self._threads, self._memory = index, threads, memory
        self._next = self._read = 0
        self._keys, self._found = (
            Spool(writer.scratch(f"{name}-{what}"), dtype, memory // 8, (by,), threads=threads)
            for what, dtype, by in (("keys", _KEY, "key"), ("found", _FOUND, "place"))
        )
        self._rows = Scratch(writer.scratch(f"{name}-rows"))
        for file in (self._keys, self._found, self._rows):
            writer.defer(file.close)
        for column, where in columns:
            self._add(index.keys_of(column, where))
        self._meet()
        for group in self._found.groups(memory // 4):
            records = group.records[np.argsort(group.records["place"], kind="stable")]
            self._rows.append(np.ascontiguousarray(records["row"]))
        self._found.close()

    def _add(self, keys: Keys) -> None:
        places = np.arange(self._next, self._next + len(keys.key), dtype=np.uint64)
        self._next += len(places)
        self._put(places[~keys.there], np.int64(-1))
        records = np.zeros(int(keys.there.sum()), _KEY)
        records["key"], records["place"] = keys.key[keys.there], places[keys.there]
        if keys.check is not None:
            records["check"] = keys.check[keys.there]
        self._keys.append(records)

    def _put(self, places: Any, rows: Any) -> None:
        records = np.empty(len(places), _FOUND)
        records["place"], records["row"] = places, rows
        self._found.append(records)

    def _meet(self) -> None:
        """Goes through keys and ids side by side."""
        start, step = 0, max(1, self._memory // 256)
        with Progress("finding nodes", self._keys.count, "ids") as bar:
            for group in self._keys.groups(self._memory // 8):
                rows = np.full(len(group.records), -1, np.int64)
                while start < self._index.keys:
                    part = self._index.part(start, min(step, self._index.keys - start))
                    self._match(group, part, rows)
                    if int(part["key"][-1]) >= group.high:
                        break  # it may hold ids of the next group as well
                    start += len(part["key"])
                self._put(group.records["place"], rows)
                bar.advance(len(rows))
                if group.partial:
                    start = max(0, start - step)  # the rest of one key comes next
        self._keys.close()

    def _match(self, group: Group, part: dict[str, Any], rows: npt.NDArray[np.int64]) -> None:
        place = np.empty(len(rows), np.int64)
        keys = np.ascontiguousarray(group.records["key"])
        _core.KeyIndex(part["key"]).find(keys, place, self._threads)
        hit = np.flatnonzero(place >= 0)
        if "check" in part:
            hit = hit[part["check"][place[hit]] == group.records["check"][hit]]
        rows[hit] = part["row"][place[hit]].view(np.int64)

    def find(self, column: Any, where: str) -> npt.NDArray[np.int64]:
        """The nodes of the next batch, as `Finder.find`."""
        rows = self._rows.read(np.dtype("<i8"), self._read, len(column))
        self._read += len(column)
        return rows

    def close(self) -> None:
        """Removes the scratch file."""
        self._rows.close()
