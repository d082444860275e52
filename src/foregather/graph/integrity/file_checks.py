"""file_checks: compares the array files of a folder with their headers and checksums, byte by byte.

Files are read with ordinary reads in small buffers, so a bad disk is an error and not a crash, and
memory use does not depend on the size of the graph.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, StorageError
from foregather.files import open_regular
from foregather.graph.integrity.blocks import BLOCK, BlockSums, open_sums
from foregather.graph.integrity.checks import REMAKE, table_file
from foregather.graph.on_disk.files import read_at
from foregather.graph.on_disk.meta import ArrayEntry, Meta
from foregather.graph.on_disk.npy import ALIGN, pack_header
from foregather.observe.progress import Progress

__all__ = ["check_checksums", "check_files", "check_padding"]

_BUFFER = 4 << 20


def check_files(folder: Path, meta: Meta, threads: int) -> tuple[int, int, int | None]:
    """Checks every byte of the arrays of a folder.

    Returns:
        Payload bytes, checksums, and block checksums compared; None for the last where the folder
        has none.

    Raises:
        FormatError: names the file and the bytes of the first problem.
        StorageError: a file cannot be read.
    """
    for entry in meta.arrays.values():
        check_padding(folder, entry)
    size, chunks = check_checksums(folder, meta, threads)
    if meta.tables is None:
        return size, chunks, None
    return size, chunks, sum(table.rows for table in meta.tables.values())


def check_padding(folder: Path, entry: ArrayEntry) -> None:
    """Checks that the header matches meta.json exactly and the file ends in zero padding.

    Raises:
        FormatError: it does not; names the file.
        StorageError: it cannot be read.
    """
    try:
        with open_regular(folder / entry.file, folder) as file:
            header = file.read(ALIGN)
            file.seek(ALIGN + entry.nbytes)
            tail = file.read()
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {entry.file}: {error.strerror}") from error
    if header != pack_header(entry.dtype, entry.shape):
        raise FormatError(
            f"{entry.file} has a header that differs from meta.json (bytes 0 to {ALIGN}); "
            "the file is damaged"
        )
    if any(tail) or (entry.nbytes + len(tail)) % ALIGN:
        raise FormatError(f"{entry.file} does not end in zeros up to a multiple of {ALIGN} bytes")


def _check_chunk(path: Path, part: tuple[int, int], sums: BlockSums | None) -> tuple[str, str]:
    """Returns the XXH64 of a part of a file, and its first bad block or ""."""
    offset, length = part
    buffer = np.empty(min(length, _BUFFER), np.uint8)
    digest = _core.Xxh64()
    bad = ""
    with open_regular(path) as file:
        while length > 0:
            view = buffer[:length]
            read_at(file.fileno(), view, offset, path)
            digest.update(view)
            if sums is not None and not bad:
                bad = _bad_block(sums, offset, view)
            offset, length = offset + view.size, length - view.size
    return f"{digest.digest():016x}", bad


def _bad_block(sums: BlockSums, offset: int, view: npt.NDArray[np.uint8]) -> str:
    try:
        sums.check(offset, view)
    except FormatError as error:
        return str(error).removeprefix(f"{sums.name}: ").partition(" does not")[0]
    return ""


def check_checksums(folder: Path, meta: Meta, threads: int) -> tuple[int, int]:
    """Compares every byte of the arrays with its checksums; returns how many bytes and chunks.

    Raises:
        FormatError: names the file and the bytes of the first chunk that does not match.
        StorageError: a file cannot be read.
    """
    workers = threads if threads > 0 else _core.default_threads()
    total = sum(entry.nbytes for entry in meta.arrays.values())
    chunks = 0
    with Progress("checksums", total, "B") as bar, ThreadPoolExecutor(workers) as pool:
        for entry in meta.arrays.values():
            sums = open_sums(folder, meta, entry.name)
            path = folder / entry.file
            aligned = sums if meta.chunk_bytes % BLOCK == 0 else None
            work = _parts(entry, meta.chunk_bytes)
            while batch := list(islice(work, 4 * workers)):
                count = len(batch)
                found = pool.map(_check_chunk, [path] * count, batch, [aligned] * count)
                for (begin, length), (checksum, block) in zip(batch, found, strict=True):
                    if checksum != entry.checksums[(begin - ALIGN) // meta.chunk_bytes]:
                        raise _corrupted(entry, begin, length, meta.chunk_bytes, block)
                    _check_table(entry, block)
                    bar.advance(length)
                    chunks += 1
            if aligned is not sums:  # chunks of another writer, which may split blocks
                _check_table(entry, _check_chunk(path, (ALIGN, entry.nbytes), sums)[1])
    return total, chunks


def _check_table(entry: ArrayEntry, block: str) -> None:
    if block:
        raise FormatError(
            f"{table_file(entry.name)} does not match {block} of {entry.file}, whose contents are "
            f"correct; {REMAKE}"
        )


def _parts(entry: ArrayEntry, chunk_bytes: int) -> Iterator[tuple[int, int]]:
    """(position in the file, length) of each chunk of an array."""
    for start in range(0, entry.nbytes, chunk_bytes):
        yield ALIGN + start, min(chunk_bytes, entry.nbytes - start)


def _corrupted(
    entry: ArrayEntry, begin: int, length: int, chunk_bytes: int, block: str
) -> FormatError:
    where = f", the first of them in {block}" if block else ""
    return FormatError(
        f"{entry.file} is corrupted: bytes {begin} to {begin + length} (chunk "
        f"{(begin - ALIGN) // chunk_bytes}) do not match their checksum{where}; restore the file "
        "or convert again"
    )
