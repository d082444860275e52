"""parquet_nodes: reads a table of nodes from a Parquet file, batch by batch."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.convert.nodes.node_options import NodeFile
from foregather.graph.convert.nodes.node_rows import NodeTableChunk, find_columns
from foregather.graph.convert.source import Strings
from foregather.graph.convert.sources.parquet import (
    arrow_modules,
    integers_of,
    is_text,
    keys_of,
    reading_parquet,
)

__all__ = ["ParquetNodes"]

Array = npt.NDArray[Any]
_MOST_ROWS = 1 << 16  # of one batch
_READ_BYTES = 1 << 20
_MOST_CLASSES = 1 << 16
_MOST_BYTES = 1000  # of the name of a class


class ParquetNodes:
    """A table of nodes in Parquet.

    Args:
        asked: the table and what the user says about it.
        strings: ids are read as text, otherwise as integers.
        with_time: the column of times is read.

    Raises:
        MissingDependencyError: pyarrow is not installed.
        FormatError: a damaged file.
        InputError: a column does not exist or does not hold what it should.
    """

    unit = "row"

    def __init__(self, asked: NodeFile, strings: bool, with_time: bool) -> None:
        arrow, parquet = arrow_modules()
        self._path = Path(asked.path)
        self.name = self._path.name
        if asked.header is not None:
            raise InputError("--node-header does not apply to Parquet; leave it out")
        with reading_parquet(self.name):
            schema = parquet.read_schema(self._path)
        self.header: Sequence[str] | None = list(schema.names)
        self._types = list(schema.types)
        numbers = [_is_number(arrow, kind) for kind in self._types]
        self.columns = find_columns(self.name, self.header, len(schema.names), asked, numbers)
        self._strings = strings
        self._time = self.columns.time if with_time else -1
        for column in self.columns.features:
            if not (numbers[column] or arrow.types.is_null(self._types[column])):
                raise InputError(
                    f"column {self.header[column]!r} of {self.name} holds {self._types[column]}, "
                    "expected numbers; leave it out of the features"
                )
        if is_text(self._types[self.columns.id], self.header[self.columns.id]) and not strings:
            raise InputError(
                f"{self.name} has text in column {self.header[self.columns.id]!r}, but the edges "
                "have integer ids; pass --ids string if ids are text"
            )
        self.text_labels = self.columns.label >= 0 and self._labels_are_text(asked, numbers)
        self.dates = self._time >= 0 and self._times_are_dates(arrow)
        self._classes: dict[str, int] = {}
        self._splits: dict[str, int] = {}

    def _labels_are_text(self, asked: NodeFile, numbers: list[bool]) -> bool:
        column = self.columns.label
        if asked.label_kind == "number" and not numbers[column]:
            raise InputError(
                f"column {column + 1} of {self.name} holds {self._types[column]}, expected numbers "
                "as labels; leave out --node-label-kind"
            )
        return asked.label_kind == "text" or not numbers[column]

    def _times_are_dates(self, arrow: Any) -> bool:
        kind = self._types[self._time]
        if arrow.types.is_integer(kind):
            return False
        if arrow.types.is_timestamp(kind) or arrow.types.is_date(kind):
            return True
        raise InputError(
            f"column {self._time + 1} of {self.name} holds {kind}, expected times: whole numbers, "
            "dates or timestamps"
        )

    def rows(self, step: int) -> Iterator[NodeTableChunk]:
        """Reads the table in order, at most `step` rows at a time."""
        _, parquet = arrow_modules()
        assert self.header is not None
        columns = self.columns
        used = {columns.id, columns.label, columns.split, self._time, *columns.features} - {-1}
        self._classes, self._splits = {}, {}
        done = 0
        with (
            reading_parquet(self.name),
            parquet.ParquetFile(self._path, buffer_size=_READ_BYTES, pre_buffer=False) as file,
        ):
            for batch in file.iter_batches(
                batch_size=min(step, _MOST_ROWS),
                columns=[self.header[c] for c in sorted(used)],
                use_threads=False,
            ):
                if batch.num_rows:
                    held = dict(zip(sorted(used), batch.columns, strict=True))
                    yield self._rows(held, done, batch.num_rows)
                done += batch.num_rows

    def _rows(self, held: dict[int, Any], done: int, count: int) -> NodeTableChunk:
        columns = self.columns
        ids, names = self._ids(held[columns.id], done)
        features = np.empty((count, len(columns.features)))
        for k, column in enumerate(columns.features):
            features[:, k] = _numbers(held[column])
        label: Array | None = None
        if columns.label >= 0:
            label = _numbers(held[columns.label])
            if self.text_labels:
                label = self._numbered(held[columns.label], self._classes)
        return NodeTableChunk(
            ids,
            names,
            np.arange(done + 1, done + count + 1),
            features,
            label,
            self._numbered(held[columns.split], self._splits) if columns.split >= 0 else None,
            self._times(held[self._time]) if self._time >= 0 else None,
        )

    def _ids(self, column: Any, done: int) -> tuple[Array, Strings | None]:
        if column.null_count:
            at = done + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))) + 1
            raise InputError(f"{self.name} row {at} has no id")
        if self._strings:
            return keys_of(column)
        ids = integers_of(column)
        if ids.dtype == np.uint64 and len(ids) and int(ids.max()) >= 1 << 63:
            raise InputError(f"{self.name} has the id {int(ids.max())}, beyond 64 bits with a sign")
        return ids.astype(np.int64), None

    def _numbered(self, column: Any, known: dict[str, int]) -> npt.NDArray[np.int32]:
        """Numbers for the texts of a column, -1 for null and for nothing."""
        arrow, _ = arrow_modules()
        if arrow.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        texts = column.cast(arrow.string()).dictionary_encode()
        numbers = np.full(len(texts.dictionary) + 1, -1, np.int32)
        for k, name in enumerate(texts.dictionary.to_pylist()):
            if name and len(name.encode()) > _MOST_BYTES:
                raise InputError(
                    f"{self.name} has {name[:40] + '...'!r} as a class or split, expected a name "
                    f"of at most {_MOST_BYTES} bytes"
                )
            if name:
                numbers[k] = known.setdefault(name, len(known))
        if len(known) > _MOST_CLASSES:
            raise InputError(
                f"{self.name} has more than {_MOST_CLASSES} different texts in one column, "
                "expected names of classes or splits"
            )
        places = texts.indices.fill_null(len(texts.dictionary)).to_numpy(zero_copy_only=False)
        chosen: npt.NDArray[np.int32] = numbers[places]
        return chosen

    def _times(self, column: Any) -> npt.NDArray[np.int64]:
        arrow, _ = arrow_modules()
        if self.dates:
            column = column.cast(arrow.timestamp("us"), safe=False).cast(arrow.int64())
        column = column.cast(arrow.int64()).fill_null(_core.NO_TIME)
        return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)

    def classes(self) -> list[str]:
        """Names of the classes that labels had so far, by number."""
        return list(self._classes)

    def splits(self) -> list[str]:
        """Names of the splits so far, by number."""
        return list(self._splits)


def _is_number(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _numbers(column: Any) -> npt.NDArray[np.float64]:
    """A column as float64, NaN for null; zeros for one that holds no numbers."""
    arrow, _ = arrow_modules()
    if not (_is_number(arrow, column.type) or arrow.types.is_null(column.type)):
        return np.zeros(len(column))
    if arrow.types.is_boolean(column.type):
        column = column.cast(arrow.int8())
    return np.asarray(column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False))
