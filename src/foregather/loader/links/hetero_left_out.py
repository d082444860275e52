"""hetero_left_out: the edges of typed graphs that a bulk of link batches leaves out.

Edges without times of their own that join the two ends of a link say the same as the link, so all
of them are left out. Where edges have times, a pair may be linked again and again, and what came
before is no answer: only the edge that a link is, and its reverse of the same time, are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType
from foregather.graph.hetero.relation import Relation
from foregather.loader.links.asked import Asked
from foregather.sampling.hetero.bidirectional import reverse_of
from foregather.sampling.links.excluded import Excluded

__all__ = ["HeteroLeftOut", "find_edges"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class HeteroLeftOut:
    """Which edges of which relations are left out.

    Attributes:
        edge_type: of the links.
        relations: by relation: whether links are turned around in it, and its edges where only
            those of the very time are left out; None: all between the ends.
    """

    edge_type: EdgeType
    relations: dict[EdgeType, list[tuple[bool, Relation | None]]]

    @staticmethod
    def of(graph: HeteroGraph, edge_type: EdgeType, kind: str, timed: bool) -> "HeteroLeftOut":
        """Looks up the relations that hold links and their reverses.

        Args:
            graph: the graph.
            edge_type: of the links; where it is no relation of the graph, links may be of any that
                joins the same types.
            kind: "edges" or "pairs".
            timed: edges have times that limit what links see.
        """
        found: dict[EdgeType, list[tuple[bool, Relation | None]]] = {}
        for name, turned in _ways(graph, edge_type):
            walked = graph.relation(name, "edge") if timed and kind == "edges" else None
            if walked is not None and walked.time is None:
                walked = None
            found.setdefault(name, []).append((turned, walked))
        return HeteroLeftOut(edge_type, found)

    def __call__(self, asked: Sequence[Asked]) -> dict[EdgeType, Excluded]:
        """What these batches leave out, as `sample_bulk` of a typed graph takes it."""
        return {name: self._of_relation(ways, asked) for name, ways in self.relations.items()}

    def _of_relation(
        self, ways: list[tuple[bool, Relation | None]], asked: Sequence[Asked]
    ) -> Excluded:
        entries = [_joined([_entries(one, *way) for way in ways]) for one in asked]
        trees = None
        if asked and asked[0].keys is not None:
            first = self.edge_type[0] <= self.edge_type[2]
            spread = [
                _per_tree(link, one.link_of_tree(first))
                for one, (_, _, link) in zip(asked, entries, strict=True)
            ]
            entries = [
                (source[at], target[at], link[at])
                for (source, target, link), (at, _) in zip(entries, spread, strict=True)
            ]
            trees = [tree for _, tree in spread]
        sources, targets = [one[0] for one in entries], [one[1] for one in entries]
        if ways[0][1] is not None:  # edges by number
            return Excluded.edges(sources, trees)
        return Excluded.pairs(targets, sources, trees)


def _ways(graph: HeteroGraph, edge_type: EdgeType) -> list[tuple[EdgeType, bool]]:
    """The relations of links, and whether links are turned around in them."""
    if edge_type in graph.edges:
        back = reverse_of(edge_type, graph.edge_types)
        return [(edge_type, False), *([] if back is None else [(back, True)])]
    source, _, target = edge_type
    along = [(one, False) for one in graph.edge_types if (one[0], one[2]) == (source, target)]
    return along + [(one, True) for one in graph.edge_types if (one[0], one[2]) == (target, source)]


def _entries(asked: Asked, turned: bool, walked: Relation | None) -> tuple[Ids, Ids, Ids]:
    """Sources and targets of the edges to leave out, or twice their numbers; and their links."""
    count = asked.num_links
    src, dst, link = asked.drawn.source[:count], asked.drawn.target[:count], np.arange(count)
    if turned:
        src, dst = dst, src
    if walked is None:
        return src, dst, link
    if asked.edge is not None and not turned:
        return asked.edge, asked.edge, link
    assert asked.time is not None
    edges, link = find_edges(walked, src, dst, asked.time)
    return edges, edges, link


def _joined(parts: list[tuple[Ids, Ids, Ids]]) -> tuple[Ids, Ids, Ids]:
    source, target, link = (np.concatenate(one) for one in zip(*parts, strict=True))
    return source, target, link


def _per_tree(link: Ids, link_of_tree: Ids) -> tuple[Ids, Ids]:
    """Repeats entries for each tree of their link; returns which, and the trees."""
    order = np.argsort(link_of_tree, kind="stable")
    count = np.bincount(link_of_tree, minlength=int(link_of_tree.max(initial=-1)) + 1)
    start = np.cumsum(count) - count
    return _ranges(start[link], count[link], order)


def _ranges(start: Ids, count: Ids, order: Ids | None = None) -> tuple[Ids, Ids]:
    """Which range each number of the ranges start .. start + count is of, and the numbers."""
    which = np.repeat(np.arange(start.size), count)
    number = np.arange(which.size) - np.repeat(np.cumsum(count) - count, count) + start[which]
    return which, number if order is None else order[number]


def find_edges(walked: Relation, src: Ids, dst: Ids, time: Ids) -> tuple[Ids, Ids]:
    """Finds the edges between pairs of nodes at given times.

    Args:
        walked: edges whose rows are ordered by (time, source).
        src: sources.
        dst: targets.
        time: when.

    Returns:
        Their positions in the edges that the relation was made of, and the pair that each is of.
    """
    first, last = (_bisect(walked, (src, dst, time), right=right) for right in (False, True))
    which, at = _ranges(first, last - first)
    return (at if walked.edge_ids is None else walked.edge_ids[at]), which


def _bisect(walked: Relation, wanted: tuple[Ids, Ids, Ids], right: bool) -> Ids:
    """Where (time, source) would be inserted into the rows of the targets."""
    src, dst, time = wanted
    assert walked.time is not None
    low: Ids = walked.indptr[dst]
    high: Ids = walked.indptr[dst + 1]
    while (open_ := low < high).any():
        middle = np.where(open_, (low + high) // 2, 0)
        at, source = walked.time[middle], walked.indices[middle].astype(np.int64)
        before = (at < time) | ((at == time) & ((source <= src) if right else (source < src)))
        low = np.where(open_ & before, middle + 1, low)
        high = np.where(open_ & ~before, middle, high)
    return low
