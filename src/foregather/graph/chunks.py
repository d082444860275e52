"""chunks: walks a graph's edges and rows a piece at a time, for verify and describe.

Pieces are views of the (possibly mapped) arrays: nothing is copied, and memory use does not
depend on the size of the graph.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foregather.graph.graph import EDGE_STEP, Graph

__all__ = ["EdgePiece", "edge_pieces", "row_pieces"]

Array = npt.NDArray[Any]

_ROW_BYTES = 16 << 20


class EdgePiece(NamedTuple):
    """The edges [start + skip, start + len(indices)), and the rows they lie in.

    `skip` is 1 where the first edge is only there as the predecessor of the next.
    """

    start: int
    skip: int
    indices: Array
    first_row: int
    indptr: npt.NDArray[np.int64]  # boundaries of first_row, first_row + 1, ...


def edge_pieces(graph: Graph, step: int = EDGE_STEP) -> Iterator[EdgePiece]:
    """All edges in order; indptr must ascend from 0 to E already."""
    for begin in range(0, graph.num_edges, step):
        end = min(begin + step, graph.num_edges)
        skip = min(begin, 1)
        start = begin - skip
        first = int(np.searchsorted(graph.indptr, start, side="right")) - 1
        last = int(np.searchsorted(graph.indptr, end, side="left"))
        yield EdgePiece(
            start, skip, graph.indices[start:end], first, graph.indptr[first : last + 1]
        )


def row_pieces(values: Array) -> Iterator[tuple[int, Array]]:
    """Consecutive rows of an array, about 16 MiB at a time, each with its first row number."""
    width = values.nbytes // max(1, values.shape[0])
    step = max(1, _ROW_BYTES // max(1, width))
    for start in range(0, values.shape[0], step):
        yield start, values[start : start + step]
