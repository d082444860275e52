"""chunks: iterates over a graph's edges and rows piece by piece, for verify and describe.

Pieces of arrays in memory are views, those of mapped files are read: memory use does not depend on
the size of the graph, and a file that cannot be read is an error.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from foregather.graph.graph_value import EDGE_STEP
from foregather.graph.mapped import fetch, is_mapped

__all__ = ["CscLike", "EdgePiece", "edge_pieces", "row_of", "row_pieces"]

Array = npt.NDArray[Any]

_ROW_BYTES = 16 << 20
_LOOK = 4096  # row boundaries that are read at once, at the end of a search


class CscLike(Protocol):
    """Edges in rows: a graph, or a relation."""

    @property
    def num_edges(self) -> int:
        """Number of edges."""

    @property
    def indptr(self) -> npt.NDArray[np.int64]:
        """Borders of rows."""

    @property
    def indices(self) -> Array:
        """Sources."""


class EdgePiece(NamedTuple):
    """The edges [start + skip, start + len(indices)), and the rows they belong to.

    `skip` is 1 if the first edge is only included as the predecessor of the next.
    """

    start: int
    skip: int
    indices: Array
    first_row: int
    indptr: npt.NDArray[np.int64]  # boundaries of first_row, first_row + 1, ...


def edge_pieces(graph: CscLike, step: int = EDGE_STEP) -> Iterator[EdgePiece]:
    """All edges in order; indptr must ascend from 0 to E already."""
    for begin in range(0, graph.num_edges, step):
        end = min(begin + step, graph.num_edges)
        skip = min(begin, 1)
        start = begin - skip
        first = row_of(graph.indptr, start, "right") - 1
        last = row_of(graph.indptr, end, "left")
        indptr = fetch(graph.indptr[first : last + 1])
        yield EdgePiece(start, skip, fetch(graph.indices[start:end]), first, indptr)


def row_of(indptr: npt.NDArray[np.int64], edge: int, side: Literal["left", "right"]) -> int:
    """`np.searchsorted` on row boundaries that may be mapped: only the probed parts are read."""
    if not is_mapped(indptr):
        return int(np.searchsorted(indptr, edge, side=side))
    low, high = 0, len(indptr)
    while high - low > _LOOK:
        middle = (low + high) // 2
        value = int(fetch(indptr[middle : middle + 1])[0])
        if value < edge or (side == "right" and value == edge):
            low = middle + 1
        else:
            high = middle
    return low + int(np.searchsorted(fetch(indptr[low:high]), edge, side=side))


def row_pieces(values: Array) -> Iterator[tuple[int, Array]]:
    """Consecutive rows of an array, about 16 MiB at a time, each with its first row number."""
    width = values.nbytes // max(1, values.shape[0])
    step = max(1, _ROW_BYTES // max(1, width))
    for start in range(0, values.shape[0], step):
        yield start, fetch(values[start : start + step])
