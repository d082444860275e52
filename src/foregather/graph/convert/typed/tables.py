"""tables: columns of a csv, tsv, Parquet or NumPy file, read a batch at a time.

A column is named as in the header, or by its position from 1 where there is none. pyarrow reads
text and Parquet; .npz holds one array for each column, .npy one column or a matrix.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from foregather.errors import (
    ForegatherError,
    FormatError,
    InputError,
    MissingDependencyError,
    StorageError,
)
from foregather.graph.convert.reading.named_arrays import NpyArrays
from foregather.graph.convert.reading.npz import ZipArrays
from foregather.graph.convert.typed.databases.table import DatabaseTable

__all__ = [
    "Batch",
    "Table",
    "arrow",
    "column_names",
    "count_rows",
    "first_rows",
    "is_text",
    "names_itself",
    "read_columns",
]

#: Arrow arrays by the name they were asked by.
Batch = dict[str, Any]

#: A file that is a table, or a table of a database.
Table: TypeAlias = Path | DatabaseTable

_ROWS = 1 << 18
_READ_BYTES = 1 << 20
_TEXT = {".csv": ",", ".tsv": "\t", ".txt": "\t"}


def arrow() -> Any:
    """pyarrow, with the modules used here.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError(
            "reading tables needs pyarrow; install it with: pip install foregather[parquet]"
        ) from error
    return pyarrow


def count_rows(table: Table) -> int | None:
    """Rows of a table where they are known without reading it, for a bar."""
    if isinstance(table, DatabaseTable):
        return table.rows
    if table.suffix.lower() == ".parquet":
        with suppress(Exception), arrow().parquet.ParquetFile(table) as file:
            return int(file.metadata.num_rows)
    return None


def read_columns(
    path: Table,
    wanted: Sequence[str],
    text: Sequence[str] = (),
    numbers: Sequence[str] = (),
    rows: int = _ROWS,
    header: bool | None = None,
) -> Iterator[Batch]:
    """Reads columns of a table in order, at least one batch even where there are no rows.

    Args:
        path: .csv, .tsv, .txt (tab-separated, without a header), .parquet, .npz or .npy; text may
            be gzipped. Or a table of a database.
        wanted: columns by name, or by position from 1.
        text: of them, those taken as text even if they look like numbers.
        numbers: of them, those that may have fractions further down in a text file.
        rows: the most that a batch has; those of a text file have about a megabyte.
        header: whether the first line of a text file names the columns; None: by its kind.

    Raises:
        InputError: a column does not exist.
        FormatError: the file is damaged, or of an unknown kind.
        StorageError: it cannot be read.
    """
    if isinstance(path, DatabaseTable):
        yield from path.batches(wanted, text, rows)
        return
    if not path.exists():
        raise StorageError(f"{path.name} does not exist; check the file names of the description")
    kind = _kind(path)
    if kind in _TEXT:
        named = names_itself(path) if header is None else header
        yield from _from_text(path, wanted, text, numbers, (_TEXT[kind], named))
    elif kind == ".parquet":
        yield from _from_parquet(path, wanted, rows)
    elif kind in (".npz", ".npy"):
        yield from _from_numpy(path, wanted, rows)
    else:
        raise FormatError(
            f"{path.name} is not a table; expected .csv, .tsv, .txt, .parquet, .npz or .npy"
        )


def is_text(table: Table) -> bool:
    """Whether a table is a text file, whose first line may name its columns."""
    return isinstance(table, Path) and _kind(table) in _TEXT


def names_itself(path: Path) -> bool:
    """Whether the first line of such a text file names its columns, unless it is said not to."""
    return _kind(path) != ".txt"


def first_rows(path: Path) -> tuple[list[str], list[Any]]:
    """The fields of the first line of a text file, and the types of what is below each.

    Raises:
        FormatError: the file is empty, or damaged.
        StorageError: it cannot be read.
    """
    pa = arrow()
    reading = pa.csv.ReadOptions(use_threads=False)
    parsing = pa.csv.ParseOptions(delimiter=_TEXT[_kind(path)])
    with (
        _reading(path),
        pa.csv.open_csv(path, read_options=reading, parse_options=parsing) as file,
    ):
        return list(file.schema.names), list(file.schema.types)


def _kind(path: Path) -> str:
    return os.path.splitext(path.name.lower().removesuffix(".gz"))[1]


def column_names(path: Path, header: bool | None = None) -> list[str]:
    """The columns of a table in a file, in order; those of a file without a header are f0, f1, ...

    Args:
        path: text or Parquet.
        header: whether the first line of a text file names the columns; None: by its kind.

    Raises:
        FormatError: the file is damaged, or neither text nor Parquet.
        StorageError: it cannot be read.
    """
    pa = arrow()
    kind = _kind(path)
    named = names_itself(path) if header is None else header
    with _reading(path):
        if kind in _TEXT:
            reading = pa.csv.ReadOptions(autogenerate_column_names=not named, use_threads=False)
            parsing = pa.csv.ParseOptions(delimiter=_TEXT[kind])
            with pa.csv.open_csv(path, read_options=reading, parse_options=parsing) as file:
                return list(file.schema.names)
        if kind == ".parquet":
            with pa.parquet.ParquetFile(path) as file:
                return list(file.schema_arrow.names)
    raise FormatError(f"{path.name} is not a table; expected .csv, .tsv, .txt or .parquet")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns pyarrow's errors into ours."""
    pa = arrow()
    try:
        yield
    except ForegatherError:
        raise
    except (pa.ArrowException, ValueError) as error:
        what = (str(error).splitlines() or ["unknown"])[0]
        if "Empty CSV file" in what:  # pyarrow calls a line that does not end so, too
            raise FormatError(
                f"{path.name} is empty, or has one line that does not end; leave it out, or mend it"
            ) from error
        raise FormatError(f"{path.name} cannot be read as a table: {what:.200}") from error
    except OSError as error:
        what = (str(error).splitlines() or ["unknown"])[0]
        raise StorageError(f"cannot read {path.name}: {error.strerror or what:.200}") from error


