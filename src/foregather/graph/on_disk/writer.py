"""writer: makes a graph folder that is either complete or does not exist.

Arrays are streamed into `DST.partial/graph/`; `finish` writes `meta.json` last, syncs, and renames
that folder into place. An error, an interrupt or a kill leaves no folder that opens, and the next
attempt clears what was left.
"""

import json
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError, StorageError
from foregather.graph.integrity.checks import FILE as CHECKS
from foregather.graph.integrity.checks import describe_checks, table_file, table_rows
from foregather.graph.mapped import fetch
from foregather.graph.on_disk.digest import json_digest
from foregather.graph.on_disk.files import storage_error, sync_folder, write_all
from foregather.graph.on_disk.holdable import check_holdable
from foregather.graph.on_disk.npy import ALIGN, file_bytes, pack_header
from foregather.graph.on_disk.owned import FORMAT, check_replaceable
from foregather.graph.on_disk.workspace import Workspace
from foregather.targets import check_target
from foregather.units import format_bytes

__all__ = [
    "CHUNK",
    "FORMAT",
    "LINKED",
    "ORDERED",
    "TYPED",
    "VERSION",
    "VERSIONS",
    "ArrayWriter",
    "FolderWriter",
    "meta_digest",
    "write_json",
]

CHUNK = 64 << 20  # payload bytes covered by one checksum
VERSION = 1  # of a plain graph
TYPED = 2  # of a graph with node types and relations
LINKED = 2  # what links add to the version of a graph
ORDERED = 4  # what an order of the feature rows adds to the version of a plain graph
VERSIONS = (1, 2, 3, 4, 5, 7)
_MOST_BYTES = 2**63 - 1  # of a file

Array = npt.NDArray[Any]


class ArrayWriter:
    """Appends rows to one array file; the first extent may be unknown until `close`.

    Args:
        path: the file to make.
        dtype: element type.
        row_shape: shape of one row, () for a vector.
        rows: rows to reserve on disk now, so that a full disk is found before the work; None when
            unknown.
        table: a file for this array's block checksums; None for none.
    """

    def __init__(
        self,
        path: Path,
        dtype: npt.DTypeLike,
        row_shape: tuple[int, ...] = (),
        rows: int | None = None,
        table: Path | None = None,
    ) -> None:
        self.path = path
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.row_shape = row_shape
        self.rows = 0
        self._row_bytes = int(np.prod(row_shape, dtype=np.int64)) * self.dtype.itemsize
        self._expected = rows
        self._payload = 0
        self._checksums: list[str] = []
        self._hash = _core.Xxh64()
        self._room = CHUNK  # payload bytes until the current checksum is complete
        self.table_checksums: tuple[str, ...] = ()  # of the block checksums' file, once closed
        size = file_bytes((rows or 0) * self._row_bytes)
        if size > _MOST_BYTES:
            raise StorageError(
                f"{path.name} would need {format_bytes(size)} for {rows} rows, more than a file "
                "can have; check the number of nodes"
            )
        try:
            self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed in close()/abort()
        except OSError as error:
            raise storage_error(error, path, "making") from error
        try:
            if rows:
                os.posix_fallocate(self._file.fileno(), 0, size)
            self._file.seek(ALIGN)
        except OSError as error:
            self._file.close()
            raise storage_error(error, path, "reserving") from error
        self._table: ArrayWriter | None = None
        if table is not None:
            self._summer = _core.Summer()
            blocks = None if rows is None else table_rows(rows * self._row_bytes)
            self._table = ArrayWriter(table, np.uint32, rows=blocks)

    def append(self, rows: Array) -> None:
        """Writes rows of the declared dtype and shape."""
        if rows.dtype != self.dtype or rows.shape[1:] != self.row_shape:
            raise InputError(
                f"{self.path.name} holds rows of {self.dtype} {self.row_shape}, "
                f"was given {rows.dtype} {rows.shape[1:]}"
            )
        data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
        self._checksum(data)
        if self._table is not None:
            self._table.append(self._summer.update(data))
        self._payload += write_all(self._file, data, self.path)
        self.rows += rows.shape[0]

    def _checksum(self, data: npt.NDArray[np.uint8]) -> None:
        while data.size:
            part = data[: self._room]
            self._hash.update(part)
            self._room -= part.size
            data = data[part.size :]
            if self._room == 0:
                self._seal()

    def _seal(self) -> None:
        self._checksums.append(f"{self._hash.digest():016x}")
        self._hash = _core.Xxh64()
        self._room = CHUNK

    def close(self) -> dict[str, Any]:
        """Writes the header, syncs, and returns the array's entry for meta.json."""
        if self._table is not None:
            self._table.append(self._summer.finish())
            self.table_checksums = tuple(self._table.close()["checksums"])
        if self._expected is not None and self.rows != self._expected:
            raise InputError(f"{self.path.name} got {self.rows} rows, expected {self._expected}")
        if self._room < CHUNK:
            self._seal()
        shape = (self.rows, *self.row_shape)
        try:
            os.ftruncate(self._file.fileno(), file_bytes(self._payload))  # retried by Python
            self._file.seek(0)
            header = np.frombuffer(pack_header(self.dtype, shape), np.uint8)
            write_all(self._file, header, self.path)
            os.fsync(self._file.fileno())
            self._file.close()
        except StorageError:
            raise
        except OSError as error:
            raise storage_error(error, self.path, "finishing") from error
        return {
            "file": self.path.name,
            "dtype": self.dtype.name,
            "shape": list(shape),
            "checksums": self._checksums,
        }

    def abort(self) -> None:
        """Closes the file without finishing it."""
        with suppress(OSError):
            self._file.close()
        if self._table is not None:
            self._table.abort()


