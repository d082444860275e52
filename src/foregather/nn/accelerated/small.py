"""small: a batch of about a hundred nodes, on which a model is proven.

Its edges are made up: every hop has nodes of its own, so that a row too few or too many shows, and
there are self-loops, parallel edges and nodes without edges in it. Its rows are rows of the batch.
"""

from typing import Any

import torch
from torch import Tensor

from foregather.loader.batches.first_sums import FirstSums
from foregather.loader.batches.hop_counts import remember
from foregather.nn.accelerated.hops import Hops
from foregather.nn.accelerated.inputs import Inputs
from foregather.nn.arguments import COUNTS

__all__ = ["SmallBatch"]

_SEEDS = 11
_MORE = 18  # new nodes of a hop; sums with the seeds are unlikely widths of layers
_BY_SEED = ("y", "input_id", "seed_id", "seed_time", "seed_position")


class SmallBatch:
    """A made-up batch of as many hops as a given one.

    Args:
        hops: of the batch whose arguments are taken over.
        seed: for its edges and its choice of rows.
    """

    def __init__(self, hops: Hops, seed: int = 0) -> None:
        self._whole = hops
        self._random = torch.Generator().manual_seed(seed)
        edge_index, counts = self._edges(hops.depth)
        self.edge_index = edge_index
        self.counts = {
            "num_sampled_nodes": [_SEEDS, *[_MORE + 2 * h for h in range(hops.depth)]],
            "num_sampled_edges": counts,
        }
        made = Hops.of(edge_index, remember(edge_index, *self.counts.values()))
        assert isinstance(made, Hops), made
        self.hops = made
        self._node = self._chosen(hops.num_nodes, made.num_nodes)
        self._edge = self._chosen(hops.num_edges, made.num_edges)
        self._seed = self._chosen(hops.nodes[0], _SEEDS)
        # of a batch without rows of leaves
        self._target = self._chosen(hops.nodes[-2], made.num_nodes)
        self.leaves: dict[str, Tensor] = {}

    @property
    def sums(self) -> FirstSums | None:
        """What the given batch has in place of rows of leaves."""
        return self._whole.sums

    def _integers(self, high: int, count: int) -> Tensor:
        return torch.randint(high, (count,), generator=self._random)

    def _chosen(self, high: int, count: int) -> Tensor:
        """Positions of rows to take, each once if there are enough."""
        if high >= count:
            return torch.randperm(high, generator=self._random)[:count]
        return self._integers(max(high, 1), count)

    def _edges(self, depth: int) -> tuple[Tensor, list[int]]:
        parts, counts, first, nodes = [], [], 0, _SEEDS
        for hop in range(depth):
            new = _MORE + 2 * hop
            # the first target of a hop has no edge; every new node is some target's source
            target = self._integers(nodes - first - 1, 2 * new + 3) + first + 1
            source = self._integers(nodes + new, target.numel())
            source[:new] = torch.arange(nodes, nodes + new)
            source[-1] = target[-1]  # a self-loop
            target[-2], source[-2] = target[0], source[0]  # parallel to another edge
            order = torch.argsort(target, stable=True, descending=not self._whole.ascending)
            parts.append(torch.stack([source[order], target[order]]))
            counts.append(int(target.numel()))
            first, nodes = nodes, nodes + new
        return torch.cat(parts, dim=1), counts

    def inputs(self, given: Inputs) -> Inputs:
        """The same call with this batch: float64, with gradients of everything that can have some.

        `leaves` are then the tensors whose gradients are compared.
        """
        self.leaves = {}
        edge_index = given.edge_index()

        def change(name: str, value: Any) -> Any:
            if value is edge_index:
                return self._like(edge_index)
            if name in COUNTS and value is not None:
                return list(self.counts[COUNTS[name]])
            if isinstance(value, int) and not isinstance(value, bool):
                return self._count(name, value)
            return self._tensor(name, value) if isinstance(value, Tensor) else value

        return given.mapped(change)

    def _like(self, edge_index: Tensor) -> Tensor:
        here = self.edge_index.to(edge_index.device, edge_index.dtype)
        if type(edge_index).__name__ == "EdgeIndex":
            from torch_geometric import EdgeIndex

            size, order = (self.hops.num_nodes,) * 2, "col" if self._whole.ascending else None
            made: Tensor = EdgeIndex(here, sparse_size=size, sort_order=order)
            self._rehop(made)
            return made
        if here is not self.edge_index:
            self._rehop(here)
        return here

    def _rehop(self, edge_index: Tensor) -> None:
        made = Hops.of(edge_index, remember(edge_index, *self.counts.values()))
        assert isinstance(made, Hops), made
        self.hops, self.edge_index = made, edge_index

    def _count(self, name: str, value: int) -> int:
        if name == "num_nodes" and value == self._whole.num_nodes:
            return self.hops.num_nodes
        if name == "batch_size" and value == self._whole.nodes[0]:
            return self.hops.nodes[0]
        return value

    def _tensor(self, name: str, value: Tensor) -> Tensor:
        chosen = self._rows(name, value)
        made = value.detach() if chosen is None else self._taken(value.detach(), chosen)
        if not made.is_floating_point():
            return made.clone()
        made = made.double().clone()  # what is not a number would be in every comparison
        made = made.nan_to_num_(0.0, 0.0, 0.0).requires_grad_()
        self.leaves[f"{name}[{len(self.leaves)}]"] = made
        return made

    def _rows(self, name: str, value: Tensor) -> Tensor | None:
        whole, count = self._whole, value.shape[0] if value.ndim else -1
        of_edges = name.startswith("edge") or name == "e_id"
        if count == whole.num_edges and (of_edges or count != whole.num_nodes):
            return self._edge
        if count == whole.num_nodes:
            return self._node
        if whole.sums is not None and name == "x" and count == whole.nodes[-2]:
            return self._target
        return self._seed if count == whole.nodes[0] and name in _BY_SEED else None

    @staticmethod
    def _taken(value: Tensor, chosen: Tensor) -> Tensor:
        if value.shape[0] == 0:  # no row to take
            return value.new_ones((chosen.numel(), *value.shape[1:]))
        return value.as_subclass(Tensor).index_select(0, chosen.to(value.device))
