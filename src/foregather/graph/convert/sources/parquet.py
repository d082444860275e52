"""parquet: reads edges from a Parquet file or a folder of part files.

Only the requested columns are read, batch by batch, so even a row group larger than memory is
streamed. Integer ids are kept; text (also dictionary-encoded) becomes XXH64 keys, hashed once per
distinct value of a batch.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import (
    ForegatherError,
    FormatError,
    InputError,
    MissingDependencyError,
    StorageError,
)
from foregather.graph.convert.reading.columns import Column, Picked, check_ids, pick_columns
from foregather.graph.convert.source import EdgeChunk, Ids, RowStream, Small, Strings

__all__ = [
    "ParquetSource",
    "arrow_modules",
    "integers_of",
    "is_text",
    "keys_of",
    "reading_parquet",
]

_MOST_ROWS = 1 << 18  # of one batch
_READ_BYTES = 1 << 20  # of one column at a time

Array = npt.NDArray[Any]


def arrow_modules() -> tuple[Any, Any]:
    """Pyarrow and pyarrow.parquet."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError(
            "reading Parquet needs pyarrow; install it with: pip install foregather[parquet]"
        ) from error
    return pyarrow, pyarrow.parquet


@contextmanager
def reading_parquet(name: str) -> Iterator[None]:
    """Converts pyarrow's exceptions for broken or missing files to our errors."""
    arrow, _ = arrow_modules()
    try:
        yield
    except ForegatherError:
        raise
    except (arrow.ArrowException, ValueError) as error:
        what = (str(error).splitlines() or ["unknown"])[0]
        raise FormatError(f"{name} is a corrupt or unsupported Parquet file: {what}") from error
    except OSError as error:
        if error.errno is None:  # pyarrow's own: a damaged page or a failed decompression
            what = (str(error).splitlines() or ["unknown"])[0]
            raise FormatError(f"{name} is a corrupt Parquet file: {what}") from error
        raise StorageError(f"cannot read {name}: {os.strerror(error.errno)}") from error