def meta_digest(meta: Mapping[str, Any]) -> str:
    """XXH64 of the metadata itself (its keys sorted, without the field `digest`)."""
    return json_digest(meta)


class FolderWriter:
    """Builds a graph folder next to its destination and moves it into place when complete.

    Use as a context manager; without `finish` inside it, leaving removes everything made.

    Args:
        dst: the folder to make.
        overwrite: replace an existing graph folder (it is replaced only at the very end, and only
            if it holds nothing but a graph).
        version: of the format; 2 for a graph with node types and relations, `LINKED` more for one
            with links, and `ORDERED` more for one whose feature rows are in an order.
        left: names in `DST.partial` that stay there when a killed process left them, for the
            caller to judge; `graph`, the folder itself, is one.

    Raises:
        StorageError: `dst` exists, is not writable, or is being made by another process.
    """

    def __init__(
        self,
        dst: str | os.PathLike[str],
        overwrite: bool = False,
        version: int = VERSION,
        left: Collection[str] = (),
    ) -> None:
        self.dst = Path(dst)
        self.version = version
        self._typed = version in (TYPED, TYPED + LINKED)
        self.overwrite = overwrite
        self._work = Workspace(self.dst, left=left)
        self._target = self._work.target  # as `dst`, independent of os.chdir
        self.folder = self._work.path / "graph"
        self.arrays: dict[str, dict[str, Any]] = {}
        self.tables: dict[str, tuple[str, ...]] = {}  # checksums of each array's table
        self._open: dict[str, ArrayWriter] = {}
        self._deferred = ExitStack()

    def __enter__(self) -> "FolderWriter":
        self._check_target()
        self._work.acquire()
        try:
            self._check_target()  # again: the previous holder of the lock may have made it
            if not os.path.lexists(self.folder):
                self.folder.mkdir()
            if not self._typed:
                (self.folder / "splits").mkdir()
        except BaseException as error:
            self._work.close()
            if isinstance(error, OSError) and not isinstance(error, StorageError):
                raise storage_error(error, self.dst, "making") from error
            raise
        return self

    def _check_target(self) -> None:
        check_target(self._target)
        if not os.path.lexists(self._target):
            return
        if not self.overwrite:
            raise StorageError(
                f"{self.dst.name} exists already; pass --overwrite to replace it, "
                "or choose another target"
            )
        check_replaceable(self._target, self.dst.name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._deferred.close()
            for writer in self._open.values():
                writer.abort()
        finally:
            self._work.close()

    def array(
        self,
        name: str,
        dtype: npt.DTypeLike,
        row_shape: tuple[int, ...] = (),
        rows: int | None = None,
    ) -> ArrayWriter:
        """Starts the array `name` ("indices", "splits/train"); finish it with `close`."""
        check_holdable(name, np.dtype(dtype), row_shape, self.version)
        if self._typed or name.startswith("links/"):
            self._make_room(name)
        table = self.folder / table_file(name)
        writer = ArrayWriter(self.folder / f"{name}.npy", dtype, row_shape, rows, table)
        self._open[name] = writer
        return writer

    def _make_room(self, name: str) -> None:
        """Makes the folder of an array of a typed graph, or of links."""
        try:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(error, self.dst, "making") from error

    def close(self, name: str) -> None:
        """Finishes the array `name`."""
        entry = self._open[name].close()
        entry["file"] = f"{name}.npy"
        self.arrays[name] = entry
        self.tables[name] = self._open[name].table_checksums
        del self._open[name]

    def drop(self, name: str) -> None:
        """Removes a finished array from the folder.

        Raises:
            StorageError: the disk refuses.
        """
        try:
            for file in (f"{name}.npy", table_file(name)):
                os.unlink(self.folder / file)
        except OSError as error:
            raise storage_error(error, self.folder / name, "removing") from error
        del self.arrays[name], self.tables[name]

    def adopt(self, name: str, entry: dict[str, Any], table: tuple[str, ...]) -> None:
        """Takes over a finished array that an earlier process left in the folder."""
        self.arrays[name], self.tables[name] = entry, table

    def keep_only(self, files: Collection[str]) -> None:
        """Removes everything from the folder but these files, which are named relative to it.

        Raises:
            StorageError: the disk refuses.
        """
        try:
            self._work.prune(self.folder.name, files)
        except OSError as error:
            raise storage_error(error, self.dst, "clearing") from error

    def put(self, name: str, values: Array) -> None:
        """Writes a whole array at once."""
        writer = self.array(name, values.dtype, values.shape[1:], values.shape[0])
        step = max(1, (16 << 20) // max(1, values.nbytes // max(1, values.shape[0])))
        for start in range(0, values.shape[0], step):
            piece = np.asarray(fetch(values[start : start + step]))
            writer.append(piece.astype(writer.dtype, copy=False))
        self.close(name)

    def _folders(self) -> list[Path]:
        """The folders of the graph, each before the one that holds it."""
        inner = set() if self._typed else {"splits"}
        for name in self.arrays:
            parts = name.split("/")[:-1]
            inner |= {"/".join(parts[: count + 1]) for count in range(len(parts))}
        return [*(self.folder / name for name in sorted(inner, reverse=True)), self.folder]

    def scratch(self, name: str) -> Path:
        """A path for a temporary file, which is never inside the graph's folder."""
        return self._work.path / f"scratch-{name}"

    def defer(self, close: Callable[[], object]) -> None:
        """Registers a `close` to be called when the writer is left, however that happens."""
        self._deferred.callback(close)

    def finish(self, num_nodes: int, num_edges: int, **facts: Any) -> Path:
        """Writes meta.json and moves the folder into place.

        Args:
            num_nodes: N.
            num_edges: E.
            facts: further JSON fields (labels, features, provenance).
        """
        meta: dict[str, Any] = {
            "format": FORMAT,
            "version": self.version,
            "num_nodes": num_nodes,
            "num_edges": num_edges,
            "checksum": {"algorithm": "xxh64", "chunk_bytes": CHUNK},
            "arrays": {name: self.arrays[name] for name in sorted(self.arrays)},
            **facts,
        }
        meta["digest"] = meta_digest(meta)
        try:
            if self.tables.keys() == self.arrays.keys():
                write_json(self.folder / CHECKS, describe_checks(self.arrays, self.tables, CHUNK))
            write_json(self.folder / "meta.json", meta)
            for folder in self._folders():
                sync_folder(folder)
            check = partial(check_replaceable, name=self.dst.name) if self.overwrite else None
            self._work.commit(self.folder.name, check)
        except StorageError:
            raise
        except OSError as error:
            raise storage_error(error, self.dst, "finishing") from error
        return self.dst


def write_json(path: Path, text: Mapping[str, Any]) -> None:
    """Writes and syncs a JSON file: keys sorted, indented by one space, a final newline."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(text, file, indent=1, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
