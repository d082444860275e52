"""hop_counts: remembers, for the `edge_index` of a batch, how many nodes and edges each hop has.

A training loop that calls `model(batch.x, batch.edge_index)` does not hand the counts on. They are
kept here by the tensor itself, weakly: they go when the tensor goes, and are not found again once
it was changed in place.
"""

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HopCounts", "recall", "remember", "version_of"]


class HopCounts:
    """The counts of one batch.

    Attributes:
        nodes: new nodes of each hop; entry 0 counts the seeds.
        edges: edges of each hop.
        checked: what a reader made of them for this `edge_index`, to make it once.
        sums: what stands for the rows of leaves, if the batch has none.
        ahead: where to ask for what later batches of the loader should have, if there is one.
    """

    __slots__ = ("ahead", "checked", "edges", "nodes", "sums")

    def __init__(self, nodes: Sequence[int], edges: Sequence[int]) -> None:
        self.nodes, self.edges = tuple(nodes), tuple(edges)
        self.checked: Any = None
        self.sums: Any = None
        self.ahead: Any = None


_known: "dict[int, tuple[weakref.ref[Tensor], int, HopCounts]]" = {}


def remember(edge_index: "Tensor", nodes: Sequence[int], edges: Sequence[int]) -> HopCounts:
    """Keeps the counts for as long as the tensor exists."""
    key, counts = id(edge_index), HopCounts(nodes, edges)

    def forget(gone: "weakref.ref[Tensor]") -> None:
        found = _known.get(key)
        if found is not None and found[0] is gone:  # the id may be another tensor's by now
            del _known[key]

    _known[key] = weakref.ref(edge_index, forget), version_of(edge_index), counts
    return counts


def recall(edge_index: "Tensor") -> HopCounts | None:
    """The counts kept for this very tensor; None if there are none, or if it was changed."""
    found = _known.get(id(edge_index))
    if found is None or found[0]() is not edge_index or found[1] != version_of(edge_index):
        return None
    return found[2]


def version_of(tensor: "Tensor") -> int:
    """Torch's counter of changes in place; -1 where it keeps none."""
    return -1 if tensor.is_inference() else int(tensor._version)
