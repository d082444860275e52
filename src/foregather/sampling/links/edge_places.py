"""edge_places: where the edges of a caller's edge_index are among those of a graph."""

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.mapped import fetch

__all__ = ["EdgePlaces"]

Int = npt.NDArray[np.int64]


class EdgePlaces:
    """Finds edges by their position in the edge_index that a graph was made from.

    Sorted once for a graph, when the first edge is looked for: 8 bytes per edge, and 16 where an
    edge is there more than once (in both directions) or not at all.

    Args:
        edge_ids: that position of each edge of the graph; None: the edges are in that order.
        num_edges: edges of the graph.
    """

    def __init__(self, edge_ids: Int | None, num_edges: int) -> None:
        self._count, self._unsorted = num_edges, edge_ids
        self._order: Int | None = None
        self._ids: Int | None = None

    def _sort(self) -> None:
        """Sorts the ids, unless this was done; two threads at once do the same twice."""
        given = self._unsorted
        if given is None:
            return
        ids = fetch(given)
        order = np.argsort(ids, kind="stable").astype(np.int64)
        ids = ids[order]
        if not np.array_equal(ids, np.arange(self._count)):
            self._ids = ids
        self._order, self._unsorted = order, None

    def find(self, edges: Int) -> tuple[Int, Int]:
        """Where the edges are, those of each one after another, and how many each has.

        Raises:
            InputError: one that the graph does not have.
        """
        self._sort()
        if self._ids is None:
            wrong = (edges < 0) | (edges >= self._count)
            _refuse(edges, wrong, self._count)
            places = edges if self._order is None else self._order[edges]
            return places, np.ones(len(edges), np.int64)
        assert self._order is not None
        first = np.searchsorted(self._ids, edges)
        counts = np.searchsorted(self._ids, edges, side="right") - first
        _refuse(edges, (counts == 0) | (edges < 0), self._count)
        ends = np.cumsum(counts)
        steps = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
        return self._order[np.repeat(first, counts) + steps], counts


def _refuse(edges: Int, wrong: npt.NDArray[np.bool_], count: int) -> None:
    if wrong.any():
        raise InputError(
            f"exclude has edge {edges[wrong.argmax()]}, which is not one of the {count} edges "
            "(their numbers are positions in the edge_index that the graph was made from)"
        )