class ParquetSource:
    """Edges of one Parquet file, or of the part files of a folder in the order of their names.

    Args:
        path: a .parquet file or a folder of them; names that start with _ or . are skipped.
        columns: source and target column, by name or by position from 1; None takes columns with
            usual names (source and target, src and dst, from and to, u and v), else the first two.
        ids: "dense", "sparse", "string", or "auto": "dense" for integer columns, "string" for
            text.
        weight: weight column, by name or position; None: no weights.

    Raises:
        MissingDependencyError: pyarrow is not installed.
        FormatError: no part files, a damaged file, or parts with different columns.
        InputError: the requested columns do not exist, or hold neither integers nor text.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Sequence[Column] | None = None,
        ids: str = "auto",
        weight: Column | None = None,
    ) -> None:
        check_ids(ids)
        arrow_modules()
        self.name = Path(path).name
        self._parts = _parts(Path(path))
        schema = self._schema(self._parts[0])
        self._names: list[str] = list(schema.names)
        self._picked: Picked = pick_columns(
            self.name, self._names, len(self._names), columns, weight
        )
        self._wanted = [self._names[c] for c in self._picked if c is not None]
        texts = [is_text(self._type(schema, name), name) for name in self._wanted[:2]]
        if ids in ("dense", "sparse") and any(texts):
            raise InputError(
                f"{self.name} has text in column {self._wanted[texts.index(True)]!r}, which "
                f"ids={ids!r} does not allow; pass --ids string"
            )
        if ids == "auto" and texts[0] != texts[1]:
            raise InputError(
                f"{self.name} has text in one id column and integers in the other, expected one "
                "kind; pass --ids string to take both as text"
            )
        strings = ids == "string" or any(texts)
        self.ids: Ids = "string" if strings else "sparse" if ids == "sparse" else "dense"
        self.num_nodes: int | None = None
        self.num_edges: int | None = self._check_parts(schema)
        self.has_weight = weight is not None
        self.edge_features: tuple[int, np.dtype[Any]] | None = None
        self.stored_once: bool | None = None
        self.features: RowStream | None = None

    def _schema(self, part: Path) -> Any:
        _, parquet = arrow_modules()
        with reading_parquet(part.name):
            return parquet.read_schema(part)

    @staticmethod
    def _type(schema: Any, name: str) -> Any:
        return schema.field(name).type

    def _check_parts(self, schema: Any) -> int:
        """Checks that every part has the same columns; returns the total number of rows."""
        _, parquet = arrow_modules()
        rows = 0
        for part in self._parts:
            with reading_parquet(part.name):
                rows += parquet.read_metadata(part).num_rows
            held = self._schema(part)
            for name in self._wanted:
                if held.get_field_index(name) < 0:
                    raise FormatError(
                        f"{part.name} has no column {name!r}, which {self._parts[0].name} has"
                    )
                if held.field(name).type != schema.field(name).type:
                    raise FormatError(
                        f"{part.name} has {held.field(name).type} in column {name!r}, but "
                        f"{self._parts[0].name} has {schema.field(name).type}"
                    )
        return rows

    def edges(self, step: int) -> Iterator[EdgeChunk]:
        """Reads the edges in order, at most `step` at a time."""
        if step < 1:
            raise InputError(f"step is {step}, expected at least 1")
        for part in self._parts:
            yield from self._part_edges(part, step)

    def _part_edges(self, part: Path, step: int) -> Iterator[EdgeChunk]:
        _, parquet = arrow_modules()
        # buffer_size: a column chunk is read through a small window, not whole
        with (
            reading_parquet(part.name),
            parquet.ParquetFile(part, buffer_size=_READ_BYTES, pre_buffer=False) as file,
        ):
            batches = file.iter_batches(
                batch_size=min(step, _MOST_ROWS), columns=self._wanted, use_threads=False
            )
            row = 0
            for batch in batches:
                if batch.num_rows:
                    yield self._chunk(batch, part.name, row)
                row += batch.num_rows

    def _chunk(self, batch: Any, part: str, row: int) -> EdgeChunk:
        held = [batch.column(batch.schema.get_field_index(name)) for name in self._wanted]
        for name, column in zip(self._wanted, held, strict=True):
            if column.null_count:
                at = row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))) + 1
                raise InputError(
                    f"{part} row {at} has no value in column {name!r}, expected "
                    f"{'a weight' if column is held[-1] and len(held) == 3 else 'an id'}"
                )
        weight = self._weights(held[2], part, row) if self.has_weight else None
        if self.ids != "string":
            return EdgeChunk(integers_of(held[0]), integers_of(held[1]), weight)
        try:
            (source, sources), (target, targets) = keys_of(held[0]), keys_of(held[1])
        except InputError as error:
            last = row + batch.num_rows
            raise InputError(f"{part} rows {row + 1} to {last} hold a bad id: {error}") from error
        return EdgeChunk(source, target, weight, names=_join(sources, targets))

    def _weights(self, column: Any, part: str, row: int) -> npt.NDArray[np.float32]:
        arrow, _ = arrow_modules()
        name = self._wanted[2]
        kinds = arrow.types
        if not (kinds.is_integer(column.type) or kinds.is_floating(column.type)):
            raise InputError(f"column {name!r} holds {column.type}, expected weights as numbers")
        with np.errstate(over="ignore"):  # overflow is refused below
            weights: npt.NDArray[np.float32] = column.to_numpy(zero_copy_only=False).astype(
                np.float32
            )
        bad = np.flatnonzero(~np.isfinite(weights))
        if bad.size:
            raise InputError(
                f"{part} row {row + int(bad[0]) + 1} has {column[int(bad[0])]} in column {name!r}, "
                "expected a finite weight"
            )
        return weights

    def small(self, budget: int) -> Small:
        """A table of edges has neither labels nor splits."""
        return Small()

    def notes(self) -> list[str]:
        """Notes on what was read and what was not."""
        found = [f"Edges go from column {self._wanted[0]!r} to {self._wanted[1]!r}."]
        if len(self._parts) > 1:
            found.append(f"{len(self._parts)} part files are read in the order of their names.")
        left = [name for name in self._names if name not in self._wanted]
        if left:
            listed = ", ".join(left[:5]) + (" and more" if len(left) > 5 else "")
            found.append(f"Not read: {listed}; --weight takes one as weights.")
        return found


def _parts(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    parts = sorted(p for p in path.glob("*.parquet") if p.is_file() and p.name[0] not in "_.")
    if not parts:
        raise FormatError(f"{path.name} has no .parquet files; expected a folder of part files")
    return parts


def is_text(kind: Any, name: str) -> bool:
    """True for text, False for integers; anything else is refused."""
    arrow, _ = arrow_modules()
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind):
        return False
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if any(is_text(kind) for is_text in texts):
        return True
    raise InputError(f"column {name!r} holds {kind}, expected integer or text ids")


def integers_of(column: Any) -> Array:
    """An integer column as an array."""
    arrow, _ = arrow_modules()
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return np.asarray(column.to_numpy(zero_copy_only=False))


def keys_of(column: Any) -> tuple[npt.NDArray[np.uint64], Strings]:
    """XXH64 keys of a column, and its distinct strings."""
    arrow, _ = arrow_modules()
    if arrow.types.is_dictionary(column.type) and len(column.dictionary) > len(column):
        column = column.dictionary_decode()  # a dictionary of the whole file costs more
    if not arrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    values = column.dictionary
    if arrow.types.is_integer(values.type):
        values = values.cast(arrow.string())
    if values.null_count:
        raise InputError("a dictionary of ids holds a null, expected text")
    names = _strings(values.cast(arrow.large_binary()))
    keys = np.empty(len(values), np.uint64)
    _core.hash_strings(names.data, names.offsets, keys)
    return keys[column.indices.to_numpy(zero_copy_only=False)], names._replace(keys=keys)


def _strings(values: Any) -> Strings:
    """The buffers of a large_binary array, starting at its first string."""
    _, offset_buffer, data_buffer = values.buffers()
    if len(values) == 0 or offset_buffer is None:
        return Strings(np.empty(0, np.uint8), np.zeros(1, np.int64))
    offsets = np.frombuffer(offset_buffer, np.int64)[values.offset :][: len(values) + 1]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return Strings(data[offsets[0] : offsets[-1]], offsets - offsets[0])


def _join(first: Strings, second: Strings) -> Strings:
    keys = [names.keys for names in (first, second) if names.keys is not None]
    return Strings(
        np.concatenate([first.data, second.data]),
        np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]]),
        np.concatenate(keys) if len(keys) == 2 else None,
    )
