"""deal: cuts all rows of the topology into parts of bounded cost, in ascending order.

A part is as many whole rows as fit; a single row that does not fit is cut by its edges into pieces.
The cost of a part is known before its feature rows are read, so no part ever exceeds its room. The
topology is read in order, a chunk at a time. In addition to the parts, a table of 4 bytes per node
is held.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError
from foregather.graph.graph import Graph
from foregather.graph.mapped import fetch

__all__ = ["Cost", "Shape", "deal", "largest_row"]

_ROWS = 1 << 20  # of indptr looked at together


@dataclass(frozen=True)
class Cost:
    """Bytes that a part takes while a step works on it.

    Attributes:
        row: per node.
        edge: per edge.
        target: per target.
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
        bounds = fetch(graph.indptr[first : first + _ROWS + 1])
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
        targets: at most this many per part; None: no limit.
        cut: rows may be cut.
        neighbours: False leaves all edges out.

    Raises:
        BudgetError: a row does not fit, and may not be cut.
    """
    table = _Table(graph, cost, room)
    first = 0
    while first < graph.num_nodes:
        most = min(graph.num_nodes - first, max(1, int(room / (cost.row + cost.target))))
        most = most if targets is None else min(most, targets)
        if not neighbours:
            yield table.shape(first, most, (0, 0), np.empty(0, np.int64))
            first += most
            continue
        bounds = fetch(graph.indptr[first : first + most + 1])
        start, end = int(bounds[0]), int(bounds[-1])
        ends = bounds[1:] - start
        number = np.arange(1, most + 1)
        count, sources = table.fit(start, end, ends, number)
        if count:
            stop = int(bounds[count])
            yield table.shape(first, count, (start, stop), sources[: stop - start])
            first += count
            continue
        if not cut:
            raise BudgetError(f"the row of node {first} has {int(ends[0])} edges and does not fit")
        yield from _pieces(table, first, start, int(bounds[1]))
        first += 1


def _pieces(table: "_Table", target: int, start: int, end: int) -> Iterator[Shape]:
    """One row, cut by its edges in their order."""
    while start < end:
        count, sources = table.fit(start, end, None, 1)
        count = max(1, count)
        stop = start + count
        yield table.shape(target, 1, (start, stop), sources[:count], True, stop == end)
        start = stop


class _Table:
    """Finds how much of the topology fits in a part.

    Stores for each node where it was seen last.
    """

    def __init__(self, graph: Graph, cost: Cost, room: float) -> None:
        self._graph, self._cost, self._room = graph, cost, room
        self._at = np.empty(graph.num_nodes, np.int32)
        self._guess = max(1, int(room / (cost.row + cost.edge)))  # edges of the next part

    def fit(
        self, start: int, end: int, ends: "npt.NDArray[np.int64] | None", targets: Any
    ) -> tuple[int, npt.NDArray[np.int64]]:
        """How many rows that end at `ends`, or edges, fit; and the sources of at least these.

        Args:
            start: the first edge.
            end: behind the last that may be taken.
            ends: edges up to the end of each row; None takes edges one by one.
            targets: of a part with 1, 2, ... of them.
        """
        cost, room = self._cost, self._room
        most = min(end - start, int(room / cost.edge) + 1 if cost.edge else end - start)
        while True:
            seen = min(most, self._guess)
            sources = fetch(self._graph.indices[start : start + seen]).astype(np.int64)
            stops = np.arange(1, seen + 1) if ends is None else ends[ends <= seen]
            given = targets if ends is None else targets[: len(stops)]
            spent = cost.of(self._distinct(sources)[stops] + given, stops, given)
            count = int(np.searchsorted(spent, room, "right"))
            if count < len(stops) or seen == most:
                break
            self._guess = 2 * seen
        if count:
            self._guess = max(1, int(1.5 * stops[count - 1]))
        return count, sources

    def _distinct(self, sources: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How many different sources are among the first 0, 1, 2, ... ones."""
        place = np.arange(sources.size, dtype=np.int32)
        self._at[sources[::-1]] = place[::-1]  # of several, NumPy keeps the last: their first
        found = np.zeros(sources.size + 1, np.int64)
        np.cumsum(self._at[sources] == place, out=found[1:])
        return found

    def shape(
        self,
        first: int,
        count: int,
        edges: tuple[int, int],
        sources: npt.NDArray[np.int64],
        piece: bool = False,
        last: bool = True,
    ) -> Shape:
        """The part of these targets and sources."""
        place = np.arange(sources.size, dtype=np.int32)
        self._at[sources] = place
        own = (sources >= first) & (sources < first + count)
        others = np.sort(sources[(self._at[sources] == place) & ~own])
        nodes = np.concatenate([np.arange(first, first + count), others]).astype(np.uint32)
        self._at[nodes] = np.arange(nodes.size, dtype=np.int32)
        return Shape(first, count, edges, nodes, self._at[sources], piece, last)
