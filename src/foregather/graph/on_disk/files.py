"""files: complete reads and writes of arrays, and atomic renames."""

import ctypes
import errno
import math
import os
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from pickle import PickleBuffer
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather.files import storage_error

__all__ = [
    "discard",
    "exchange",
    "move_new",
    "read_at",
    "room_for",
    "storage_error",
    "sync_folder",
    "write_all",
]

Array = npt.NDArray[Any]

_PAGE = 4096
_LARGE = 64 << 10  # size from which one more page does not matter


def write_all(file: RawIOBase, values: Array, path: Path) -> int:
    """Writes every byte of an array at the file's position; returns how many."""
    buffer = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    size = len(buffer)
    try:
        while len(buffer):
            buffer = buffer[file.write(buffer) or 0 :]
    except OSError as error:
        raise storage_error(error, path, "writing") from error
    return size


def discard(file: RawIOBase, path: Path) -> None:
    """Closes and removes a file that is no longer needed.

    A file that cannot be removed is left to the owner of the folder: an error here would hide the
    original one.
    """
    with suppress(OSError):
        file.close()
    with suppress(OSError):
        os.unlink(path)


def read_at(descriptor: int, into: Array, position: int, path: Path) -> None:
    """Fills an array from a position in a file; a file that ends early is an error."""
    buffer = into.reshape(-1).view(np.uint8).data
    try:
        while len(buffer):
            got = os.preadv(descriptor, [buffer], position)
            if got == 0:
                raise OSError(errno.EIO, "it ended early")
            buffer, position = buffer[got:], position + got
    except OSError as error:
        raise storage_error(error, path, "reading") from error


def room_for(
    shape: tuple[int, ...], dtype: np.dtype[Any], position: int, order: Literal["C", "F"] = "C"
) -> Array:
    """Allocates an array to be filled from a position in a file, aligned for a fast kernel copy.

    It starts at the same offset in its page as the position, to 64 bytes. Large NumPy arrays begin
    16 bytes into a page, and Zen 3 copies at a third of its speed if the target is 1 to 31 bytes
    further into its page than the source.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < _LARGE:
        return np.empty(shape, dtype, order)
    raw = np.empty(size + _PAGE, np.uint8)
    skip = (position // 64 * 64 - int(raw.__array_interface__["data"][0])) % _PAGE
    # Through a buffer: views of a view of `raw` would refer to `raw` and not to that view, so it
    # could be freed, and read again for the next user, while they are alive.
    buffer: Any = PickleBuffer(raw.data)
    made: Array = np.ndarray(shape, dtype, buffer, skip, order=order)
    return made


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _renameat2(first: Path, second: Path, flag: int) -> bool:
    """Renames atomically with flags; False if the kernel or file system does not support it.

    Python has no function for renameat2.
    """
    here = -100  # AT_FDCWD
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # a C library before glibc 2.28
        return False
    if not call(here, bytes(first), here, bytes(second), flag):
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def move_new(source: Path, target: Path) -> None:
    """Renames a file or folder to a name that is not taken.

    Raises:
        FileExistsError: the name is taken; nothing is changed.
    """
    if _renameat2(source, target, 1):  # RENAME_NOREPLACE
        return
    if os.path.isdir(source) and not os.path.islink(source):
        # rename() of a folder replaces nothing but an empty folder.
        try:
            os.rename(source, target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.ENOTDIR, errno.EEXIST):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
            raise
    else:
        os.link(source, target, follow_symlinks=False)
        os.unlink(source)


def exchange(first: Path, second: Path, aside: Path) -> None:
    """Swaps two folders atomically, so that neither name is ever missing.

    If the kernel or file system does not support it, the swap uses renames through the name
    `aside`, which must be free.
    """
    if _renameat2(first, second, 2):  # RENAME_EXCHANGE
        return
    os.rename(second, aside)
    try:
        os.rename(first, second)
    except OSError:
        os.rename(aside, second)
        raise
    os.rename(aside, first)
