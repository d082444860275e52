"""batch: the input of one training step, as plain tensors.

Nodes are numbered as in the sample: seeds first, then new nodes layer by layer; row i of `x`
belongs to node `n_id[i]`. Field names and meanings are PyG's; nothing here needs PyG.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Batch", "LayerGraph"]


class _Layer(NamedTuple):
    edge_index: "Tensor"  #: int64 [2, m]: sources, targets
    e_id: "Tensor"  #: int64 [m]: positions in the graph's CSC order
    size: tuple[int, int]  #: sources, targets
    weight: "Tensor | None"  #: float32 [m], or None for 1


class LayerGraph(_Layer):
    """The bipartite graph of one layer, for `expand="per-layer"`: a tuple of four, and `edge_attr`.

    Used as `conv((x, x[:size[1]]), edge_index)`: targets are the first rows of the sources.

    Attributes:
        edge_attr: edge feature rows [m, width], or None; not an entry of the tuple.
    """

    edge_attr: "Tensor | None"

    def __new__(
        cls,
        edge_index: "Tensor",
        e_id: "Tensor",
        size: tuple[int, int],
        weight: "Tensor | None",
        edge_attr: "Tensor | None" = None,
    ) -> "LayerGraph":
        """Creates the tuple with one additional attribute."""
        made = super().__new__(cls, edge_index, e_id, size, weight)
        made.edge_attr = edge_attr
        return made


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """One minibatch.

    Attributes:
        batch_size: number of distinct seeds, or with `disjoint` of all seeds; the first rows of the
            model's output belong to them.
        n_id: node ids in the graph, int64 [n].
        x: feature rows [n, width], or None if the graph has none; with `neighbor_sum`, of the nodes
            that are targets alone.
        y: labels of all n nodes, or of the seeds only; None if the graph has none.
        edge_index: int64 [2, m], row 0 the sources, row 1 the targets, which ascend; None for
            `expand="per-layer"` (see `layers`).
        e_id: positions of the edges in the graph's CSC order, int64 [m].
        input_id: which of the input nodes these seeds are: positions if ids or a split were given,
            node ids for a mask or None.
        seed_id: node ids of the seeds as given, repeats included, int64.
        num_sampled_nodes: new nodes of each layer; entry 0 counts the seeds.
        num_sampled_edges: edges of each layer.
        edge_weight: float32 [m] or None: the graph's weights or its normalisation, times the
            sampler's correction.
        edge_attr: edge feature rows [m, width], in the order of `e_id`; None if the graph has none,
            or they were left out.
        seed_position: where each seed of `seed_id` is in `n_id`; None when no seed is repeated
            (then it is 0, 1, 2, ...).
        layers: one LayerGraph per layer in the order a model applies them (the widest first), for
            `expand="per-layer"`; else None.
        batch: int64 [n], with `disjoint`: which seed's tree each node belongs to; else None.
        number: number of the batch in its epoch.
        share: over ranks, the seeds of this batch over the mean of the step's batches: the mean
            over ranks of (mean loss times share) is the mean over all seeds of the step. 0 for
            padding in the last step; 1 on one rank.
        neighbor_sum: with `leaves` "sum" or "weighted": for each row of `x` the sum of the rows of
            its sampled in-neighbours (times `edge_weight`), float32 [targets, width]; else None.
        leaves: which of the two these sums are; None if there are none.
    """

    batch_size: int
    n_id: "Tensor"
    x: "Tensor | None"
    y: "Tensor | None"
    edge_index: "Tensor | None"
    e_id: "Tensor"
    input_id: "Tensor"
    seed_id: "Tensor"
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]
    edge_weight: "Tensor | None" = None
    edge_attr: "Tensor | None" = None
    seed_position: "Tensor | None" = None
    layers: list[LayerGraph] | None = None
    batch: "Tensor | None" = None
    number: int = 0
    share: float = 1.0
    neighbor_sum: "Tensor | None" = None
    leaves: str | None = None

    @property
    def num_nodes(self) -> int:
        """Nodes, the seeds included."""
        return int(self.n_id.shape[0])

    @property
    def num_edges(self) -> int:
        """Edges of all layers."""
        return int(self.e_id.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        total = 0

        def count(tensor: "Tensor") -> "Tensor":
            nonlocal total
            total += tensor.nbytes
            return tensor

        self._each(count)
        return total

    def to(self, device: "torch.device | str | int", non_blocking: bool = False) -> "Batch":
        """The same batch with its tensors on a device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """The same batch in page-locked memory."""
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Callable[["Tensor"], "Tensor"]) -> "Batch":
        import torch

        def changed(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return change(value)
            if isinstance(value, LayerGraph):
                return LayerGraph(*(changed(part) for part in (*value, value.edge_attr)))
            if isinstance(value, list):
                return [changed(part) for part in value]
            return value

        return replace(self, **{f.name: changed(getattr(self, f.name)) for f in fields(self)})

    def __repr__(self) -> str:
        parts = []
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            if hasattr(value, "shape"):
                parts.append(f"{name}={list(value.shape)}")
            elif value is not None and name != "layers":
                parts.append(f"{name}={value}")
        return f"Batch({', '.join(parts)})"
