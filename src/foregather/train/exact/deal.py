"""deal: cuts all rows of the topology into parts of bounded cost, in ascending order.

A part is as many whole rows as fit; a row that alone does not is cut by its edges into pieces. What
a part costs is known before its feature rows are read, so no part is ever larger than the room for
it. The topology is read once, in order, a chunk at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError
from foregather.graph.graph import Graph

__all__ = ["Cost", "Shape", "deal", "largest_row"]

_ROWS = 1 << 20  # of indptr looked at together


@dataclass(frozen=True)
class Cost:
    """Bytes that a part takes while a step works on it.

    Attributes:
        row: for each node.
        edge: for each edge.
        target: for each target.
    """

    row: float
    edge: float
    target: float

    def of(self, rows: Any, edges: Any, targets: Any) -> Any:
        """Of a part, or of many at once."""
        return self.row * rows + self.edge * edges + self.target * targets


@dataclass(frozen=True, eq=False)
class Shape:
    """A part before its rows are gathered.

    Attributes:
        first: its first target.
        count: its targets.
        edges: the edge ids of its first edge and behind its last.
        nodes: uint32, the targets and then their other sources, ascending.
        source: int32, the position in `nodes` of each edge's source.
        piece: whether it holds a piece of one row.
        last: whether no other piece of this row follows.
    """

    first: int
    count: int
    edges: tuple[int, int]
    nodes: npt.NDArray[np.uint32]
    source: npt.NDArray[np.int32]
    piece: bool = False
    last: bool = True


def largest_row(graph: Graph) -> int:
    """The largest in-degree."""
    most = 0
    for first in range(0, graph.num_nodes, _ROWS):
        bounds = np.asarray(graph.indptr[first : first + _ROWS + 1])
        most = max(most, int(np.diff(bounds).max(initial=0)))
    return most


def deal(
    graph: Graph,
    cost: Cost,
    room: float,
    *,
    targets: int | None = None,
    cut: bool = True,
    neighbours: bool = True,
) -> Iterator[Shape]:
    """All parts, in ascending order of targets.

    Args:
        graph: whose topology it is.
        cost: of a part.
        room: what a part may cost.
        targets: at most so many in a part; None: no limit.
        cut: rows may be cut.
        neighbours: False leaves all edges out.

    Raises:
        BudgetError: a row does not fit, and may not be cut.
    """
    first, guess = 0, max(1, int(room / (cost.row + cost.edge)))
    while first < graph.num_nodes:
        most = min(graph.num_nodes - first, max(1, int(room / (cost.row + cost.target))))
        most = most if targets is None else min(most, targets)
        if not neighbours:
            yield _shape(first, most, (0, 0), np.empty(0, np.int64))
            first += most
            continue
        bounds = np.asarray(graph.indptr[first : first + most + 1]).astype(np.int64)
        count, sources = _whole_rows(graph, cost, room, bounds, guess)
        if count:
            start, end = int(bounds[0]), int(bounds[count])
            guess = max(1, 2 * (end - start))
            yield _shape(first, count, (start, end), sources[: end - start])
            first += count
            continue
        start, end = int(bounds[0]), int(bounds[1])
        if not cut:
            raise BudgetError(f"the row of node {first} has {end - start} edges and does not fit")
        yield from _pieces(graph, cost, room, first, start, end)
        first += 1


def _whole_rows(
    graph: Graph, cost: Cost, room: float, bounds: npt.NDArray[np.int64], guess: int
) -> tuple[int, npt.NDArray[np.int64]]:
    """How many of the rows fit, and the sources of at least these."""
    base, every = int(bounds[0]), int(bounds[-1] - bounds[0])
    most = min(every, int(room / cost.edge) + 1 if cost.edge else every)
    while True:
        seen = min(most, guess)
        sources = _read(graph, base, base + seen)
        ends = bounds[1:] - base
        known = int(np.searchsorted(ends, seen, "right"))  # rows that were read in full
        number = np.arange(1, known + 1)
        spent = cost.of(_distinct(sources)[ends[:known]] + number, ends[:known], number)
        count = int(np.searchsorted(spent, room, "right"))
        if count < known or seen == most:
            return count, sources
        guess = 2 * seen


def _pieces(
    graph: Graph, cost: Cost, room: float, target: int, start: int, end: int
) -> Iterator[Shape]:
    """One row, cut by its edges in their order."""
    guess = max(1, int(room / (cost.row + cost.edge)))
    while start < end:
        most = min(end - start, int(room / cost.edge) + 1 if cost.edge else end - start)
        while True:
            seen = min(most, guess)
            sources = _read(graph, start, start + seen)
            edges = np.arange(1, seen + 1)
            spent = cost.of(_distinct(sources)[edges] + 1, edges, 1)
            count = int(np.searchsorted(spent, room, "right"))
            if count < seen or seen == most:
                break
            guess = 2 * seen
        count = max(1, count)
        stop = start + count
        yield _shape(target, 1, (start, stop), sources[:count], True, stop == end)
        start = stop


def _read(graph: Graph, start: int, end: int) -> npt.NDArray[np.int64]:
    return np.asarray(graph.indices[start:end]).astype(np.int64)


def _distinct(sources: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many different sources are among the first 0, 1, 2, ... ones."""
    new = np.zeros(sources.size + 1, np.int64)
    new[np.unique(sources, return_index=True)[1] + 1] = 1
    return np.cumsum(new)


def _shape(
    first: int,
    count: int,
    edges: tuple[int, int],
    sources: npt.NDArray[np.int64],
    piece: bool = False,
    last: bool = True,
) -> Shape:
    own = (sources >= first) & (sources < first + count)
    others = np.unique(sources[~own])
    at = np.where(own, sources - first, count + np.searchsorted(others, sources))
    nodes = np.concatenate([np.arange(first, first + count), others]).astype(np.uint32)
    return Shape(first, count, edges, nodes, at.astype(np.int32), piece, last)
