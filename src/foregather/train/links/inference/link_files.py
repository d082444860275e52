"""link_files: tables of pairs, read and written as CSV or Parquet; rows of nodes with their ids."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError, MissingDependencyError, StorageError
from foregather.files import storage_error
from foregather.graph.on_disk.workspace import Workspace
from foregather.graph.original_ids import write_id_lines
from foregather.observe.progress import Progress
from foregather.targets import check_replaced
from foregather.train.exact.write import write_rows
from foregather.train.links.inference.link_ids import EndIds

__all__ = ["Table", "check_form", "read_pairs", "write_rows_with_ids", "write_table"]

#: Columns by name.
Table = dict[str, list[Any]]
_STEP = 1 << 16


def check_form(out: Path) -> None:
    """Raises InputError unless a table can be written under this name."""
    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out.name} ends with {out.suffix!r}, expected .csv or .parquet")
    if out.suffix == ".parquet":
        _arrow()


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError(
            "Parquet needs pyarrow; install it with: pip install 'foregather[parquet]', or use .csv"
        ) from error
    return pyarrow


def read_pairs(path: Path, columns: Sequence[str]) -> Table:
    """Reads the columns of a table, as text.

    Raises:
        InputError: it is no table, has no such column, or no rows.
        StorageError: it cannot be read.
    """
    try:
        if path.suffix == ".parquet":
            found = _arrow().parquet.read_table(path).to_pydict()
        elif path.suffix == ".csv":
            with open(path, newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                names, rows = reader.fieldnames or [], list(reader)
            found = {name: [row[name] for row in rows] for name in names}
        else:
            raise InputError(f"{path.name} ends with {path.suffix!r}, expected .csv or .parquet")
    except InputError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {path.name}: {error.strerror or error}") from error
    except (ValueError, KeyError, csv.Error) as error:
        raise InputError(f"{path.name} is no table: {error}") from error
    for name in columns:
        if name not in found:
            there = ", ".join(found) or "none"
            raise InputError(
                f"{path.name} has no column {name!r}, which is needed; it has: {there}"
            )
        if any(value is None for value in found[name]):
            at = [value is None for value in found[name]].index(True)
            raise InputError(f"{path.name} has no {name} in row {at + 1}")
    if not found[columns[0]]:
        raise InputError(f"{path.name} has no rows, so there is nothing to score")
    return {name: [str(value) for value in found[name]] for name in columns}


def write_table(out: Path, parts: Iterator[Table], overwrite: bool) -> int:
    """Writes a table, some rows at a time; it appears complete.

    Returns:
        Rows written.

    Raises:
        StorageError: it exists, or the disk is full; nothing is left behind.
    """
    write = _write_parquet if out.suffix == ".parquet" else _write_csv
    try:
        with Workspace(out, ".scratch") as work:
            count = write(work.path / "table", parts)
            work.commit("table", check_replaced if overwrite else None)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise storage_error(error, out, "writing") from error
    return count


def _write_csv(path: Path, parts: Iterator[Table]) -> int:
    count = 0
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        for number, part in enumerate(parts):
            if not number:
                out.writerow(part)
            out.writerows(zip(*part.values(), strict=True))
            count += len(next(iter(part.values())))
    return count


def _write_parquet(path: Path, parts: Iterator[Table]) -> int:
    arrow, count, writer = _arrow(), 0, None
    try:
        for part in parts:
            table = arrow.table(part)
            if writer is None:
                writer = arrow.parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
            count += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return count


def write_rows_with_ids(
    path: Path, values: npt.NDArray[np.float32], ids: EndIds, overwrite: bool
) -> None:
    """Writes a row for each node: .npy with NAME.npy.ids.csv, or .parquet with ids.

    Raises:
        StorageError: the disk is full.
    """
    if path.suffix == ".parquet":
        arrow = _arrow()

        def parts() -> Iterator[Table]:
            for first in range(0, len(values), _STEP):
                nodes = np.arange(first, min(first + _STEP, len(values)))
                flat = arrow.array(values[nodes].reshape(-1))
                rows = arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
                yield {"id": ids.of(nodes), "row": rows}

        write_table(path, parts(), overwrite)
        return
    try:
        with Workspace(path, ".scratch") as work:
            with Progress("writing", len(values), "rows") as bar:
                write_rows(work.path / "rows.npy", iter([values]), bar)
            work.commit("rows.npy", check_replaced if overwrite else None)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise storage_error(error, path, "writing") from error
    steps = range(0, len(values), _STEP)
    lines = (ids.of(np.arange(first, min(first + _STEP, len(values)))) for first in steps)
    write_id_lines(lines, path.with_name(path.name + ".ids.csv"))
