"""feature_block: a block of consecutive feature rows, held by one rank.

The rows are in memory, or on the rank's own disk: in a file that an exchange reads according to a
plan, or in a store with its own memory. Ids are those of the whole graph. Blocks have the same
number of rows unless boundaries are given (such as those of a `Partition`).
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.dist.sampling.partition import read_span
from foregather.errors import InputError
from foregather.files import absolute
from foregather.gather.feature_file import FeatureFile
from foregather.gather.row_source import RowSource
from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.graph.integrity.blocks import array_checks

__all__ = ["FeatureBlock"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """Rows [row_starts[block], row_starts[block + 1]) of a feature matrix.

    Attributes:
        row_starts: int64 [blocks + 1]: boundaries of the blocks.
        block: number of this block.
        rows: its rows: in memory, in a file, or a store; a file or store may hold all rows.
    """

    row_starts: Int
    block: int
    rows: RowSource

    def __post_init__(self) -> None:
        starts = self.row_starts
        if not 0 <= self.block < len(starts) - 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
            raise InputError(
                f"block is {self.block} with {len(starts)} borders, expected ascending borders "
                "from 0 on and one of their blocks"
            )
        if len(self.rows) not in (self.num_rows, self.total_rows):
            raise InputError(
                f"there are {len(self.rows)} rows, expected the {self.num_rows} of block "
                f"{self.block} or all {self.total_rows}"
            )

    @staticmethod
    def of(
        features: RowSource | Array,
        blocks: int,
        block: int,
        row_starts: npt.ArrayLike | None = None,
    ) -> "FeatureBlock":
        """Returns one block of a whole matrix: a view in memory, or its store on disk.

        Raises:
            InputError: there is no such block, or the boundaries do not fit the rows.
        """
        rows = features if isinstance(features, RowSource) else Features(features)
        starts = _borders(len(rows), blocks, row_starts)
        if not 0 <= block < blocks:
            return FeatureBlock(starts, block, rows)  # which says so
        return FeatureBlock(starts, block, rows.part(int(starts[block]), int(starts[block + 1])))

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        blocks: int,
        block: int,
        row_starts: npt.ArrayLike | None = None,
    ) -> "FeatureBlock":
        """Reads only one block of a graph folder's features into memory.

        Raises:
            InputError: the graph has no features, or there is no such block.
            FormatError: the folder is damaged.
            StorageError: a file cannot be read.
        """
        graph = Graph.open(path)
        if graph.features is None:
            raise InputError(
                "the graph has no features; convert it with --features FILE or --node-table FILE"
            )
        starts = _borders(graph.num_nodes, blocks, row_starts)
        if not 0 <= block < blocks:
            raise InputError(f"block is {block}, but there are {blocks} blocks (0 to B-1)")
        if graph.features.places is not None:
            own = graph.features.part(int(starts[block]), int(starts[block + 1]))
            return FeatureBlock(starts, block, Features(own.by_id(), own.scale))
        width = graph.features.width
        first, last = int(starts[block]) * width, int(starts[block + 1]) * width
        name = str(graph.meta["arrays"]["features"]["file"])
        checks = array_checks(graph, "features")
        data = read_span(absolute(path) / name, first, last, checks).reshape(-1, width)
        return FeatureBlock(starts, block, Features(data, graph.features.scale))

    @staticmethod
    def on_disk(
        graph: Graph,
        blocks: int,
        block: int,
        row_starts: npt.ArrayLike | None = None,
    ) -> "FeatureBlock":
        """Returns one block of a graph folder's features, left on disk for an exchange to read.

        Raises:
            InputError: the graph has no features or no folder, or there is no such block.
            FormatError: the file is not what meta.json says.
            StorageError: the file cannot be opened.
        """
        file = FeatureFile.of(graph)
        if file.places is not None:
            raise InputError(
                "the feature rows of the graph are in an order, so the rows of a rank do not lie "
                "together on disk; keep them in memory, or use a folder in the order of ids "
                "(foregather reorder --order ids)"
            )
        return FeatureBlock(_borders(len(file), blocks, row_starts), block, file)

    @property
    def file(self) -> FeatureFile | None:
        """The rows of this block if they are in a file; otherwise None."""
        file = self.rows.by_plan
        if file is None or len(file) == self.num_rows:
            return file
        return file.span(self.first_row, self.first_row + self.num_rows)

    @property
    def first_row(self) -> int:
        """Id of the first row of this block."""
        return int(self.row_starts[self.block])

    @property
    def num_rows(self) -> int:
        """Rows of this block."""
        return int(self.row_starts[self.block + 1]) - self.first_row

    @property
    def total_rows(self) -> int:
        """Rows of all blocks."""
        return int(self.row_starts[-1])

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return self.rows.width

    @property
    def scale(self) -> npt.NDArray[np.float32] | None:
        """float32 [width] if `take` returns int8 rows that stand for row * scale."""
        return self.rows.scale

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of rows returned by `take`."""
        stored: np.dtype[Any] = self.rows.dtype
        native: np.dtype[Any] = stored.newbyteorder("=")
        return native

    @property
    def gathered_dtype(self) -> np.dtype[Any]:
        """The dtype that a user sees: `dtype`, or float32 with a scale."""
        return self.dtype if self.scale is None else np.dtype(np.float32)

    def take(self, ids: Array) -> Array:
        """Returns rows of this block by id, as stored (or as the store returns them).

        Raises:
            InputError: the rows are in a file, which is only read according to a plan.
        """
        return self.rows.take(self._local(ids))

    def _local(self, ids: Array) -> Int:
        whole = len(self.rows) == self.total_rows
        return ids.astype(np.int64) - (0 if whole else self.first_row)


def _borders(rows: int, blocks: int, row_starts: npt.ArrayLike | None) -> Int:
    if blocks < 1:
        raise InputError(f"blocks is {blocks}, expected at least 1")
    if row_starts is None:
        return np.arange(blocks + 1, dtype=np.int64) * rows // blocks
    starts = np.asarray(row_starts, np.int64)
    if len(starts) != blocks + 1 or starts[-1] != rows:
        raise InputError(
            f"row_starts has {len(starts)} borders up to {starts[-1] if len(starts) else 'none'}, "
            f"expected {blocks + 1} up to {rows}"
        )
    return starts
