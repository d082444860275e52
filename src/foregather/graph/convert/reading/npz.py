"""npz: streams the arrays of a .npz archive without loading any of them whole.

Nothing an archive declares is trusted: a member's size is checked against what its compressed
bytes can hold before any memory is allocated, every read is bounded, every payload is checked to
its last byte (which also checks the member's CRC), and object arrays are refused, never unpickled.
"""

import errno
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, ForegatherError, FormatError, InputError, StorageError
from foregather.graph.on_disk.npy import Header, read_header
from foregather.units import format_bytes

__all__ = ["ZipArrays"]

_PIECE = 1 << 20  # bytes requested from the decompressor at a time
_DEFLATE_RATIO = 1032  # deflate cannot expand a byte to more than this
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what np.savez and savez_compressed write
_CORRUPT = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    OverflowError,
    RuntimeError,  # an encrypted member, or an unknown compression
    ValueError,
)

Array = npt.NDArray[Any]


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Converts zipfile's exceptions for broken or missing archives to our errors."""
    try:
        yield
    except ForegatherError:
        raise
    except _CORRUPT as error:
        raise FormatError(f"{name} is a corrupt or unsupported .npz archive: {error}") from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # a seek to a wrong offset in the archive's directory
            raise FormatError(f"{name} is a corrupt .npz archive: {error.strerror}") from error
        raise StorageError(f"cannot read {name}: {error.strerror}") from error


