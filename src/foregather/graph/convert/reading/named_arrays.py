"""named_arrays: a set of named arrays, on disk as .npy files or in memory, read in bounded pieces.

`ZipArrays` is the same interface over a .npz archive; `ArraysSource` reads graphs from any of the
three. Files are read with plain reads, not mapped, so that cached pages do not count as memory.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, FormatError, StorageError
from foregather.graph.on_disk.npy import Header, read_file_header
from foregather.units import format_bytes

__all__ = ["Arrays", "MemoryArrays", "NpyArrays"]

Array = npt.NDArray[Any]


class Arrays(Protocol):
    """Named arrays that can be inspected, and read whole or in chunks."""

    name: str

    def names(self) -> list[str]:
        """Names of the arrays."""
        ...

    def header(self, name: str) -> Header:
        """Dtype and shape of one array."""
        ...

    def whole(self, name: str, budget: int) -> Array:
        """All of one array; BudgetError beyond `budget` bytes."""
        ...

    def chunks(self, name: str, step_rows: int) -> Iterator[Array]:
        """One array in order, `step_rows` along axis 0 at a time."""
        ...

    def pair_chunks(self, name: str, step: int) -> Iterator[tuple[Array, Array]]:
        """The two rows of [2, E], or the two columns of [E, 2], side by side."""
        ...


class MemoryArrays:
    """Arrays that are already in memory."""

    def __init__(self, name: str, arrays: Mapping[str, Array]) -> None:
        self.name = name
        self._arrays = dict(arrays)

    def names(self) -> list[str]:
        """Names of the arrays."""
        return list(self._arrays)

    def header(self, name: str) -> Header:
        """Dtype and shape of one array."""
        array = self._arrays[name]
        return Header(array.dtype, array.shape, False, 0)

    def whole(self, name: str, budget: int) -> Array:
        """The array itself; it is already in memory, whatever the budget."""
        return self._arrays[name]

    def chunks(self, name: str, step_rows: int) -> Iterator[Array]:
        """Views of the array in order."""
        array = self._arrays[name]
        for start in range(0, len(array), step_rows):
            yield array[start : start + step_rows]

    def pair_chunks(self, name: str, step: int) -> Iterator[tuple[Array, Array]]:
        """Views of the two rows or columns."""
        array = self._arrays[name]
        pair = array if _by_row(array.shape, name) else array.T
        for start in range(0, pair.shape[1], step):
            yield pair[0, start : start + step], pair[1, start : start + step]


class NpyArrays:
    """The .npy files of a folder, or a single one under the name "edge_index"."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        if path.is_dir():
            self._paths = {p.stem: p for p in sorted(path.glob("*.npy"))}
        else:
            self._paths = {"edge_index": path}

    def names(self) -> list[str]:
        """Names of the arrays: the file names without .npy."""
        return list(self._paths)

    def header(self, name: str) -> Header:
        """Dtype and shape of one array, checked against the size of its file."""
        with self._open(name) as file:
            return self._header(file, name)

    def _open(self, name: str) -> BinaryIO:
        try:
            return open(self._paths[name], "rb")
        except OSError as error:
            raise StorageError(f"cannot open {name}.npy: {error.strerror}") from error

    def _header(self, file: BinaryIO, name: str) -> Header:
        return read_file_header(file, self._paths[name].name)

    def whole(self, name: str, budget: int) -> Array:
        """All of one array; BudgetError beyond `budget` bytes."""
        with self._open(name) as file:
            header = self._header(file, name)
            if header.nbytes > budget:
                raise BudgetError(
                    f"{name}.npy needs {format_bytes(header.nbytes)} in memory, the budget "
                    f"leaves {format_bytes(budget)}; raise --memory"
                )
            flat = _read(file, header, header.offset, int(np.prod(header.shape, dtype=np.int64)))
        return flat.reshape(header.shape, order="F" if header.fortran else "C")

    def chunks(self, name: str, step_rows: int) -> Iterator[Array]:
        """One array in order, `step_rows` along axis 0 at a time."""
        with self._open(name) as file:
            header = self._header(file, name)
            if header.fortran and len(header.shape) > 1:
                raise FormatError(
                    f"{name}.npy is stored column by column (Fortran order), so its rows cannot "
                    "be streamed; save np.ascontiguousarray of it"
                )
            inner = header.shape[1:]
            width = int(np.prod(inner, dtype=np.int64))
            for start in range(0, header.shape[0], step_rows):
                count = min(step_rows, header.shape[0] - start)
                position = header.offset + start * width * header.dtype.itemsize
                yield _read(file, header, position, count * width).reshape(count, *inner)

    def pair_chunks(self, name: str, step: int) -> Iterator[tuple[Array, Array]]:
        """The two rows of [2, E], or the two columns of [E, 2], side by side."""
        with self._open(name) as file:
            header = self._header(file, name)
            by_row = _by_row(header.shape, self._paths[name].name)
            edges = header.shape[1] if by_row else header.shape[0]
            size = header.dtype.itemsize
            for start in range(0, edges, step):
                count = min(step, edges - start)
                if by_row != header.fortran:
                    first = _read(file, header, header.offset + start * size, count)
                    second = _read(file, header, header.offset + (edges + start) * size, count)
                    yield first, second
                else:
                    pairs = _read(file, header, header.offset + 2 * start * size, 2 * count)
                    yield pairs[0::2], pairs[1::2]


def _by_row(shape: tuple[int, ...], name: str) -> bool:
    if len(shape) != 2 or 2 not in shape:
        raise FormatError(f"{name} has shape {shape}, expected edges as [2, E] or [E, 2]")
    return shape[0] == 2


def _read(file: BinaryIO, header: Header, position: int, count: int) -> Array:
    values = np.empty(count, header.dtype)
    buffer = values.view(np.uint8).data
    while len(buffer):
        got = os.preadv(file.fileno(), [buffer], position)
        if got == 0:
            raise FormatError("an array file became shorter while it was read")
        buffer, position = buffer[got:], position + got
    return values.astype(header.dtype.newbyteorder("="), copy=False)
