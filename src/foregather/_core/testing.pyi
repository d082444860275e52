"""What only tests and benchmarks use."""

from typing import Annotated

import numpy
from numpy.typing import NDArray

import foregather._core


def list_leaks() -> None:
    """
    Lists on the error stream, at the end of the process, what was never given back.
    """

def allow_avx2(allowed: bool) -> None:
    """
    Whether aggregation may use AVX2, to compare it with the form for every processor.
    """

def crc32c_means() -> str:
    """What crc32c uses here, such as vpclmulqdq, sse4.2 or table."""

class Faults:
    """Makes reads of a byte range go wrong; see faults.hpp."""

    def __init__(self) -> None: ...

    def fail(self, begin: int, end: int, code: int, times: int = 1) -> None:
        """The next reads there fail with this errno."""

    def shorten(self, begin: int, end: int, bytes: int, times: int = 1) -> None:
        """The next reads there bring at most this many bytes."""

    def delay(self, begin: int, end: int, milliseconds: int, times: int = 1) -> None:
        """The next reads there come late."""

def disk_gather(faults: Faults | None, path: str, name: str, geometry: foregather._core.Geometry, num_slots: int, staging_bytes: int, backend: str, depth: int, form: tuple[str, Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None], threads: int = 0, slots: foregather._core.Slots | None = None, sums: foregather._core.BlockSums | None = None) -> foregather._core.DiskGather:
    """A DiskGather whose reads meet faults; form is (form, scale)."""

def exact_log(x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], log: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Natural logarithm of positive normal numbers, the same bits on every machine.
    """

def read_lines(words: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], index: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], distance: int, threads: int = 1) -> int:
    """Reads 64-byte lines at random; returns the sum of first words."""

def read_range(descriptor: int, name: str, position: int, into: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], sums: foregather._core.BlockSums | None, threads: int = 0, faults: Faults | None = None) -> None:
    """The same with faults."""

def alias_row(weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], keep: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], other: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """The cells of one row of weights, not all 0."""

def sweeper(faults: Faults | None, write_faults: Faults | None, path: str, name: str, geometry: foregather._core.Geometry, staging_bytes: int, write_bytes: int, backend: str, depth: int = 16, sums: foregather._core.BlockSums | None = None) -> foregather._core.Sweeper:
    """A Sweeper whose reads and writes meet faults."""
