"""mapped: array files, memory-mapped for inspection and read into memory for computation.

Opening a map takes no time, whatever its size, but a page that the disk cannot deliver ends the
process (the core says which file it was). So computations read instead: `fetch` returns the
contents of any view of a map through calls that can report errors, and `hold` does so for a whole
array and shares it among all its users. Other arrays are passed through unchanged.
"""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Literal
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.on_disk.files import room_for
from foregather.observe.progress import Progress

__all__ = ["Mapped", "fetch", "hold", "is_mapped", "owner_of", "shows_file", "take"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_PART = 64 << 20  # bytes between two checks for an interrupt; the core's threads share a part
_LONG = 1 << 30  # size from which loading shows a progress bar
_GAP = 32 << 10  # unneeded bytes read to save a call

#: Reads payload bytes from a position in the file into an array.
ReadPart = Callable[[int, Bytes], None]


class Mapped:
    """A file and its map; the arrays made from it keep it alive.

    Attributes:
        path: the file, for errors.
        descriptor: the mapped file, even if another file has its name now.
        read_part: reads a part of the file; unchecked by default.
    """

    def __init__(self, file: BinaryIO, size: int, path: Path, name: str) -> None:
        self.path = path
        self._size = size
        self._address, self._map = _core.map_file(file.fileno(), size, name)
        self.descriptor = os.dup(file.fileno())
        self.read_part: ReadPart = self._plain
        self._held: WeakValueDictionary[tuple[int, str, tuple[int, ...]], Array] = (
            WeakValueDictionary()
        )
        self._lock = threading.Lock()

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The bytes of the file, read-only, for NumPy."""
        return {
            "version": 3,
            "shape": (self._size,),
            "typestr": "|u1",
            "data": (self._address, True),
        }

    def _plain(self, position: int, into: Bytes) -> None:
        _core.read_range(self.descriptor, self.path.name, position, into, None)

    def position(self, view: Array) -> int:
        """The byte of the file at which a view begins."""
        return int(view.__array_interface__["data"][0]) - self._address

    def is_whole(self, view: Array) -> bool:
        """Whether a view is the array of the file, from its first number to its last."""
        return view.flags.c_contiguous and self.position(view) + view.nbytes == self._size

    def read(self, view: Array) -> Array:
        """Returns a copy of a contiguous view, read from the file by several threads.

        Raises:
            StorageError: it cannot be read, or ends early.
            FormatError: a block does not match its checksum.
        """
        order: Literal["C", "F"] = "C" if view.flags.c_contiguous else "F"
        first = self.position(view)
        made = room_for(view.shape, view.dtype, first, order)
        flat = made.reshape(-1, order=order).view(np.uint8)
        long = Progress(f"reading {self.path.name}", flat.size, "B") if flat.size >= _LONG else None
        with long or nullcontext() as bar:
            for start in range(0, flat.size, _PART):
                piece = flat[start : start + _PART]
                self.read_part(first + start, piece)
                if bar is not None:
                    bar.advance(piece.size)
        return made

    def read_gapped(self, view: Array) -> Array:
        """Returns a copy of a view with gaps; reads everything from its first to its last byte."""
        steps = [(n - 1) * step for n, step in zip(view.shape, view.strides, strict=True)]
        low, high = (sum(f(0, s) for s in steps) for f in (min, max))
        start = self.position(view)
        file: Bytes = np.asarray(self)
        flat = self.read(file[start + low : start + high + view.itemsize])
        made: Array = np.ndarray(view.shape, view.dtype, flat.data, -low, view.strides).copy()
        return made

    def hold(self, view: Array) -> Array:
        """Like `read`, but read-only, and read once for all holders."""
        key = (self.position(view), view.dtype.str, view.shape)
        with self._lock:
            made = self._held.get(key)
            if made is None:
                made = self.read(view)
                made.setflags(write=False)
                self._held[key] = made
        return made


def owner_of(view: Array) -> Mapped | None:
    """The map that a view belongs to, or None."""
    base: Any = view
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, Mapped) else None


def is_mapped(view: Array) -> bool:
    """Whether an array is a map of a file."""
    return owner_of(view) is not None


def shows_file(view: Array, folder: Path, entry: Mapping[str, Any]) -> bool:
    """Whether an array is that of a folder's file, by the entry that meta.json has of it."""
    if view.dtype != np.dtype(str(entry["dtype"])) or list(view.shape) != list(entry["shape"]):
        return False
    owner = owner_of(view)
    if owner is None:
        return view.size == 0  # nothing to map
    return owner.path == folder / str(entry["file"]) and owner.is_whole(view)


def fetch(view: Array) -> Array:
    """Returns the contents of a view in memory: read from the file if mapped, else the view itself.

    Raises:
        StorageError: the file cannot be read.
        FormatError: a block does not match its checksum.
    """
    owner = owner_of(view)
    if owner is None:
        return view
    if view.size == 0:
        return np.array(view)
    if view.flags.c_contiguous or view.flags.f_contiguous:
        return owner.read(view)
    return owner.read_gapped(view)


def hold(array: Array) -> Array:
    """Like `fetch`, for a whole array that is shared with all its other holders."""
    owner = owner_of(array)
    return array if owner is None or array.size == 0 else owner.hold(array)


def take(array: Array, ids: npt.NDArray[np.int64]) -> Array:
    """Returns rows of an array in the order of `ids`; runs of mapped rows are read at once.

    Raises:
        StorageError: the file cannot be read.
        FormatError: a block does not match its checksum.
    """
    if len(ids) == 0 or not is_mapped(array):
        return np.asarray(array[ids])
    first, last = int(ids[0]), int(ids[-1])
    if last - first + 1 == len(ids) and bool((np.diff(ids) == 1).all()):
        return fetch(array[first : last + 1])
    made = np.empty((len(ids), *array.shape[1:]), array.dtype)
    order = np.argsort(ids, kind="stable")
    ascending = ids[order]
    gap = max(1, _GAP // max(1, array.nbytes // len(array)))
    breaks = np.flatnonzero(np.diff(ascending) > gap) + 1
    for begin, end in zip([0, *breaks], [*breaks, len(ids)], strict=True):
        some = ascending[begin:end]
        rows = fetch(array[int(some[0]) : int(some[-1]) + 1])
        made[order[begin:end]] = rows[some - some[0]]
    return made
