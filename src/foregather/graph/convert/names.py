"""names: stores the original strings of numbered nodes in the order of their keys.

Distinct names are held in a table of the core, which sorts them by key. When the table has used its
memory, its names go to a scratch file and their places to a spool, and it starts anew; so the
number of names is not bounded by memory. Two different names with one key are refused: in the table
by comparing their bytes, between two fillings of it by a second hash of another seed.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import BudgetError, InputError
from foregather.graph.convert.source import Strings
from foregather.graph.convert.spool import Spool
from foregather.graph.on_disk.files import discard, read_at, storage_error, write_all
from foregather.graph.on_disk.writer import FolderWriter
from foregather.units import format_bytes

__all__ = ["NameTable", "string_keys"]

Array = npt.NDArray[Any]
Keys = npt.NDArray[np.uint64]
Int = npt.NDArray[np.int64]
Text = npt.NDArray[np.uint8]
_PLACE = np.dtype([("key", "<u8"), ("check", "<u8"), ("start", "<i8"), ("length", "<i8")])
_CHECK_SEED = 0x5EED
_MOST_NAMES = 1 << 18  # handed out at once
_MOST_TEXT = 4 << 20


def string_keys(names: Strings, seed: int = 0) -> Keys:
    """XXH64 of each string."""
    keys = np.empty(len(names.offsets) - 1, np.uint64)
    _core.hash_strings(names.data, names.offsets, keys, seed)
    return keys


class NameTable:
    """Collects strings; `finish` writes each distinct one once, by ascending key.

    Args:
        writer: the folder being made; gets `mapping_bytes` and `mapping_offsets`.
        memory: bytes this may use: two thirds for the table, the rest where it overflows.
        threads: threads of the kernels, 0 for all.
    """

    def __init__(self, writer: FolderWriter, memory: int, threads: int = 0) -> None:
        self.writer, self.memory, self.threads = writer, memory, threads
        self._table = _core.NameTable(2 * memory // 3)
        self._overflow: _Overflow | None = None

    def add(self, names: Strings) -> None:
        """Adds strings; duplicates are allowed.

        Raises:
            InputError: two different strings have one key.
        """
        keys = string_keys(names) if names.keys is None else names.keys
        taken = 0
        while True:
            try:
                taken = self._table.add(names.data, names.offsets, keys, taken)
            except MemoryError as error:  # for example under an address-space limit
                raise BudgetError(
                    f"cannot allocate {format_bytes(2 * self.memory // 3)} for names; pass a "
                    "smaller --memory"
                ) from error
            if taken == len(keys):
                return
            self._spill()

    def _spill(self) -> None:
        if self._overflow is None:
            self._overflow = _Overflow(self.writer, self.memory // 6, self.threads)
        self._overflow.begin()
        for keys, lengths, text in self._drain():
            self._overflow.add(keys, lengths, text)

    def _drain(self) -> Iterator[tuple[Keys, Int, Text]]:
        """Hands out the names of the table by ascending key, and empties it."""
        names = max(1, min(_MOST_NAMES, self.memory // 96))
        room = max(1, min(_MOST_TEXT, self.memory // 24))
        left = len(self._table)
        while left:
            keys, lengths = np.empty(names, np.uint64), np.empty(names, np.int64)
            text = np.empty(max(room, self._table.next_length()), np.uint8)
            count, size = self._table.next(keys, lengths, text)
            yield keys[:count], lengths[:count], text[:size]
            left -= count
        self._table.clear()

    def finish(self) -> Iterator[Keys]:
        """Writes the arrays; yields the distinct keys, ascending, in pieces."""
        parts, rows = self._drain(), len(self._table) + 1
        if self._overflow is not None:
            self._spill()
            parts = self._overflow.sorted(self.memory // 3)
        known = None if self._overflow is not None else rows
        offsets = self.writer.array("mapping_offsets", np.int64, rows=known)
        offsets.append(np.zeros(1, np.int64))
        out = self.writer.array("mapping_bytes", np.uint8)
        for keys, lengths, text in parts:
            offsets.append(np.cumsum(lengths) + out.rows)
            out.append(text)
            yield keys
        self.writer.close("mapping_offsets")
        self.writer.close("mapping_bytes")
        if self._overflow is not None:
            self._overflow.close()


class _Overflow:
    """Names beyond memory: their text in a scratch file, their places in a spool.

    Names come in fillings of the table, each by ascending key. So those of a range of keys lie
    together in every filling, and are read with one read each.
    """

    def __init__(self, writer: FolderWriter, memory: int, threads: int) -> None:
        self._path = writer.scratch("strings")
        try:
            self._file = open(self._path, "w+b", buffering=0)  # noqa: SIM115 - closed in close()
        except OSError as error:
            raise storage_error(error, self._path, "making") from error
        writer.defer(partial(discard, self._file, self._path))
        self._end = 0
        self._fillings: list[int] = []  # where each begins
        self._places = Spool(writer.scratch("places"), _PLACE, memory, ("key",), threads=threads)
        writer.defer(self._places.close)

    def begin(self) -> None:
        """Starts a filling: the keys that follow ascend."""
        self._fillings.append(self._end)

    def add(self, keys: Keys, lengths: Int, text: Text) -> None:
        places = np.empty(len(keys), _PLACE)
        ends = np.cumsum(lengths)
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        places["key"], places["length"] = keys, lengths
        places["check"] = string_keys(Strings(text, offsets), _CHECK_SEED)
        places["start"] = self._end + ends - lengths
        self._end += write_all(self._file, text, self._path)
        self._places.append(places)

    def sorted(self, memory: int) -> Iterator[tuple[Keys, Int, Text]]:
        """Yields each distinct name once, by ascending key; about `memory` bytes are used.

        Raises:
            InputError: two different names have one key.
        """
        each = 3 * _PLACE.itemsize + 2 * self._end // max(1, self._places.count)
        limit = memory // each * _PLACE.itemsize
        last = np.empty(0, _PLACE)  # a frequent key may be split over several groups
        for group in self._places.groups(limit):
            found = group.records  # a name of no bytes starts where the next one does
            places = found[np.lexsort((found["length"], found["start"]))]
            data = self._read(places)
            places = places[np.argsort(places["key"], kind="stable")]
            first = np.ones(len(places), np.bool_)
            first[1:] = places["key"][1:] != places["key"][:-1]
            same = places["check"][np.flatnonzero(first)[np.cumsum(first) - 1]]
            known = len(last) > 0 and places["key"][0] == last["key"][0]
            if (same != places["check"]).any() or (known and same[0] != last["check"][0]):
                raise InputError(
                    "two different string ids have the same 64-bit key; rename one, or number the "
                    "nodes yourself"
                )
            first[0] = not known
            last = places[-1:].copy()
            chosen = places[first]
            lengths = np.ascontiguousarray(chosen["length"])
            text = np.empty(int(lengths.sum()), np.uint8)
            _core.gather_slices(data, np.ascontiguousarray(chosen["start"]), lengths, text)
            yield np.ascontiguousarray(chosen["key"]), lengths, text

    def _read(self, places: Array) -> Text:
        """Reads the text of places in order of `start`, which is then where it is in the text."""
        bounds = np.searchsorted(places["start"], self._fillings)
        pieces = [part for part in np.split(places, bounds) if len(part)]
        sizes = [int(p["start"][-1] + p["length"][-1] - p["start"][0]) for p in pieces]
        data, done = np.empty(sum(sizes), np.uint8), 0
        for part, size in zip(pieces, sizes, strict=True):
            begin = int(part["start"][0])
            read_at(self._file.fileno(), data[done : done + size], begin, self._path)
            part["start"] += done - begin  # a view of `places`
            done += size
        return data

    def close(self) -> None:
        self._places.close()
        discard(self._file, self._path)
