"""checked_reads: reads the file behind a map, checking each block against its checksum."""

import atexit
import threading
import weakref
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.integrity.blocks import open_sums, read_checked
from foregather.graph.mapped import Mapped
from foregather.graph.on_disk.meta import Meta
from foregather.graph.on_disk.npy import ALIGN

__all__ = ["CheckedReads"]


class CheckedReads:
    """Reads parts of an array file; the checksum table is loaded with the first part.

    Args:
        owner: the map, whose file stays open while this object is used.
        folder: of the graph.
        meta: of the folder, as it was when the graph was opened.
        name: of the array.
    """

    def __init__(self, owner: Mapped, folder: Path, meta: Meta, name: str) -> None:
        self._descriptor, self._path = owner.descriptor, owner.path
        self._where = (folder, meta, name)
        self._lock = threading.Lock()
        self._sums: _core.BlockSums | None = None

    def __call__(self, position: int, into: npt.NDArray[np.uint8]) -> None:
        """Fills an array with the bytes starting at a position in the file.

        Raises:
            StorageError: the file cannot be read, or ends early.
            FormatError: a block does not match; the message names file, block and rows.
        """
        with self._lock:
            sums = self._sums
            if sums is None:
                _holding.add(self)
                sums = self._sums = open_sums(*self._where)
        first = position - ALIGN
        read_checked(self._descriptor, first, first + into.size, self._path, sums, into)

    def forget(self) -> None:
        """Drops the table."""
        self._sums = None


_holding: weakref.WeakSet[CheckedReads] = weakref.WeakSet()


@atexit.register
def _forget_all() -> None:
    """Drops all tables at exit, because a pending exception may keep their graphs alive."""
    for reads in list(_holding):
        reads.forget()