def _find(path: Path, names: Sequence[str], column: str) -> str:
    """The name of a column that was asked for by name or by position."""
    if list(names).count(column) == 1:
        return column
    if column in names:
        raise InputError(f"{path.name} has several columns named {column!r}; rename one")
    if column.isascii() and column.isdigit() and 1 <= int(column) <= len(names):
        return names[int(column) - 1]
    near = get_close_matches(column, names, 1, 0.6)
    hint = f"the nearest is {near[0]!r}" if near else f"its columns are {', '.join(names):.300}"
    raise InputError(f"{path.name} has no column {column!r:.80}; {hint}")


def _from_text(
    path: Path,
    wanted: Sequence[str],
    text: Sequence[str],
    numbers: Sequence[str],
    form: tuple[str, bool],
) -> Iterator[Batch]:
    pa = arrow()
    delimiter, header = form
    reading = pa.csv.ReadOptions(autogenerate_column_names=not header, use_threads=False)
    parsing = pa.csv.ParseOptions(delimiter=delimiter)
    with _reading(path):
        with pa.csv.open_csv(path, read_options=reading, parse_options=parsing) as file:
            schema = file.schema
        found = {one: _find(path, list(schema.names), one) for one in wanted}
        types = {found[one]: pa.string() for one in text if one in found}
        # pyarrow guesses by the first block; a fraction or a first value may come later
        for one in numbers:
            kind = schema.field(found[one]).type
            if pa.types.is_integer(kind) or pa.types.is_null(kind):
                types[found[one]] = pa.float64()
        converting = pa.csv.ConvertOptions(
            include_columns=sorted(set(found.values())), column_types=types
        )
        options = {"read_options": reading, "parse_options": parsing}
        with pa.csv.open_csv(path, convert_options=converting, **options) as file:
            empty = True
            for data in file:
                empty = False
                yield {one: data.column(found[one]) for one in wanted}
            if empty:
                data = file.schema.empty_table()
                yield {one: data.column(found[one]).combine_chunks() for one in wanted}


def _from_parquet(path: Path, wanted: Sequence[str], rows: int) -> Iterator[Batch]:
    pa = arrow()
    # buffer_size: a column chunk is read through a small window, not whole
    with (
        _reading(path),
        pa.parquet.ParquetFile(path, buffer_size=_READ_BYTES, pre_buffer=False) as file,
    ):
        names = list(file.schema_arrow.names)
        columns = sorted({_find(path, names, one) for one in wanted})
        empty = True
        for data in file.iter_batches(batch_size=rows, columns=columns, use_threads=False):
            empty = False
            yield {one: data.column(_find(path, names, one)) for one in wanted}
        if empty:
            data = file.schema_arrow.empty_table()
            yield {one: data.column(_find(path, names, one)).combine_chunks() for one in wanted}


def _from_numpy(path: Path, wanted: Sequence[str], rows: int) -> Iterator[Batch]:
    pa = arrow()
    if path.name.lower().endswith(".npz"):
        with ZipArrays(path) as arrays:
            found = {one: _find(path, arrays.names(), one) for one in wanted}
            sizes = {arrays.header(name).shape for name in found.values()}
            if len(sizes) > 1 or any(len(shape) != 1 for shape in sizes):
                raise InputError(f"the columns of {path.name} are not lists of one length")
            streams = {one: arrays.chunks(name, rows) for one, name in found.items()}
            empty = {one: np.empty(0, arrays.header(name).dtype) for one, name in found.items()}
            pieces = (
                dict(zip(streams, values, strict=True))
                for values in zip(*streams.values(), strict=True)
            )
            with _reading(path):
                for piece in _or_empty(pieces, empty):
                    yield {one: pa.array(values) for one, values in piece.items()}
        return
    file = NpyArrays(path)
    header = file.header("edge_index")
    width = header.shape[1] if len(header.shape) == 2 else 1
    if len(header.shape) not in (1, 2):
        raise InputError(f"{path.name} has shape {list(header.shape)}, expected columns")
    names = [str(number + 1) for number in range(width)]
    at = {one: int(_find(path, names, one)) - 1 for one in wanted}
    none = np.empty((0, width), header.dtype)
    parts = (values.reshape(-1, width) for values in file.chunks("edge_index", rows))
    with _reading(path):
        for matrix in _or_empty(parts, none):
            yield {
                one: pa.array(np.ascontiguousarray(matrix[:, place])) for one, place in at.items()
            }


def _or_empty(pieces: Iterator[Any], empty: Any) -> Iterator[Any]:
    """The pieces, or the empty one where there are none."""
    found = False
    for piece in pieces:
        found = True
        yield piece
    if not found:
        yield empty
