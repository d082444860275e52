"""excluded: edges that minibatches of links leave out, so that no link is a message to itself.

They are removed from a row before anything is drawn, so fan-outs stay full: what is drawn is what
would be drawn if these edges were not in the graph. An edge that is not there is left out already.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError

__all__ = ["Excluded"]

Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Excluded:
    """Edges of one relation that each of k minibatches leaves out; made by `pairs` or `edges`.

    In minibatches of disjoint trees an entry belongs to one tree; otherwise to the whole minibatch.
    Edges in the other direction are entries of their own: (source, target) swapped in a plain
    graph, and entries of the reverse relation in a typed one.

    Attributes:
        ptr: int64 [k + 1]: minibatch i has the entries from ptr[i] to ptr[i + 1].
        target: int64 [entries]: node whose row the edges are in; None where edges are given.
        source: int64 [entries]: node at the other end; None where edges are given.
        edge: int64 [entries]: positions of edges in the order in which they were given to the
            graph; None where ends are given.
        tree: int64 [entries]: the tree of each entry, which is the number of its seed in the
            minibatch (in a typed graph counting the seeds of all types, in the order of the sorted
            names); None without trees.
    """

    ptr: Int
    target: Int | None = None
    source: Int | None = None
    edge: Int | None = None
    tree: Int | None = None

    @staticmethod
    def pairs(
        targets: Sequence[Any], sources: Sequence[Any], trees: Sequence[Any] | None = None
    ) -> "Excluded":
        """All edges from sources[i][n] to targets[i][n], parallel ones too, in minibatch i.

        Raises:
            InputError: arrays that are not whole numbers, or not alike in length.
        """
        target, ptr = _flat(targets, "targets")
        source, _ = _flat(sources, "sources", ptr)
        tree = None if trees is None else _flat(trees, "trees", ptr)[0]
        return Excluded(ptr, target, source, tree=tree)

    @staticmethod
    def edges(edges: Sequence[Any], trees: Sequence[Any] | None = None) -> "Excluded":
        """The edges edges[i] in minibatch i: positions in the caller's edge_index.

        Parallel edges of others stay. In a graph made undirected, both directions of an edge have
        its position.

        Raises:
            InputError: arrays that are not whole numbers, or not alike in length.
        """
        edge, ptr = _flat(edges, "edges")
        tree = None if trees is None else _flat(trees, "trees", ptr)[0]
        return Excluded(ptr, edge=edge, tree=tree)

    def __len__(self) -> int:
        return len(self.ptr) - 1


def _flat(given: Sequence[Any], name: str, like: Int | None = None) -> tuple[Int, Int]:
    """The arrays of all minibatches one after another, and where each begins."""
    parts = []
    for batch, values in enumerate(given):
        array = np.asarray(values)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise InputError(
                f"{name} of minibatch {batch} are {array.dtype} of shape {list(array.shape)}, "
                "expected whole numbers"
            )
        parts.append(array.astype(np.int64))
    ptr = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    if like is not None and not np.array_equal(ptr, like):
        raise InputError(f"{name} must hold one number for each entry of each minibatch")
    return np.concatenate([*parts, np.empty(0, np.int64)]), ptr
