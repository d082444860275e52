"""files: whole reads and writes of arrays, and operating system errors as one sentence."""

import ctypes
import errno
import os
from io import RawIOBase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.files import storage_error

__all__ = ["exchange", "read_at", "storage_error", "write_all"]

Array = npt.NDArray[Any]


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


def read_at(descriptor: int, into: Array, position: int, path: Path) -> None:
    """Fills an array from a position of a file; a file that ends early is an error."""
    buffer = into.reshape(-1).view(np.uint8).data
    try:
        while len(buffer):
            got = os.preadv(descriptor, [buffer], position)
            if got == 0:
                raise OSError(errno.EIO, "it ended early")
            buffer, position = buffer[got:], position + got
    except OSError as error:
        raise storage_error(error, path, "reading") from error


def exchange(first: Path, second: Path) -> None:
    """Swaps two folders in one step, so that at no moment either name is missing.

    Python has no call for renameat2. Where the kernel or file system has none either, the swap is
    made of renames through a third name.
    """
    swap = 2  # RENAME_EXCHANGE
    here = -100  # AT_FDCWD
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # a C library before glibc 2.28
        call = None
    if call is not None and not call(here, bytes(first), here, bytes(second), swap):
        return
    aside = second.with_name(second.name + ".replaced")
    second.rename(aside)
    first.rename(second)
    aside.rename(first)
