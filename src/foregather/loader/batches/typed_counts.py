"""typed_counts: remembers, for the edges of a typed batch, how many nodes and edges each hop has.

A loop that calls `model(batch.x_dict, batch.edge_index_dict)` does not hand the counts on: the
dictionaries are made anew by each access, the tensors in them are those of the batch. So they are
kept by these, weakly, as `hop_counts` does for batches of one type.
"""

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foregather.loader.batches.hop_counts import version_of

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TypedCounts", "recall_typed", "remember_batch", "remember_typed"]

Relation = tuple[str, str, str]


class TypedCounts:
    """The counts of one batch.

    Attributes:
        nodes: new nodes of each hop by type; entry 0 counts the seeds.
        edges: edges of each hop by relation.
        checked: what a reader made of them, by the relations that it was given.
    """

    __slots__ = ("checked", "edges", "nodes")

    def __init__(
        self, nodes: Mapping[str, Sequence[int]], edges: Mapping[Relation, Sequence[int]]
    ) -> None:
        self.nodes = {name: tuple(counts) for name, counts in nodes.items()}
        self.edges = {name: tuple(counts) for name, counts in edges.items()}
        self.checked: dict[tuple[Relation, ...], Any] = {}


_known: "dict[int, tuple[weakref.ref[Tensor], int, Relation, TypedCounts]]" = {}


def remember_typed(
    index: "Mapping[Relation, Tensor]",
    nodes: Mapping[str, Sequence[int]],
    edges: Mapping[Relation, Sequence[int]],
) -> TypedCounts:
    """Keeps the counts for as long as the tensors exist.

    Args:
        index: `edge_index` of each relation.
        nodes: see `TypedCounts`.
        edges: see `TypedCounts`.
    """
    counts = TypedCounts(nodes, edges)
    for relation, tensor in index.items():
        _keep(tensor, relation, counts)
    return counts


def _keep(tensor: "Tensor", relation: Relation, counts: TypedCounts) -> None:
    key = id(tensor)

    def forget(gone: "weakref.ref[Tensor]") -> None:
        found = _known.get(key)
        if found is not None and found[0] is gone:  # the id may be another tensor's by now
            del _known[key]

    _known[key] = weakref.ref(tensor, forget), version_of(tensor), relation, counts


def remember_batch(batch: Any) -> None:
    """Keeps the counts of a HeteroData; of one without counts, nothing."""
    nodes = {name: store.get("num_sampled_nodes") for name, store in batch.node_items()}
    edges = {name: store.get("num_sampled_edges") for name, store in batch.edge_items()}
    if nodes and edges and all(one is not None for one in (*nodes.values(), *edges.values())):
        remember_typed({name: batch[name].edge_index for name in edges}, nodes, edges)


def recall_typed(index: "Mapping[Relation, Tensor]") -> TypedCounts | None:
    """The counts kept for these very tensors under these names; None if there are none."""
    counts: TypedCounts | None = None
    for relation, tensor in index.items():
        found = _known.get(id(tensor))
        if found is None or found[0]() is not tensor or found[1] != version_of(tensor):
            return None
        if found[2] != relation or (counts is not None and found[3] is not counts):
            return None
        counts = found[3]
    return counts
