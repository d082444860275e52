"""names: stores the original strings of numbered nodes in the order of their numbers.

Strings are kept in a scratch file; a spool sorts their positions by key. Each key is stored with a
second hash of another seed, so two different strings with the same key are detected.
"""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, InputError
from foregather.graph.convert.source import Strings
from foregather.graph.convert.spool import Spool
from foregather.graph.mapped import Mapped
from foregather.graph.on_disk.files import discard, storage_error, write_all
from foregather.graph.on_disk.writer import FolderWriter

__all__ = ["NameTable", "string_keys"]

Array = npt.NDArray[Any]
_PLACE = np.dtype([("key", "<u8"), ("check", "<u8"), ("start", "<i8"), ("length", "<i8")])
_CHECK_SEED = 0x5EED


def string_keys(names: Strings, seed: int = 0) -> npt.NDArray[np.uint64]:
    """XXH64 of each string."""
    keys = np.empty(len(names.offsets) - 1, np.uint64)
    _core.hash_strings(names.data, names.offsets, keys, seed)
    return keys


class NameTable:
    """Collects strings; `finish` writes each distinct one once, by ascending key.

    Args:
        writer: the folder being made; gets `mapping_bytes` and `mapping_offsets`.
        memory: bytes this may use.
        threads: threads of the kernels, 0 for all.
    """

    def __init__(self, writer: FolderWriter, memory: int, threads: int = 0) -> None:
        self.writer, self.memory = writer, memory
        self._path = writer.scratch("strings")
        try:
            self._file = open(self._path, "w+b", buffering=0)  # noqa: SIM115 - closed in finish()
        except OSError as error:
            raise storage_error(error, self._path, "making") from error
        self._end = 0
        self._places = Spool(
            writer.scratch("places"), _PLACE, memory // 3, ("key",), threads=threads
        )
        writer.defer(self._places.close)
        writer.defer(partial(discard, self._file, self._path))

    def add(self, names: Strings) -> None:
        """Adds strings; duplicates are allowed."""
        keys = string_keys(names)
        distinct, first = np.unique(keys, return_index=True)
        check = string_keys(names, _CHECK_SEED)
        lengths = np.diff(names.offsets)[first]
        places = np.empty(len(distinct), _PLACE)
        places["key"], places["check"], places["length"] = distinct, check[first], lengths
        places["start"] = self._end + np.cumsum(lengths) - lengths
        self._refuse_collision(keys, check, distinct, check[first])
        text = np.empty(int(lengths.sum()), np.uint8)
        _core.gather_slices(names.data, names.offsets[first], lengths, text)
        self._end += write_all(self._file, text, self._path)
        self._places.append(places)

    @staticmethod
    def _refuse_collision(keys: Array, check: Array, distinct: Array, expected: Array) -> None:
        if (expected[np.searchsorted(distinct, keys)] != check).any():
            raise InputError(
                "two different string ids have the same 64-bit key; rename one, or number the "
                "nodes yourself"
            )

    def finish(self, count: int) -> None:
        """Writes the arrays; `count` distinct strings are expected."""
        data = np.empty(0, np.uint8)
        if self._end:
            data = np.asarray(Mapped(self._file, self._end, self._path, self._path.name))
        offsets = self.writer.array("mapping_offsets", np.int64, rows=count + 1)
        offsets.append(np.zeros(1, np.int64))
        out = self.writer.array("mapping_bytes", np.uint8)
        last = np.empty(0, _PLACE)  # a frequent key may be split over several groups
        for group in self._places.groups(self.memory // 8):
            places = np.concatenate([last, group.records])
            places = places[np.argsort(places["key"], kind="stable")]
            distinct, first = np.unique(places["key"], return_index=True)
            chosen = places[first]
            self._refuse_collision(places["key"], places["check"], distinct, chosen["check"])
            if len(last) and chosen["key"][0] == last["key"][0]:
                chosen = chosen[1:]
            last = places[-1:]
            lengths = np.ascontiguousarray(chosen["length"])
            text = np.empty(int(lengths.sum()), np.uint8)
            starts = np.ascontiguousarray(chosen["start"])
            _core.gather_slices(data, starts, lengths, text)
            offsets.append(np.cumsum(lengths) + out.rows)
            out.append(text)
        if offsets.rows != count + 1:
            raise FormatError(
                f"edges name {count} distinct strings, but {offsets.rows - 1} were given"
            )
        self.writer.close("mapping_offsets")
        self.writer.close("mapping_bytes")
        self._places.close()
        discard(self._file, self._path)
