"""tables: columns of a csv, tsv, Parquet or NumPy file, read a batch at a time.

A column is named as in the header, or by its position from 1 where there is none. pyarrow reads
text and Parquet; .npz holds one array for each column, .npy one column or a matrix.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from foregather.errors import (
    ForegatherError,
    FormatError,
    InputError,
    MissingDependencyError,
    StorageError,
)

__all__ = ["Batch", "arrow", "read_columns"]

#: Arrow arrays by the name they were asked by.
Batch = dict[str, Any]

_ROWS = 1 << 18
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


def read_columns(
    path: Path, wanted: Sequence[str], text: Sequence[str] = (), numbers: Sequence[str] = ()
) -> Iterator[Batch]:
    """Reads columns of a table in order, at least one batch even where there are no rows.

    Args:
        path: .csv, .tsv, .txt (tab-separated, without a header), .parquet, .npz or .npy; text may
            be gzipped.
        wanted: columns by name, or by position from 1.
        text: of them, those taken as text even if they look like numbers.
        numbers: of them, those that may have fractions further down in a text file.

    Raises:
        InputError: a column does not exist.
        FormatError: the file is damaged, or of an unknown kind.
        StorageError: it cannot be read.
    """
    if not path.exists():
        raise StorageError(f"{path.name} does not exist; check the file names of the description")
    bare = path.name.lower().removesuffix(".gz")
    kind = os.path.splitext(bare)[1]
    if kind in _TEXT:
        yield from _from_text(path, wanted, text, numbers, (_TEXT[kind], kind != ".txt"))
    elif kind == ".parquet":
        yield from _from_parquet(path, wanted)
    elif kind in (".npz", ".npy"):
        yield from _from_numpy(path, wanted)
    else:
        raise FormatError(
            f"{path.name} is not a table; expected .csv, .tsv, .txt, .parquet, .npz or .npy"
        )


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
    raise InputError(
        f"{path.name} has no column {column!r:.80}; its columns are {', '.join(names):.300}"
    )


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


def _from_parquet(path: Path, wanted: Sequence[str]) -> Iterator[Batch]:
    pa = arrow()
    with _reading(path), pa.parquet.ParquetFile(path, pre_buffer=False) as file:
        names = list(file.schema_arrow.names)
        columns = sorted({_find(path, names, one) for one in wanted})
        empty = True
        for data in file.iter_batches(batch_size=_ROWS, columns=columns, use_threads=False):
            empty = False
            yield {one: data.column(_find(path, names, one)) for one in wanted}
        if empty:
            data = file.schema_arrow.empty_table()
            yield {one: data.column(_find(path, names, one)).combine_chunks() for one in wanted}


def _from_numpy(path: Path, wanted: Sequence[str]) -> Iterator[Batch]:
    pa = arrow()
    try:
        if path.name.lower().endswith(".npz"):
            with np.load(path, allow_pickle=False) as file:
                names = list(file.files)
                columns = {one: file[_find(path, names, one)] for one in wanted}
        else:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            array = array.reshape(-1, 1) if array.ndim == 1 else array
            if array.ndim != 2:
                raise InputError(f"{path.name} has shape {list(array.shape)}, expected columns")
            names = [str(number + 1) for number in range(array.shape[1])]
            columns = {one: array[:, names.index(_find(path, names, one))] for one in wanted}
    except (ValueError, EOFError, KeyError) as error:
        if isinstance(error, ForegatherError):
            raise
        raise FormatError(f"{path.name} is not an array file, or holds a pickle") from error
    except OSError as error:
        raise StorageError(f"cannot read {path.name}: {error.strerror}") from error
    sizes = {len(values) if values.ndim == 1 else -1 for values in columns.values()}
    if len(sizes) > 1 or -1 in sizes:
        raise InputError(f"the columns of {path.name} are not lists of one length")
    count = sizes.pop() if sizes else 0
    with _reading(path):
        for start in range(0, max(1, count), _ROWS):
            yield {
                one: pa.array(np.ascontiguousarray(values[start : start + _ROWS]))
                for one, values in columns.items()
            }
