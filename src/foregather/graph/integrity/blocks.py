"""blocks: reads bytes of a folder's arrays, checking each block against its checksum.

`array_sums` loads the table of one array, 0.1 % of its size, for all readers of the array's file; a
reader of a part loads the table of that part. Reads take whole blocks of 4096 payload bytes, so
that nothing passes unchecked; the error names file, block and rows. For a folder without tables the
functions return None, and its bytes are read unchecked.
"""

import os
import threading
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, StorageError
from foregather.files import is_there, open_regular
from foregather.graph.graph_value import GraphValue
from foregather.graph.integrity.checks import BLOCK, FILE, REMAKE, Table, table_rows
from foregather.graph.on_disk.files import room_for
from foregather.graph.on_disk.meta import ArrayEntry, Meta, read_meta
from foregather.graph.on_disk.npy import ALIGN, file_bytes, pack_header

__all__ = [
    "BLOCK",
    "ArrayChecks",
    "BlockSums",
    "array_checks",
    "array_sums",
    "most_sums_bytes",
    "open_sums",
    "read_checked",
]

Array = npt.NDArray[Any]
BlockSums = _core.BlockSums

_AROUND = 1 << 20  # larger than any block that a plan reads around a row
_PIECE = 1 << 18  # of a table of which only a part is needed


class ArrayChecks:
    """The block checksums of one array of a folder, loaded on first use and then kept.

    Args:
        folder: the graph folder.
        entry: the array.
        table: its table.
    """

    def __init__(self, folder: Path, entry: ArrayEntry, table: Table) -> None:
        self._folder, self._entry, self._table = folder, entry, table
        self._kept: dict[tuple[int, int], BlockSums] = {}
        self._lock = threading.Lock()

    def load(self, first: int = 0, last: int | None = None) -> BlockSums:
        """Returns the sums of the blocks that cover payload bytes first to last - 1.

        Raises:
            FormatError: the table is missing, or not what checks.json says.
            StorageError: it cannot be read.
        """
        entry, blocks = self._entry, self._blocks(first, last)
        with self._lock:
            sums = self._kept.get(blocks)
            if sums is None:
                row_bytes = entry.nbytes // max(1, entry.shape[0])
                sums = BlockSums(entry.file, entry.nbytes, row_bytes, ALIGN, *blocks)
                _fill(sums, self._folder, self._table)
                self._kept[blocks] = sums
        return sums

    def load_bytes(self, first: int = 0, last: int | None = None) -> int:
        """Bytes of memory that `load` needs."""
        begin, end = self._blocks(first, last)
        return 4 * (end - begin)

    def _blocks(self, first: int, last: int | None) -> tuple[int, int]:
        begin = max(0, first - _AROUND) // BLOCK
        end = self._entry.nbytes if last is None else min(self._entry.nbytes, last + _AROUND)
        return begin, max(begin, table_rows(end))


def most_sums_bytes(payload: int) -> int:
    """The most bytes that the sums of `size` payload bytes can take, at any position."""
    return 4 * (table_rows(payload + 2 * _AROUND) + 2)


def array_checks(graph: GraphValue, name: str) -> ArrayChecks | None:
    """Returns the block checksums of an array of an opened graph; None if there are none.

    Raises:
        FormatError: the folder holds another graph now.
        StorageError: it cannot be read.
    """
    if graph.path is None or not graph.checked:
        return None
    meta = read_meta(graph.path)
    if meta.text["digest"] != graph.meta["digest"] or meta.tables is None:
        raise FormatError(
            f"meta.json or {FILE} of {graph.path.name} changed since the graph was opened; "
            "open it again"
        )
    return ArrayChecks(graph.path, meta.arrays[name], meta.tables[name])


def array_sums(graph: GraphValue, name: str) -> BlockSums | None:
    """Like `array_checks`, but loaded.

    Raises:
        FormatError: the table is not what checks.json says, or the folder holds another graph now.
        StorageError: it cannot be read.
    """
    checks = array_checks(graph, name)
    return None if checks is None else checks.load()