class ZipArrays:
    """The arrays of one .npz archive; a context manager.

    Arrays are returned in native byte order. Several iterators may be open at once, also in
    different threads; each reads its member through its own stream and closes it when it ends.

    Args:
        path: the .npz file.

    Raises:
        FormatError: not a zip archive, or one that no np.savez writes.
        StorageError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = Path(path).name
        with _reading(self.name):
            self._zip = zipfile.ZipFile(path)
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            name = info.filename.removesuffix(".npy")
            if name in self._members:
                self._zip.close()
                raise FormatError(f"{self.name} holds {name!r} twice; save it again with np.savez")
            self._members[name] = info

    def __enter__(self) -> "ZipArrays":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the archive; iterators still open may finish."""
        self._zip.close()

    def names(self) -> list[str]:
        """Names of the arrays, as np.load would give them."""
        return list(self._members)

    def header(self, name: str) -> Header:
        """What the array `name` declares; its payload is not read.

        Raises:
            FormatError: no such array, a pickle, a corrupt archive, or a declared size that
                the member cannot hold.
        """
        with self._open(name) as stream:
            return self._read_header(stream, name)

    def whole(self, name: str, budget: int) -> Array:
        """The array `name`, all of it.

        Raises:
            BudgetError: it needs more than `budget` bytes.
        """
        with self._open(name) as stream:
            header = self._numbers(stream, name)
            if header.nbytes > budget:
                raise BudgetError(
                    f"{name} in {self.name} needs {format_bytes(header.nbytes)} in memory, the "
                    f"budget leaves {format_bytes(budget)}; raise the memory budget"
                )
            values = self._values(stream, name, header, header.nbytes // header.dtype.itemsize)
            self._end(stream, name)
        return values.reshape(header.shape, order="F" if header.fortran else "C")

    def label(self, name: str) -> str:
        """The short text `name`, such as the format of a matrix; SciPy writes bytes or text.

        Raises:
            FormatError: it is not a short text.
        """
        with self._open(name) as stream:
            header = self._read_header(stream, name)
            if header.dtype.kind not in "SU" or header.shape or header.nbytes > 256:
                raise FormatError(f"{name} in {self.name} is not a short text")
            value = np.frombuffer(stream.read(header.nbytes), header.dtype)[0]
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def chunks(self, name: str, step_rows: int) -> Iterator[Array]:
        """The array `name` in order, at most `step_rows` entries along axis 0 at a time.

        Raises:
            FormatError: also for a matrix in Fortran order, whose rows cannot be streamed.
        """
        _check_step(step_rows)
        with self._open(name) as stream:
            header = self._numbers(stream, name)
            if not header.shape:
                raise FormatError(f"{name} in {self.name} is one number, expected rows")
            if header.fortran and sum(extent != 1 for extent in header.shape) > 1:
                raise FormatError(
                    f"{name} in {self.name} is stored column by column (Fortran order), so its "
                    "rows cannot be streamed; save np.ascontiguousarray of it"
                )
            rows, inner = header.shape[0], header.shape[1:]
            width = math.prod(inner)
            if width == 0 and rows > 0:
                raise FormatError(f"{name} in {self.name} has shape {header.shape}: empty rows")
            for start in range(0, rows, step_rows):
                taken = min(step_rows, rows - start)
                yield self._values(stream, name, header, taken * width).reshape(taken, *inner)
            self._end(stream, name)

    def pair_chunks(self, name: str, step: int) -> Iterator[tuple[Array, Array]]:
        """The two rows of a [2, E] array side by side, or the two columns of an [E, 2] one.

        A [2, 2] array is read as [2, E]. Fortran order is understood: a [2, E] array in Fortran
        order has the same bytes on disk as an [E, 2] one. Two rows are read through two streams, so
        a compressed member is decompressed one and a half times.
        """
        _check_step(step)
        header = self.header(name)
        if len(header.shape) != 2 or 2 not in header.shape:
            raise FormatError(
                f"{name} in {self.name} has shape {header.shape}, "
                "expected edges as [2, E] or [E, 2]"
            )
        by_row = header.shape[0] == 2
        edges = header.shape[1] if by_row else header.shape[0]
        if by_row != header.fortran:
            yield from self._halves(name, edges, step)
        else:
            yield from self._columns(name, edges, step)

    def _halves(self, name: str, edges: int, step: int) -> Iterator[tuple[Array, Array]]:
        with self._open(name) as first, self._open(name) as second:
            header = self._numbers(first, name)
            self._numbers(second, name)
            self._skip(second, name, edges * header.dtype.itemsize)
            for start in range(0, edges, step):
                taken = min(step, edges - start)
                source = self._values(first, name, header, taken)
                yield source, self._values(second, name, header, taken)
            self._end(second, name)  # the second stream has read every byte of the member

    def _columns(self, name: str, edges: int, step: int) -> Iterator[tuple[Array, Array]]:
        with self._open(name) as stream:
            header = self._numbers(stream, name)
            for start in range(0, edges, step):
                taken = min(step, edges - start)
                pairs = self._values(stream, name, header, 2 * taken).reshape(taken, 2)
                yield np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
            self._end(stream, name)

    @contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        info = self._members.get(name)
        if info is None:
            held = ", ".join(sorted(self._members)[:8]) or "nothing"
            raise FormatError(f"{self.name} has no array {name!r}; it holds {held}")
        self._check_size(name, info)
        with _reading(self.name), self._zip.open(info) as stream:
            yield stream

    def _check_size(self, name: str, info: zipfile.ZipInfo) -> None:
        if info.compress_type not in _METHODS:
            raise FormatError(
                f"{name} in {self.name} is compressed with method {info.compress_type}; "
                "save it with np.savez or np.savez_compressed"
            )
        deflated = info.compress_type == zipfile.ZIP_DEFLATED
        most = info.compress_size * (_DEFLATE_RATIO if deflated else 1)
        if info.file_size > most:
            raise FormatError(
                f"{name} in {self.name} claims {info.file_size} bytes, more than its "
                f"{info.compress_size} stored bytes can hold; the archive is corrupt"
            )

    def _read_header(self, stream: IO[bytes], name: str) -> Header:
        header = read_header(stream, f"{name} in {self.name}")  # type: ignore[arg-type]
        size = self._members[name].file_size
        if header.offset + header.nbytes != size:
            raise FormatError(
                f"{name} in {self.name} has {size} bytes but its header promises "
                f"{header.offset + header.nbytes}; the archive is corrupt"
            )
        return header

    def _numbers(self, stream: IO[bytes], name: str) -> Header:
        header = self._read_header(stream, name)
        if header.dtype.kind not in "biuf":
            raise FormatError(
                f"{name} in {self.name} holds {header.dtype} values, expected numbers"
            )
        return header

    def _values(self, stream: IO[bytes], name: str, header: Header, count: int) -> Array:
        """The next `count` elements of the stream, flat."""
        buffer = np.empty(count * header.dtype.itemsize, np.uint8)
        filled = 0
        while filled < buffer.size:
            piece = stream.read(min(_PIECE, buffer.size - filled))
            if not piece:
                raise self._truncated(name)
            buffer[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)
        return buffer.view(header.dtype).astype(header.dtype.newbyteorder("="), copy=False)

    def _skip(self, stream: IO[bytes], name: str, count: int) -> None:
        # Reading, not seeking: a seek would drop the CRC check of a stored member.
        while count > 0:
            piece = stream.read(min(_PIECE, count))
            if not piece:
                raise self._truncated(name)
            count -= len(piece)

    def _end(self, stream: IO[bytes], name: str) -> None:
        # zipfile compares the CRC when it meets the end of the member.
        if stream.read(1):
            raise FormatError(f"{name} in {self.name} continues after its last row")

    def _truncated(self, name: str) -> FormatError:
        return FormatError(f"{name} in {self.name} ends early; the archive is truncated")


def _check_step(step: int) -> None:
    if step < 1:
        raise InputError(f"step is {step}, expected at least 1")
