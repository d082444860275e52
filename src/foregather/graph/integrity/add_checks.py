"""add_checks: adds block checksums to a folder that has none, or damaged ones.

The arrays are read once and compared with their checksums in meta.json on the way, so that tables
are made only from correct contents. They are built next to the folder, like a conversion, and moved
into it one by one, checks.json last: a kill leaves the folder unchanged or complete. meta.json and
the digest do not change.
"""

import os
from pathlib import Path

import numpy as np

from foregather import _core
from foregather.errors import FormatError, StorageError
from foregather.files import open_regular
from foregather.graph.integrity.checks import FILE, describe_checks, table_file, table_rows
from foregather.graph.on_disk.files import read_at, storage_error, sync_folder
from foregather.graph.on_disk.meta import ArrayEntry, Meta, read_meta
from foregather.graph.on_disk.npy import ALIGN
from foregather.graph.on_disk.workspace import Workspace
from foregather.graph.on_disk.writer import CHUNK, ArrayWriter, write_json
from foregather.observe.progress import Progress

__all__ = ["add_checks"]

_BUFFER = 4 << 20


def add_checks(folder: Path) -> int:
    """Writes the tables of block checksums of a folder; returns how many blocks they cover.

    Raises:
        FormatError: an array does not match its checksums in meta.json; no table is made then.
        StorageError: a file cannot be read, or the folder cannot be written to.
    """
    meta = read_meta(folder, with_tables=False)
    total = sum(entry.nbytes for entry in meta.arrays.values())
    tables: dict[str, tuple[str, ...]] = {}
    with Workspace(folder) as work, Progress("block checksums", total, "B") as bar:
        try:
            for name, entry in meta.arrays.items():
                table = work.path / table_file(name)
                table.parent.mkdir(parents=True, exist_ok=True)
                tables[name] = _make(folder, entry, meta, table, bar)
            write_json(work.path / FILE, describe_checks(meta.text["arrays"], tables, CHUNK))
            for file in [*map(table_file, tables), FILE]:
                os.replace(work.path / file, folder / file)
            for changed in {(folder / file).parent for file in meta.arrays}:
                sync_folder(changed)
        except StorageError:
            raise
        except OSError as error:
            raise storage_error(error, folder, "adding block checksums to") from error
    return sum(table_rows(entry.nbytes) for entry in meta.arrays.values())


def _make(
    folder: Path, entry: ArrayEntry, meta: Meta, table: Path, bar: Progress
) -> tuple[str, ...]:
    """Writes the table of one array and returns the table's checksums."""
    writer = ArrayWriter(table, np.uint32, rows=table_rows(entry.nbytes))
    path = folder / entry.file
    try:
        with open_regular(path, folder) as file:
            _sum_up(file.fileno(), path, entry, meta.chunk_bytes, writer, bar)
        return tuple(writer.close()["checksums"])
    except BaseException:
        writer.abort()
        raise


def _sum_up(
    descriptor: int,
    path: Path,
    entry: ArrayEntry,
    chunk_bytes: int,
    writer: ArrayWriter,
    bar: Progress,
) -> None:
    summer = _core.Summer()
    buffer = np.empty(min(_BUFFER, entry.nbytes), np.uint8)
    for number, expected in enumerate(entry.checksums):
        position, digest = number * chunk_bytes, _core.Xxh64()
        end = min(position + chunk_bytes, entry.nbytes)
        while position < end:
            view = buffer[: end - position]
            read_at(descriptor, view, ALIGN + position, path)
            digest.update(view)
            writer.append(summer.update(view))
            position += view.size
            bar.advance(view.size)
        if f"{digest.digest():016x}" != expected:
            raise FormatError(
                f"{entry.file} is corrupted in chunk {number} (before byte {ALIGN + end}), so no "
                "block checksums were made for it; restore the file or convert again"
            )
    writer.append(summer.finish())
