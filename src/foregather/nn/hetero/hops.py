"""hops: which nodes and edges of a typed batch each layer of a model needs.

Nodes and edges of a batch are ordered by the layer of sampling that found them. Layer i of L needs
the rows of nodes at most L - i steps from the seeds, the edges of the first L - i layers, and gives
the rows of nodes at most L - i - 1 steps away. A batch without these counts is computed whole.
A batch of a sampler that expands per layer has the edges of each layer, into all nodes that the
layer gives.
"""

from dataclasses import dataclass
from typing import Any

from foregather.nn.hetero.schema import Schema
from foregather.nn.hop_order import fits_typed

__all__ = ["Hops", "is_layered"]


@dataclass(frozen=True)
class Hops:
    """How many nodes and edges are within how many steps of the seeds.

    Attributes:
        nodes: for each type, nodes within 0, 1, ... steps.
        edges: for each relation, edges of the first 0, 1, ... layers of sampling.
    """

    nodes: list[list[int]]
    edges: list[list[int]]

    @staticmethod
    def of(batch: Any, schema: Schema) -> "Hops":
        """The counts of a batch; without any that fit, all is within any number of steps."""
        if is_layered(batch, schema):
            return Hops(
                [_sums(batch[name].num_sampled_nodes)[1:] for name in schema.node_types], []
            )
        nodes, edges = [], []
        counted = fits_typed(batch)
        for name in schema.node_types:
            found = batch[name].get("num_sampled_nodes") if counted else None
            nodes.append([int(batch[name].num_nodes)] if found is None else _sums(found)[1:])
        for edge_type in schema.edges:
            store = batch[edge_type]
            found = store.get("num_sampled_edges") if counted else None
            edges.append([store.edge_index.shape[1]] if found is None else _sums(found))
        return Hops(nodes, edges)

    def nodes_within(self, steps: int) -> list[int]:
        """Nodes of each type that are at most this many steps from the seeds."""
        return [one[min(steps, len(one) - 1)] for one in self.nodes]

    def edges_within(self, layers: int) -> list[int]:
        """Edges of each relation of the first layers of sampling."""
        return [one[min(layers, len(one) - 1)] for one in self.edges]


def is_layered(batch: Any, schema: Schema) -> bool:
    """Whether relations have edges of their own for each layer."""
    return any("layers" in batch[name] for name in schema.edges)


def _sums(counts: Any) -> list[int]:
    """Sums of the first 0, 1, ... counts."""
    found = [0]
    for count in counts:
        found.append(found[-1] + int(count))
    return found
