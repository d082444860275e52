"""feature_file: describes a file of feature rows to an executor.

A `FeatureFile` was checked against the header of the file and against meta.json when it was made;
the executor checks that the file does not change and that its blocks match their checksums.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError, InputError, StorageError
from foregather.files import absolute, open_regular
from foregather.graph.graph import Graph
from foregather.graph.integrity.blocks import ArrayChecks, BlockSums, array_checks
from foregather.graph.mapped import hold
from foregather.graph.on_disk.npy import ALIGN, file_bytes, read_file_header

__all__ = ["FeatureFile"]

_MOST_ROWS = (1 << 32) - 2


@dataclass(frozen=True)
class FeatureFile:
    """Feature rows in an array file.

    Attributes:
        path: the file.
        name: its name in errors.
        num_rows: rows in it.
        width: numbers in a row.
        dtype: the stored dtype.
        scale: float32 [width] with int8 rows: a row stands for row * scale. Otherwise None.
        first_row: the row of the file that is row 0 here.
        rows_after: rows of the file after the last one here.
        checks: block checksums of the file; None if it has none.
        places: the row of each id, in memory; None where it is the id itself.
    """

    path: Path
    name: str
    num_rows: int
    width: int
    dtype: np.dtype[Any]
    scale: npt.NDArray[np.float32] | None = field(default=None, compare=False)
    first_row: int = 0
    rows_after: int = 0
    checks: ArrayChecks | None = field(default=None, compare=False, repr=False)
    places: npt.NDArray[Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", absolute(self.path))  # it is reopened for reading

    def __len__(self) -> int:
        return self.num_rows

    @classmethod
    def of(cls, graph: Graph, which: str = "features") -> "FeatureFile":
        """Returns the file of a graph's `features` or `edge_features`.

        Raises:
            InputError: the graph is not from a folder, has no such features, or they have no
                columns or too many rows.
            FormatError: the file is not what meta.json says.
            StorageError: the file cannot be opened.
        """
        if which not in ("features", "edge_features"):
            raise InputError(f"which is {which!r}, expected 'features' or 'edge_features'")
        features = graph.features if which == "features" else graph.edge_features
        if features is None:
            flags = "--features FILE or --node-table FILE" if which == "features" else "them"
            raise InputError(f"the graph has no {which}; convert it with {flags}")
        if graph.path is None:
            raise InputError(
                f"the {which} are in memory, not in a folder; save the graph and open it, "
                "or gather from memory"
            )
        name = str(graph.meta["arrays"][which]["file"])
        path = graph.path / name
        made = cls(
            path,
            name,
            features.num_rows,
            features.width,
            features.dtype,
            features.scale,
            checks=array_checks(graph, which),
            places=None if features.places is None else hold(features.places),
        )
        made._check()
        return made

    def span(self, first: int, last: int) -> "FeatureFile":
        """Restricts this to rows first to last - 1 of the same file.

        Raises:
            InputError: there are no such rows.
        """
        if not 0 <= first <= last <= self.num_rows:
            raise InputError(
                f"rows {first} to {last} of {self.name} were requested, expected bounds from 0 to "
                f"{self.num_rows}"
            )
        return replace(
            self,
            num_rows=last - first,
            first_row=self.first_row + first,
            rows_after=self.rows_after + self.num_rows - last,
        )

    def rows(self, batches: Iterable[Any]) -> Iterable[Any]:
        """The rows of this file that samples, or arrays of ids, ask for, batch by batch."""
        if self.places is None:
            return batches
        return [self.rows_of(np.asarray(getattr(one, "node", one))) for one in batches]

    def rows_of(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The rows of this file that hold these ids."""
        if self.places is None:
            return ids
        if ids.dtype not in (np.uint32, np.int64):
            ids = ids.astype(np.int64)
        found = np.empty((len(ids), 1), self.places.dtype)
        _core.gather_rows(self.places[:, None], np.ascontiguousarray(ids), found, None, 1)
        return found[:, 0]

    @property
    def places_bytes(self) -> int:
        """Bytes of memory that `places` take."""
        return 0 if self.places is None else int(self.places.nbytes)

    @property
    def in_memory(self) -> None:
        """No row is in memory."""

    @property
    def by_plan(self) -> "FeatureFile":
        """Itself: only plans read it."""
        return self

    def take(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Refused.

        Raises:
            InputError: always.
        """
        raise InputError(f"{self.name} is read by plan; use mode='planned', or give a Store of it")

    def part(self, first: int, last: int) -> "FeatureFile":
        """The same as `span`."""
        return self.span(first, last)

    def stored(self) -> "FeatureFile":
        """The same rows without their scale, so that the stored bytes are gathered."""
        return replace(self, scale=None)

    def _check(self) -> None:
        if self.width == 0 or self.num_rows > _MOST_ROWS:
            raise InputError(
                f"{self.name} has {self.num_rows} rows of {self.width} numbers, expected at least "
                f"one number and at most {_MOST_ROWS} rows"
            )
        try:
            with open_regular(self.path) as file:
                header = read_file_header(file, self.name)
                size = os.fstat(file.fileno()).st_size
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(f"cannot open {self.name}: {error.strerror}") from error
        shape = (self.num_rows, self.width)
        if (header.dtype, header.shape, header.offset) != (self.dtype, shape, ALIGN):
            raise FormatError(
                f"{self.name} holds {header.dtype} of shape {list(header.shape)} from byte "
                f"{header.offset}, expected {self.dtype} of shape {list(shape)} from byte {ALIGN}; "
                "it was replaced, open the graph again"
            )
        if size != self.file_bytes:
            raise FormatError(f"{self.name} has {size} bytes, expected {self.file_bytes}")

    @property
    def row_bytes(self) -> int:
        """Stored bytes of a row."""
        return self.width * self.dtype.itemsize

    @property
    def file_bytes(self) -> int:
        """Size of the file, header and tail included."""
        rows = self.first_row + self.num_rows + self.rows_after
        return file_bytes(rows * self.row_bytes)

    @property
    def gathered_dtype(self) -> np.dtype[Any]:
        """The dtype of gathered rows: the stored one, or float32 with a scale."""
        return np.dtype(np.float32) if self.scale is not None else self.dtype

    def load_sums(self) -> BlockSums | None:
        """Loads and caches the checksums of these rows' blocks; None if there are none.

        Raises:
            FormatError: the table of the file is damaged.
            StorageError: it cannot be read.
        """
        return None if self.checks is None else self.checks.load(*self._span())

    @property
    def sums_bytes(self) -> int:
        """Bytes of memory that `load_sums` needs."""
        return 0 if self.checks is None else self.checks.load_bytes(*self._span())

    def _span(self) -> tuple[int, int]:
        first = self.first_row * self.row_bytes
        return first, first + self.num_rows * self.row_bytes

    def geometry(self, block_bytes: int = ALIGN) -> _core.Geometry:
        """The layout of the rows, for a planner that reads in blocks of `block_bytes`."""
        payload = ALIGN + self.first_row * self.row_bytes
        return _core.Geometry(self.num_rows, self.row_bytes, payload, self.file_bytes, block_bytes)
