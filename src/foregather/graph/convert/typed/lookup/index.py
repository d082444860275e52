"""index: finds the number of a node by the id that tables call it by, beyond memory too.

Keys are sorted through a spool, so their number is not bounded by memory; where they do not fit,
columns are sorted to meet them (`joined`). Text is found by one 64-bit key and compared by a second
one: two ids that agree in the first alone are refused where both are nodes, and never taken for
each other where one is not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.convert.scratch import Scratch
from foregather.graph.convert.spool import Spool
from foregather.graph.convert.typed.lookup.keys import (
    Keys,
    integer_keys,
    integers_of,
    text_keys,
    values_of,
)
from foregather.graph.on_disk.writer import FolderWriter
from foregather.observe.progress import Progress

__all__ = ["Finder", "Index", "IndexBuilder", "Kind"]

Rows = npt.NDArray[np.int64]
#: "rows": row numbers from 0; else the ids are what it says.
Kind = str

_U8 = np.dtype("<u8")
_INTEGER = np.dtype([("key", "<u8"), ("row", "<u8")])
_TEXT = np.dtype([("key", "<u8"), ("row", "<u8"), ("check", "<u8")])


class Index:
    """The ids of one node type.

    Args:
        count: how many nodes there are.
        kind: "rows", "integers" or "text".
        files: keys, ascending, the row of each, and of text the second key.
        keys: how many there are.
    """

    def __init__(
        self, count: int, kind: Kind, files: dict[str, Scratch] | None = None, keys: int = 0
    ) -> None:
        self.count, self.kind, self.keys = count, kind, keys
        self._files = files or {}

    @property
    def nbytes(self) -> int:
        """Memory that searching the whole of it takes."""
        return self.keys * (4 + 8 * len(self._files))  # 4: where keys begin

    def part(self, start: int, count: int) -> dict[str, npt.NDArray[np.uint64]]:
        """Some of the keys, with their rows and second keys."""
        return {name: file.read(_U8, start, count) for name, file in self._files.items()}

    def keys_of(self, column: Any, where: str) -> Keys:
        """The keys of a column.

        Raises:
            InputError: the column holds ids of another kind.
        """
        if self.kind == "text":
            return text_keys(column, where)
        values, there = integers_of(column, where, "the ids of its node type are integers")
        return Keys(integer_keys(np.ascontiguousarray(values)), None, there)

    def close(self) -> None:
        """Removes the scratch files."""
        for file in self._files.values():
            file.close()


class Finder:
    """Finds nodes by columns of ids, with the whole index in memory.

    Args:
        index: of a type.
        threads: threads of the kernel, 0 for all.
    """

    def __init__(self, index: Index, threads: int) -> None:
        self.count, self.kind = index.count, index.kind
        self._index, self._threads = index, threads
        self._held = index.part(0, index.keys) if index.kind != "rows" else {}
        self._search = _core.KeyIndex(self._held["key"]) if self._held else None

    def find(self, column: Any, where: str) -> Rows:
        """The node of each id of a column; -1 where it is missing or unknown.

        Raises:
            InputError: the column holds ids of another kind.
        """
        if self._search is None:
            values, there = integers_of(column, where, "its node type is numbered from 0")
            return np.where(there & (values >= 0) & (values < self.count), values, -1)
        keys = self._index.keys_of(column, where)
        place = np.empty(len(keys.key), np.int64)
        self._search.find(np.ascontiguousarray(keys.key), place, self._threads)
        hit = np.flatnonzero((place >= 0) & keys.there)
        if keys.check is not None:
            hit = hit[self._held["check"][place[hit]] == keys.check[hit]]
        result = np.full(len(place), -1, np.int64)
        result[hit] = self._held["row"][place[hit]].view(np.int64)
        return result

    def close(self) -> None:
        """Frees the memory."""
        self._held, self._search = {}, None


class IndexBuilder:
    """Collects the ids of a type in the order of its nodes, each of which must be there once.

    Args:
        writer: the folder being made; scratch files are next to it.
        name: of the scratch files.
        kind: "integers" or "text".
        memory: bytes this may use.
        threads: threads of the kernels, 0 for all.
    """

    def __init__(
        self, writer: FolderWriter, name: str, kind: Kind, memory: int, threads: int
    ) -> None:
        self.kind = kind
        self._writer, self._name, self._memory = writer, name, memory
        self._rows = 0
        self._ascending = True  # whole numbers that are those of the rows so far
        self._dtype = _TEXT if kind == "text" else _INTEGER
        self._spool = Spool(
            writer.scratch(f"{name}-ids"), self._dtype, memory // 4, ("key",), threads=threads
        )
        writer.defer(self._spool.close)

    def add(self, column: Any, where: str, gaps: bool = False) -> None:
        """Adds the ids of the next nodes.

        Args:
            column: of a batch.
            where: the words for it.
            gaps: a missing id is a node that cannot be named, not an error.

        Raises:
            InputError: an id is missing, or of another kind than the first ones.
        """
        check = None
        if self.kind == "text":
            found = text_keys(column, where)
            key, check, there = found.key, found.check, found.there
        else:
            values, there = integers_of(column, where, "its first ids are whole numbers")
            key = integer_keys(np.ascontiguousarray(values))
            self._ascending &= bool(
                there.all() and (values == np.arange(self._rows, self._rows + len(values))).all()
            )
        if not gaps and not there.all():
            row = self._rows + int(np.argmin(there)) + 1
            raise InputError(f"{where} has no id in row {row}; every node needs one")
        records = np.empty(len(key), self._dtype)
        records["key"] = key
        records["row"] = np.arange(self._rows, self._rows + len(key), dtype=np.uint64)
        if check is not None:
            records["check"] = check
        self._spool.append(records if there.all() else records[there])
        self._rows += len(key)

    @property
    def ascending(self) -> bool:
        """Whether the ids are whole numbers, those of the rows."""
        return self.kind == "integers" and self._ascending

    def finish(self, where: str, named: Callable[[int], str]) -> Index:
        """Sorts the keys.

        Args:
            where: the words for the column.
            named: the text of a row.

        Raises:
            InputError: an id is there twice; names both rows.
        """
        if self.ascending:
            self._spool.close()
            return Index(self._rows, "rows")
        names: list[str] = list(self._dtype.names or ())
        files = {name: Scratch(self._writer.scratch(f"{self._name}-{name}")) for name in names}
        for file in files.values():
            self._writer.defer(file.close)
        last: Any = None  # a key may be split over several groups
        with Progress("sorting ids", self._spool.count, "ids") as bar:
            for group in self._spool.groups(self._memory // 4):
                bar.advance(len(group.records))
                records = group.records[np.argsort(group.records["key"], kind="stable")]
                both = records if last is None else np.concatenate([last, records])
                same = np.flatnonzero(both["key"][1:] == both["key"][:-1])
                if same.size:
                    raise self._twice(both[same[0] : same[0] + 2], where, named)
                for name, file in files.items():
                    file.append(np.ascontiguousarray(records[name]))
                last = records[-1:].copy()
        count = self._spool.count
        self._spool.close()
        return Index(self._rows, self.kind, files, count)

    def _twice(self, pair: Any, where: str, named: Callable[[int], str]) -> InputError:
        first, second = sorted(int(row) for row in pair["row"])
        if self.kind == "integers":
            name = str(int(values_of(np.ascontiguousarray(pair["key"][:1]))[0]))
        else:
            name = named(first)
            other = named(second)
            if name != other:
                return InputError(
                    f"{where} holds {name!r:.80} and {other!r:.80}, which have the same 64-bit "
                    "key; rename one of them"
                )
        return InputError(
            f"{where} holds {name:.80} in row {first + 1} and in row {second + 1}, expected each "
            "id once"
        )
