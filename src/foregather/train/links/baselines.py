"""baselines: what needs no model: popular targets, and pairs that have neighbours in common.

A link predictor is worth what it adds to these, so they stand next to its scores.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.arrays import to_ids
from foregather.graph.graph_value import GraphValue
from foregather.graph.hetero.relation import Relation
from foregather.graph.mapped import fetch

__all__ = ["common_neighbours", "popularity"]

Int = npt.NDArray[np.int64]


def popularity(links: Any, num_targets: int) -> Int:
    """How many training links each target has: the same score for every source.

    Args:
        links: [2, n] training links.
        num_targets: nodes that a target may be.

    Raises:
        InputError: a target is no node.
    """
    targets = to_ids(np.asarray(links)[1], num_targets, "targets", "targets")
    return np.bincount(targets, minlength=num_targets).astype(np.int64)


def common_neighbours(graph: GraphValue | Relation, pairs: Any) -> Int:
    """How many in-neighbours the two nodes of each pair have in common; parallel edges count once.

    Args:
        graph: in memory or mapped; undirected, or only sources of both count.
        pairs: [2, n] nodes.

    Raises:
        InputError: a pair names no node.
    """
    nodes = len(graph.indptr) - 1
    given = np.asarray(pairs)
    left, right = (to_ids(given[row], nodes, "pairs").astype(np.int64) for row in (0, 1))
    indptr, indices = fetch(graph.indptr), fetch(graph.indices)
    first = np.ones(len(indices), np.bool_)  # of equal edges, which are adjacent
    first[1:] = indices[1:] != indices[:-1]
    first[indptr[:-1][indptr[:-1] < len(indices)]] = True
    most = int(indices.max(initial=0)) + 1
    counts = np.zeros(len(left), np.int64)
    order = np.argsort(left, kind="stable")
    starts = np.flatnonzero(np.diff(left[order], prepend=-1))
    near = np.zeros(most, np.bool_)
    for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
        mine = order[begin:end]
        node = int(left[mine[0]])
        own = indices[indptr[node] : indptr[node + 1]]
        near[own] = True
        sizes = indptr[right[mine] + 1] - indptr[right[mine]]
        at = np.arange(int(sizes.sum())) + np.repeat(
            indptr[right[mine]] - np.cumsum(sizes) + sizes, sizes
        )
        hits = near[indices[at]] & first[at]
        sums = np.concatenate([[0], np.cumsum(hits)])
        ends = np.cumsum(sizes)
        counts[mine] = sums[ends] - sums[ends - sizes]
        near[own] = False
    return counts
