"""blocks: bytes of a folder's arrays, each checked against its block's checksum when it is read.

`open_sums` loads the table of one array, 0.1 % of its size, which every reader of the array's file
is then given. A read takes whole blocks of 4096 payload bytes, so that nothing passes unchecked;
the error names file, block and rows. A folder without tables gives None, and its readers read as
before.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError
from foregather.files import open_regular
from foregather.graph.checks import BLOCK, FILE, REMAKE, Table, table_rows
from foregather.graph.files import read_at
from foregather.graph.graph import Graph
from foregather.graph.meta import ArrayEntry, Meta, read_meta
from foregather.graph.npy import ALIGN, file_bytes, pack_header

__all__ = ["BLOCK", "BlockSums", "array_sums", "open_sums", "read_checked", "sums_bytes"]

Array = npt.NDArray[Any]
BlockSums = _core.BlockSums

_PIECE = 1 << 18  # a piece is checked while it is still in the core's cache


def array_sums(graph: Graph, name: str) -> BlockSums | None:
    """The block checksums of an array of an opened graph; None where there are none.

    Raises:
        FormatError: the table is not what checks.json says, or the folder holds another graph now.
        StorageError: it cannot be read.
    """
    if graph.path is None or not graph.checked:
        return None
    meta = read_meta(graph.path)
    if meta.text["digest"] != graph.digest or meta.tables is None:
        raise FormatError(
            f"meta.json or {FILE} of {graph.path.name} changed since the graph was opened; "
            "open it again"
        )
    return open_sums(graph.path, meta, name)


def open_sums(folder: Path, meta: Meta, name: str) -> BlockSums | None:
    """The block checksums of an array of a folder; None where the folder has none.

    Raises:
        FormatError: the table is missing, or not what checks.json says.
        StorageError: it cannot be read.
    """
    if meta.tables is None:
        return None
    entry, table = meta.arrays[name], meta.tables[name]
    row_bytes = entry.nbytes // max(1, entry.shape[0])
    sums = BlockSums(entry.file, entry.nbytes, row_bytes, ALIGN)
    _fill(sums.sums, folder, table)
    return sums


def sums_bytes(entry: ArrayEntry) -> int:
    """Bytes that the block checksums of an array take in memory."""
    return 4 * table_rows(entry.nbytes)


def _fill(sums: npt.NDArray[np.uint32], folder: Path, table: Table) -> None:
    path = folder / table.file
    if not os.path.lexists(path):
        raise FormatError(f"{table.file} is missing, though {FILE} lists it; {REMAKE}")
    with open_regular(path, folder) as file:
        header = np.empty(ALIGN, np.uint8)
        size = os.fstat(file.fileno()).st_size
        if size == file_bytes(sums.nbytes):
            read_at(file.fileno(), header, 0, path)
        if header.tobytes() != pack_header(np.dtype("<u4"), sums.shape):
            raise FormatError(
                f"{table.file} has {size} bytes or a header that do not fit {table.rows} block "
                f"checksums; {REMAKE}"
            )
        read_at(file.fileno(), sums, ALIGN, path)
    data = sums.view(np.uint8)
    for number, checksum in enumerate(table.checksums):
        part = data[number * table.chunk_bytes : (number + 1) * table.chunk_bytes]
        if f"{_core.xxh64(part):016x}" != checksum:
            raise FormatError(f"{table.file} does not match its checksum in {FILE}; {REMAKE}")


def read_checked(
    descriptor: int,
    first: int,
    last: int,
    path: Path,
    sums: BlockSums | None,
    into: npt.NDArray[np.uint8] | None = None,
) -> npt.NDArray[np.uint8]:
    """Payload bytes `first` to `last` of an array file, read with pread and checked.

    The read is extended to the borders of blocks where it has to be, so at most 8190 bytes more are
    read; a range of whole blocks goes straight into `into`.

    Args:
        descriptor: the file, open for buffered reads.
        first: first byte of the payload.
        last: one past the last byte.
        path: what errors call the file.
        sums: its block checksums; None reads unchecked.
        into: where the bytes go, `last - first` long; None makes room.

    Raises:
        FormatError: a block does not match; the message names file, block and rows.
        StorageError: the file cannot be read.
    """
    if into is None:
        into = np.empty(last - first, np.uint8)
    if sums is None:
        read_at(descriptor, into, ALIGN + first, path)
        return into
    position = first
    while position < last:
        begin = position // BLOCK * BLOCK
        end = last if last == sums.payload else last // BLOCK * BLOCK  # of the whole blocks
        if begin == position and end > position:
            end = min(end, begin + _PIECE)
            part = into[begin - first : end - first]
            read_at(descriptor, part, ALIGN + begin, path)
            sums.check(ALIGN + begin, part)
        else:
            block = np.empty(min(BLOCK, sums.payload - begin), np.uint8)
            read_at(descriptor, block, ALIGN + begin, path)
            sums.check(ALIGN + begin, block)
            end = min(begin + BLOCK, last)
            into[position - first : end - first] = block[position - begin : end - begin]
        position = end
    return into
