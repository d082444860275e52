"""npy: array files whose payload starts at byte 4096, and a header reader for untrusted files.

An array file is a NumPy `.npy` file (format 1.0) whose header is padded with spaces to exactly
4096 bytes and whose end is padded with zero bytes to a multiple of 4096: `np.load` reads it, and
so does O_DIRECT. `docs/formats.md` is the specification.
"""

import ast
import os
import warnings
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from foregather.errors import FormatError, StorageError
from foregather.files import open_regular
from foregather.graph.mapped import Mapped

__all__ = [
    "ALIGN",
    "Header",
    "file_bytes",
    "map_array",
    "pack_header",
    "read_file_header",
    "read_header",
]

ALIGN = 4096
_MAGIC = b"\x93NUMPY"
_MOST_HEADER = 1 << 16

Array = npt.NDArray[Any]


class Header(NamedTuple):
    """What a .npy header declares, and where its payload starts."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Payload bytes the header promises."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count * self.dtype.itemsize


def pack_header(dtype: npt.DTypeLike, shape: tuple[int, ...]) -> bytes:
    """The 4096 header bytes of an array file; a pure function of dtype and shape."""
    extents = ", ".join(str(int(n)) for n in shape) + ("," if len(shape) == 1 else "")
    described = np.dtype(dtype).str
    text = f"{{'descr': '{described}', 'fortran_order': False, 'shape': ({extents}), }}"
    room = ALIGN - 10
    body = text.encode("ascii").ljust(room - 1) + b"\n"
    return _MAGIC + b"\x01\x00" + room.to_bytes(2, "little") + body


def file_bytes(payload: int) -> int:
    """Size on disk of an array file with that many payload bytes."""
    return ALIGN + -(-payload // ALIGN) * ALIGN


def read_header(file: BinaryIO, name: str) -> Header:
    """Parses a .npy header from a stream; leaves the stream at the payload.

    Raises:
        FormatError: not a .npy header, a pickled (object) array, or an absurd shape.
    """
    start = file.read(8)
    if start[:1] == b"\x80" or start[:4] == b"PK\x03\x04":
        raise FormatError(
            f"{name} is a pickle or archive, expected a .npy array; pickles are never loaded"
        )
    if len(start) < 8 or start[:6] != _MAGIC:
        raise FormatError(f"{name} does not start with the .npy magic bytes; it is not an array")
    major = start[6]
    if major not in (1, 2, 3):
        raise FormatError(f"{name} has .npy version {major}; versions 1 to 3 are understood")
    width = 2 if major == 1 else 4
    length = int.from_bytes(_exactly(file, width, name), "little")
    if length > _MOST_HEADER:
        raise FormatError(f"{name} has a header of {length} bytes, more than any array needs")
    text = _exactly(file, length, name).decode("latin1")
    return _parse(text, 8 + width + length, name)


def read_file_header(file: BinaryIO, name: str) -> Header:
    """Parses the header of an open file, whose size must hold what the header promises.

    Raises:
        FormatError: as `read_header`, or the file is truncated.
    """
    header = read_header(file, name)
    size = os.fstat(file.fileno()).st_size
    if size < header.offset + header.nbytes:
        raise FormatError(
            f"{name} has {size} bytes but its header promises "
            f"{header.offset + header.nbytes}; the file is truncated"
        )
    return header


def _exactly(file: BinaryIO, count: int, name: str) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise FormatError(f"{name} ends inside its .npy header; the file is truncated")
    return data


def _parse(text: str, offset: int, name: str) -> Header:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            fields = ast.literal_eval(text.strip())
        descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
        extents = tuple(shape)
        if not isinstance(descr, str) or not isinstance(fortran, bool):
            raise TypeError(descr)
        if not all(type(n) is int and 0 <= n < 1 << 62 for n in extents):
            raise TypeError(extents)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 'a' for bytes
            dtype = np.dtype(descr)
    except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError) as error:
        raise FormatError(f"{name} has a .npy header that does not describe an array") from error
    if dtype.hasobject:
        raise FormatError(
            f"{name} holds Python objects (a pickle), expected numbers; pickles are never loaded"
        )
    return Header(dtype, extents, fortran, offset)


def map_array(path: Path, name: str | None = None, folder: Path | None = None) -> Array:
    """Memory-maps a .npy file read-only; nothing is read but the header.

    Args:
        path: the file.
        name: its name in errors; None: the file name.
        folder: a folder above the file; nothing below it may be a link. None: the file's own
            folder.

    Raises:
        FormatError: bad header, the file is shorter than its header promises, is a link, or is not
            a regular file.
        StorageError: the file cannot be opened.
    """
    name = name or path.name
    try:
        with open_regular(path, folder) as file:
            header = read_file_header(file, name)
            if header.nbytes == 0:
                return np.empty(header.shape, header.dtype)
            end = header.offset + header.nbytes
            mapped = np.asarray(Mapped(file, end, path, name))
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot open {name}: {error.strerror}") from error
    values = mapped[header.offset : end].view(header.dtype)
    return values.reshape(header.shape, order="F" if header.fortran else "C")