def open_sums(folder: Path, meta: Meta, name: str) -> BlockSums | None:
    """Returns the block checksums of an array of a folder; None if the folder has none.

    Raises:
        FormatError: the table is missing, or not what checks.json says.
        StorageError: it cannot be read.
    """
    if meta.tables is None:
        return None
    return ArrayChecks(folder, meta.arrays[name], meta.tables[name]).load()


def _fill(sums: BlockSums, folder: Path, table: Table) -> None:
    """Reads the sums from their file and compares whole chunks with their checksums."""
    path = folder / table.file
    with _open_table(path, folder, table) as file:
        descriptor = file.fileno()
        header = np.empty(ALIGN, np.uint8)
        size = os.fstat(descriptor).st_size
        if size == file_bytes(4 * table.rows):
            _core.read_range(descriptor, path.name, 0, header, None)
        if header.tobytes() != pack_header(np.dtype("<u4"), (table.rows,)):
            raise FormatError(
                f"{table.file} has {size} bytes or a header that do not fit {table.rows} block "
                f"checksums; {REMAKE}"
            )
        wanted = sums.sums.view(np.uint8)
        first, last = 4 * sums.first, 4 * sums.first + wanted.size
        for number, checksum in enumerate(table.checksums):
            begin = number * table.chunk_bytes
            end = min(begin + table.chunk_bytes, 4 * table.rows)
            if end <= first or begin >= last:
                continue
            if first <= begin and end <= last:
                part = wanted[begin - first : end - first]
                _core.read_range(descriptor, path.name, ALIGN + begin, part, None)
                digest = _core.xxh64(part)
            else:
                digest = _copy_chunk(descriptor, path, begin, end, wanted, first)
            if f"{digest:016x}" != checksum:
                raise FormatError(f"{table.file} does not match its checksum in {FILE}; {REMAKE}")


def _open_table(path: Path, folder: Path, table: Table) -> BinaryIO:
    try:
        return open_regular(path, folder)
    except StorageError:
        if is_there(path):
            raise
        raise FormatError(f"{table.file} is missing, though {FILE} lists it; {REMAKE}") from None


def _copy_chunk(
    descriptor: int, path: Path, begin: int, end: int, wanted: npt.NDArray[np.uint8], first: int
) -> int:
    """Hashes bytes begin to end - 1 of a table with XXH64 and copies the needed ones on the way."""
    digest = _core.Xxh64()
    buffer = np.empty(min(_PIECE, end - begin), np.uint8)
    for at in range(begin, end, _PIECE):
        part = buffer[: min(_PIECE, end - at)]
        _core.read_range(descriptor, path.name, ALIGN + at, part, None)
        digest.update(part)
        low, high = max(at, first), min(at + part.size, first + wanted.size)
        if low < high:
            wanted[low - first : high - first] = part[low - at : high - at]
    return digest.digest()


def read_checked(
    descriptor: int,
    first: int,
    last: int,
    path: Path,
    sums: BlockSums | None,
    into: npt.NDArray[np.uint8] | None = None,
) -> npt.NDArray[np.uint8]:
    """Reads payload bytes `first` to `last` of an array file with pread and checks them.

    Large ranges are read by several threads, which check what they read while it is in cache. The
    read is extended to block boundaries where needed, so at most 8190 more bytes are read; whole
    blocks go straight into `into`.

    Args:
        descriptor: the file, open for buffered reads.
        first: first byte of the payload.
        last: one past the last byte.
        path: the file's name in errors.
        sums: its block checksums; None reads unchecked.
        into: the destination, `last - first` bytes long; None allocates one.

    Raises:
        FormatError: a block does not match; the message names file, block and rows.
        StorageError: the file cannot be read.
    """
    if into is None:
        into = room_for((last - first,), np.dtype(np.uint8), ALIGN + first)
    _core.read_range(descriptor, path.name, ALIGN + first, into, sums)
    return into
