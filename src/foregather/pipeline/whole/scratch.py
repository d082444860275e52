"""scratch: rows of all nodes in a file without a name, written and read by pieces past the cache.

The file is reserved before the first epoch, so a disk that is too full says so at once, and it has
no name, so nothing is left behind, whatever ends the process. One thread moves the bytes in the
order in which they were asked for: pieces are written while the next is computed, and the piece
after one that is read is read ahead.
"""

import contextlib
import errno
import fcntl
import math
import mmap
import os
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foregather.errors import StorageError
from foregather.pipeline.whole.pieces import Pieces
from foregather.units import format_bytes

__all__ = ["Scratch", "Spilled", "padded_bytes"]

_PAGE = 4096
_STEP = 8 << 20  # bytes of one read or write


def padded_bytes(pieces: Pieces, row_bytes: int) -> int:
    """Bytes in the file of rows of all nodes: every piece begins with a page."""
    return sum(_padded(span, row_bytes) for span in pieces.spans)


def _padded(span: slice, row_bytes: int) -> int:
    rows: int = span.stop - span.start
    return -(-rows * row_bytes // _PAGE) * _PAGE


class Scratch:
    """A nameless file of a fixed size.

    Args:
        folder: where it is made.
        size: its bytes.

    Raises:
        StorageError: the folder cannot be written, or the disk has not this much space.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self.size = folder, size
        try:
            self._file = _nameless(folder)
            os.posix_fallocate(self._file, 0, max(1, size))
        except OSError as error:
            raise self._refused(error, f"reserve {format_bytes(size)} for") from error
        self.direct = _set_direct(self._file)
        self._free: list[tuple[int, int]] = [(0, size)]
        self._thread = ThreadPoolExecutor(1, "scratch")
        self.written = self.read = 0

    def reset(self) -> None:
        """Takes all parts back, those of an epoch that failed too."""
        self._thread.submit(int).result()  # what was on its way has arrived
        self._free = [(0, self.size)]

    def region(self, size: int) -> int:
        """Takes a part of the file; returns where it begins."""
        for place, (first, room) in enumerate(self._free):
            if room >= size:
                self._free[place] = (first + size, room - size)
                return first
        raise StorageError(
            f"the scratch file of {format_bytes(self.size)} is used up, expected less; "
            "please report this"
        )

    def give_back(self, first: int, size: int) -> None:
        """Returns a part of the file, which joins its neighbours."""
        merged: list[tuple[int, int]] = []
        for one, room in sorted([*self._free, (first, size)]):
            if merged and sum(merged[-1]) == one:
                one, room = merged[-1][0], merged.pop()[1] + room
            if room:
                merged.append((one, room))
        self._free = merged

    def write(self, place: int, data: memoryview) -> "Future[None]":
        """Writes whole pages, in turn."""
        self.written += len(data)
        return self._thread.submit(self._move, place, data, os.pwrite)

    def fetch(self, place: int, data: memoryview) -> "Future[None]":
        """Reads whole pages, in turn."""
        self.read += len(data)
        return self._thread.submit(self._move, place, data, self._pread)

    def _pread(self, file: int, data: memoryview, place: int) -> int:
        return os.preadv(file, [data], place)

    def _move(self, place: int, data: memoryview, call: Any) -> None:
        done = 0
        while done < len(data):
            try:
                moved = call(self._file, data[done : done + _STEP], place + done)
            except OSError as error:
                raise self._refused(error, "use") from error
            if moved <= 0:
                raise self._refused(OSError(errno.EIO, os.strerror(errno.EIO)), "use")
            done += moved

    def _refused(self, error: OSError, doing: str) -> StorageError:
        return StorageError(
            f"cannot {doing} activations in {self._folder}: {error.strerror}; free space there, or "
            "give Runtime(scratch=...) another folder"
        )

    def close(self) -> None:
        """Ends the thread and gives the space back."""
        self._thread.shutdown()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0 and hasattr(self, "_thread"):
            self.close()


def _nameless(folder: Path) -> int:
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
    file, name = tempfile.mkstemp(dir=folder)  # a file system without nameless files
    os.unlink(name)
    return file


def _set_direct(file: int) -> bool:
    """Makes reads and writes go past the page cache, where the file system allows it."""
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    try:
        fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_DIRECT)
        probe = mmap.mmap(-1, _PAGE)
        os.pwrite(file, probe, 0)
    except OSError:
        fcntl.fcntl(file, fcntl.F_SETFL, flags)
        return False
    return True


def _pages(size: int) -> mmap.mmap:
    """Whole pages of memory of this process alone, large ones where the system has them."""
    room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):
        room.madvise(mmap.MADV_HUGEPAGE)
    return room


class Spilled:
    """A store in a scratch file.

    Args:
        scratch: the file.
        pieces: how the nodes are cut.
    """

    def __init__(self, scratch: Scratch, pieces: Pieces) -> None:
        self._scratch, self._pieces = scratch, pieces
        self._places: list[int] = []
        self._size = 0
        self._like: Tensor | None = None
        self._writes: dict[int, Future[None]] = {}
        self._ahead: dict[int, tuple[Tensor, Future[None]]] = {}

    def put(self, piece: int, rows: Tensor) -> Tensor:
        """Stores the rows of a piece; returns them as they are."""
        rows = rows.detach()
        if not self._places:
            self._begin(rows)
        if piece in self._writes:
            self._writes.pop(piece).result()
        self._ahead.pop(piece, None)
        for waiting in [n for n, one in self._writes.items() if one.done()]:
            self._writes.pop(waiting).result()
        if len(self._writes) > 1:  # at most two on the way, so that memory is bounded
            self._writes.pop(next(iter(self._writes))).result()
        buffer, data = self._buffer(piece)
        buffer.copy_(rows)
        self._writes[piece] = self._scratch.write(self._places[piece], data)
        return rows

    def get(self, piece: int) -> Tensor:
        """The rows of a piece, read from the file; the next one is read ahead."""
        rows, done = self._ahead.pop(piece) if piece in self._ahead else self._fetch(piece)
        for following in range(piece + 1, min(piece + 2, len(self._pieces))):
            if following not in self._ahead:
                self._ahead[following] = self._fetch(following)
        done.result()
        return rows

    take = get

    def add(self, piece: int, rows: Tensor) -> None:
        """Adds to the rows of a piece."""
        self.put(piece, self.get(piece).add_(rows))

    def free(self) -> None:
        """Gives the space back."""
        for _, done in self._ahead.values():
            done.result()
        for done in self._writes.values():
            done.result()
        self._ahead, self._writes = {}, {}
        if self._places:
            self._scratch.give_back(self._places[0], self._size)
            self._places = []

    def _begin(self, rows: Tensor) -> None:
        self._like = rows.new_empty((0, *rows.shape[1:]))  # a view would hold the rows
        row_bytes = rows.element_size() * rows[0].numel()
        sizes = [_padded(span, row_bytes) for span in self._pieces.spans]
        self._size = sum(sizes)
        first = self._scratch.region(self._size)
        self._places = [first + sum(sizes[:n]) for n in range(len(sizes))]

    def _fetch(self, piece: int) -> tuple[Tensor, "Future[None]"]:
        if piece in self._writes:  # one thread moves bytes in turn, but errors must be seen
            self._writes.pop(piece).result()
        rows, data = self._buffer(piece)
        return rows, self._scratch.fetch(self._places[piece], data)

    def _buffer(self, piece: int) -> tuple[Tensor, memoryview]:
        """Rows of a piece in memory that begins with a page, and its bytes."""
        like, span = self._like, self._pieces.spans[piece]
        assert like is not None
        shape = (span.stop - span.start, *like.shape[1:])
        count = math.prod(shape)
        room = _pages(max(_PAGE, -(-count * like.element_size() // _PAGE) * _PAGE))
        rows = torch.frombuffer(room, dtype=like.dtype, count=count).view(shape)
        return rows, memoryview(room)
