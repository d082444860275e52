"""hetero_batch: turns a sample of a typed graph into PyG's `HeteroData`.

Pure: the same sample gives the same tensors. Every node type and every relation of the graph is in
every batch, empty where nothing was reached. The weights of a sampler stand in for those of the
graph, which they hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType
from foregather.graph.hetero.relation import Level
from foregather.loader.batches.pyg_batch import need_pyg
from foregather.loader.batches.typed_counts import remember_batch
from foregather.loader.hetero.columns import Columns, edge_columns, node_columns
from foregather.loader.hetero.input_rows import Dealt
from foregather.sampling.hetero.hetero_bulk import EdgeSample, HeteroSample, NodeSample

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HeteroAssembler", "HeteroLayer", "as_long", "edge_index_of"]


class HeteroLayer(NamedTuple):
    """The edges of one relation in one layer, for samplers that expand per layer.

    Used as `conv((x_source[:size[0]], x_target[:size[1]]), edge_index)`.
    """

    edge_index: "Tensor"  #: int64 [2, m]: sources, targets
    e_id: "Tensor"  #: int64 [m]: positions in the edge_index that the relation was made from
    size: tuple[int, int]  #: nodes of the source type after the layer, of the target type before it
    weight: "Tensor | None"  #: float32 [m], or None for 1
    edge_attr: "Tensor | None"  #: edge feature rows [m, width], or None


@dataclass(frozen=True, slots=True, eq=False)
class HeteroAssembler:
    """Defines what a batch holds.

    Attributes:
        nodes: columns of each node type.
        edges: columns of each relation.
        pin: page-locked tensors for feature rows.
        threads: threads of the gather.
    """

    nodes: Mapping[str, Columns]
    edges: Mapping[EdgeType, Columns]
    pin: bool = False
    threads: int = 0

    def using(self, threads: int) -> "HeteroAssembler":
        """Returns the same with another number of threads."""
        return replaced(self, threads=threads)

    @staticmethod
    def of(
        graph: HeteroGraph, level: Level | None, pin: bool = False, threads: int = 0
    ) -> "HeteroAssembler":
        """Batches with everything that the graph knows.

        Args:
            graph: the graph.
            level: whose times the sampler looks at.
            pin: see the class.
            threads: see the class.

        Raises:
            InputError: a feature has a name that something else in a batch has.
            MissingDependencyError: PyG is not installed.
        """
        need_pyg("HeteroLoader")
        return HeteroAssembler(
            {name: node_columns(table, name) for name, table in graph.nodes.items()},
            {name: edge_columns(graph, name, level) for name in graph.edge_types},
            pin,
            threads,
        )

    def batch(self, sample: HeteroSample, node_type: str, rows: Dealt) -> Any:
        """The batch of a sample.

        Args:
            sample: nodes and edges.
            node_type: of the input rows.
            rows: the input rows.
        """
        import torch
        from torch_geometric.data import HeteroData

        made = HeteroData()
        layered = all(own.num_edges is not None for own in sample.edges.values())
        for name, nodes in sample.nodes.items():
            held = self._of_nodes(self.nodes[name], nodes, layered)
            if name == node_type:
                held["input_id"] = torch.from_numpy(np.array(rows.input_id))
                held["seed_id"] = torch.from_numpy(np.array(rows.nodes))
                held["batch_size"] = nodes.num_seeds
                if nodes.seed_position is not None:
                    held["seed_position"] = as_long(nodes.seed_position)
                if rows.time is not None:
                    held["seed_time"] = torch.from_numpy(np.array(rows.time))
            _fill(made[name], held)
        for edge_type, edges in sample.edges.items():
            held = self._of_edges(self.edges[edge_type], edges)
            if sample.expand == "per-layer":
                ends = sample.nodes[edge_type[0]], sample.nodes[edge_type[2]]
                held["layers"] = _layers(held, edges, *ends)
                del held["edge_index"]
            _fill(made[edge_type], held)
        if sample.expand != "per-layer":  # such batches have no one edge_index to trim
            remember_batch(made)
        return made

    def _of_nodes(self, columns: Columns, nodes: NodeSample, layered: bool) -> dict[str, Any]:
        held: dict[str, Any] = columns.rows(nodes.node, self.threads, self.pin)
        held["n_id"], held["num_nodes"] = as_long(nodes.node), len(nodes.node)
        if nodes.tree is not None:
            held["batch"] = as_long(nodes.tree)
        if layered:
            held["num_sampled_nodes"] = np.diff(nodes.num_nodes, prepend=0).tolist()
        return held

    def _of_edges(self, columns: Columns, edges: EdgeSample) -> dict[str, Any]:
        import torch

        held: dict[str, Any] = {"edge_index": edge_index_of(edges)}
        if edges.edge is not None:
            held["e_id"] = None if "e_id" in columns.arrays else as_long(edges.edge)
            held |= columns.rows(edges.edge, self.threads, self.pin)
        if edges.weight is not None:
            held["edge_weight"] = torch.from_numpy(np.array(edges.weight))
        if edges.num_edges is not None:
            held["num_sampled_edges"] = list(edges.num_edges)
        return held


def _layers(
    held: dict[str, Any], edges: EdgeSample, sources: NodeSample, targets: NodeSample
) -> list[HeteroLayer]:
    """The layers in the order a model applies them: the widest first."""
    layers: list[HeteroLayer] = []
    end = 0
    for layer, count in enumerate(edges.num_edges or ()):
        own, end = slice(end, end + count), end + count
        weight, attr = (held.get(name) for name in ("edge_weight", "edge_attr"))
        layers.append(
            HeteroLayer(
                held["edge_index"][:, own].contiguous(),
                held["e_id"][own],
                (sources.num_nodes[layer + 1], targets.num_nodes[layer]),
                None if weight is None else weight[own],
                None if attr is None else attr[own],
            )
        )
    return layers[::-1]


def _fill(store: Any, held: dict[str, Any]) -> None:
    for name, value in held.items():
        store[name] = value


def as_long(values: npt.NDArray[Any]) -> Any:
    """A copy as an int64 tensor."""
    import torch

    return torch.from_numpy(np.array(values, np.int64))


def edge_index_of(edges: EdgeSample) -> Any:
    """Sources and targets, int64 [2, m]."""
    import torch

    pairs = np.empty((2, len(edges.row)), np.int64)
    pairs[0], pairs[1] = edges.row, edges.col
    return torch.from_numpy(pairs)
