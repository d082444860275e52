"""known: for each source its known targets, so that they can be left out of what is asked for.

Filtered ranking and retrieval do not count a link that is known as a mistake: the known targets of
a source, from all lists of links and from the edges, are no candidates for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import id_dtype
from foregather.graph.columns import to_rows
from foregather.graph.graph_value import GraphValue
from foregather.graph.hetero.layout import targets_of
from foregather.graph.hetero.names import EdgeType
from foregather.graph.hetero.value import HeteroValue
from foregather.graph.mapped import fetch

__all__ = ["KnownLinks", "known_links"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KnownLinks:
    """Targets by source, ascending and without repeats.

    Attributes:
        indptr: int64 [sources + 1]; the targets of s are targets[indptr[s]:indptr[s + 1]].
        targets: ids, uint32 or int64.
        num_targets: nodes that a target may be.
    """

    indptr: Int
    targets: Array
    num_targets: int

    @property
    def num_sources(self) -> int:
        """Nodes that a source may be."""
        return int(self.indptr.size) - 1

    @property
    def counts(self) -> Int:
        """How many targets each source has."""
        return np.diff(self.indptr)

    @staticmethod
    def of(pairs: Iterable[Any], num_sources: int, num_targets: int) -> "KnownLinks":
        """Collects pairs in any order, with repeats.

        Args:
            pairs: arrays [2, n]: row 0 the sources, row 1 the targets.
            num_sources: nodes that a source may be.
            num_targets: nodes that a target may be.

        Raises:
            InputError: an id is no node.
        """
        given = [to_rows(one, 2, "links", "end") for one in pairs]
        dtype = id_dtype(max(num_sources, num_targets))
        ends = []
        for row, count, end in ((0, num_sources, "source"), (1, num_targets, "target")):
            ids = np.concatenate([np.empty(0, np.int64), *(one[row] for one in given)])
            ids = np.ascontiguousarray(ids, dtype=np.int64)
            bad = _core.check_ids(ids, count)
            if bad >= 0:
                raise InputError(
                    f"a known link has the {end} {int(ids[bad])}, but there are {count} such nodes "
                    "(ids are 0 to N-1)"
                )
            ends.append(ids.astype(dtype, copy=False))
        indptr = np.empty(num_sources + 1, np.int64)
        found = np.empty(ends[0].size, dtype)
        order = np.empty(ends[0].size, np.int64)
        # by source, ascending targets: the sort of a topology with the two ends exchanged
        most = max(num_sources, num_targets, 1)
        _core.build_csc(ends[1], ends[0], most, indptr, found, order, 0, True)
        first = np.ones(found.size, np.bool_)
        first[1:] = found[1:] != found[:-1]
        begins = indptr[:-1]
        first[begins[begins < found.size]] = True
        kept = np.zeros(found.size + 1, np.int64)
        np.cumsum(first, out=kept[1:])
        return KnownLinks(kept[indptr], found[first], num_targets)

    def of_sources(self, sources: Int) -> tuple[Int, Int]:
        """The targets of several sources.

        Returns:
            For each known link the position of its source in `sources`, and its target.
        """
        begins = self.indptr[sources]
        counts = self.indptr[sources + 1] - begins
        rows = np.repeat(np.arange(len(sources), dtype=np.int64), counts)
        ends = np.cumsum(counts)
        at = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
        at += np.repeat(begins - ends + counts, counts)
        return rows, self.targets[at].astype(np.int64)

    def holds(self, sources: Int, targets: Int) -> npt.NDArray[np.bool_]:
        """Whether each pair is a known link."""
        low, high = self.indptr[sources].copy(), self.indptr[sources + 1]
        end = high.copy()
        while True:  # a bisection of all pairs at once
            open_ = low < high
            if not open_.any():
                break
            middle = (low + high) // 2
            less = open_ & (self.targets[np.minimum(middle, len(self.targets) - 1)] < targets)
            low = np.where(less, middle + 1, low)
            high = np.where(open_ & ~less, middle, high)
        found = low < end
        found[found] = self.targets[low[found]] == targets[found]
        return np.asarray(found)

    def turned(self) -> "KnownLinks":
        """The same links from targets to sources."""
        sources = targets_of(self.indptr, np.dtype(np.int64))
        pairs = np.stack([self.targets.astype(np.int64), sources])
        return KnownLinks.of([pairs], self.num_targets, self.num_sources)


def known_links(
    graph: GraphValue | HeteroValue,
    relation: EdgeType | None = None,
    names: Iterable[str] | None = None,
    edges: bool = True,
) -> KnownLinks:
    """The known links of a graph, in memory.

    Args:
        graph: with or without links.
        relation: the edge type of a typed graph; None where there is one.
        names: lists of links that count; None: all.
        edges: the edges of the graph, or of the relation, count too.

    Raises:
        InputError: no such relation or links.
    """
    if isinstance(graph, HeteroValue):
        edge_type = graph.linked_relation(relation)
        lists = graph.links.get(edge_type, {})
        wanted = [graph.links_of(name, edge_type) for name in (lists if names is None else names)]
        sizes = graph.nodes[edge_type[0]].num_nodes, graph.nodes[edge_type[2]].num_nodes
        rows: Any = graph.relation(edge_type) if edges else None
    else:
        wanted = [graph.links_of(name) for name in (graph.links if names is None else names)]
        sizes = graph.num_nodes, graph.num_nodes
        rows = graph if edges else None
    pairs = [one.index for one in wanted]
    if rows is not None:
        targets = targets_of(fetch(rows.indptr), np.dtype(np.int64))
        pairs.append(np.stack([fetch(rows.indices).astype(np.int64), targets]))
    return KnownLinks.of(pairs, *sizes)
