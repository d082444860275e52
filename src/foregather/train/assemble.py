"""assemble: turns a Sample into a Batch: gathers rows, labels and weights for its nodes and edges.

Pure: the same sample and options give the same tensors. Everything is read in memory (or through
the memory map) by the gather of `foregather.gather.memory`.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from foregather.gather.memory import gather
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Sample
from foregather.train.batch import Batch, LayerGraph

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Assembler", "weighted_degree"]

Array = npt.NDArray[Any]
_ROWS = 1 << 20  # rows whose weights are summed together


@dataclass(frozen=True, slots=True, eq=False)
class Assembler:
    """What a batch is to hold.

    Attributes:
        graph: where rows, labels and weights are.
        labels: "all" nodes or only the "seeds".
        edge_attr: gather edge features.
        norm: "gcn" for 1 / sqrt(d_target d_source) of the whole graph as edge weight.
        pin: page-locked tensors for feature rows.
        threads: of the gather.
    """

    graph: Graph
    labels: Literal["all", "seeds"] = "all"
    edge_attr: bool = False
    norm: Literal["gcn"] | None = None
    pin: bool = False
    threads: int = 0
    _degree: npt.NDArray[np.float64] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.norm is not None and self.graph.edge_weight is not None:
            object.__setattr__(self, "_degree", weighted_degree(self.graph))

    def batch(self, sample: Sample, seed_id: Array, input_id: Array) -> Batch:
        """The batch of a sample, its seeds and their `input_id`."""
        graph = self.graph
        weight = self._weight(sample)
        edge_index = _edge_index(sample, 0, sample.row.size)
        e_id = _long(sample.edge)
        edge_attr = None
        if self.edge_attr and graph.edge_features is not None:
            edge_attr = gather(graph.edge_features, sample.edge, threads=self.threads, pin=self.pin)
        x = None
        if graph.features is not None:
            x = gather(graph.features, sample.node, threads=self.threads, pin=self.pin)
        layers = None
        if sample.expand == "per-layer":
            layers = _layers(sample, edge_index, e_id, weight)
        position = sample.seed_position
        return Batch(
            batch_size=sample.num_seeds,
            n_id=_long(sample.node),
            x=x,
            y=self._labels(sample),
            edge_index=None if layers is not None else edge_index,
            e_id=e_id,
            input_id=_long(input_id),
            seed_id=_long(seed_id),
            num_sampled_nodes=np.diff(sample.num_nodes, prepend=0).tolist(),
            num_sampled_edges=list(sample.num_edges),
            edge_weight=weight,
            edge_attr=edge_attr,
            seed_position=None if position is None else _long(position),
            layers=layers,
            number=sample.batch,
        )

    def _labels(self, sample: Sample) -> "Tensor | None":
        import torch

        labels = self.graph.labels
        if labels is None:
            return None
        nodes = sample.node if self.labels == "all" else sample.node[: sample.num_seeds]
        rows = labels[nodes]
        if rows.ndim == 1 and rows.dtype.kind in "iu":
            rows = rows.astype(np.int64)  # what torch's losses ask of classes
        return torch.from_numpy(np.ascontiguousarray(rows))

    def _weight(self, sample: Sample) -> "Tensor | None":
        import torch

        values: Array | None = None
        if self.graph.edge_weight is not None:
            values = self.graph.edge_weight[sample.edge]
        if self.norm is not None:
            factor = self._inverse_root(sample.node)
            norm = factor[sample.row] * factor[sample.col]
            values = (norm if values is None else norm * values).astype(np.float32)
        if sample.weight is not None:
            values = sample.weight if values is None else values * sample.weight
        return None if values is None else torch.from_numpy(np.array(values, np.float32))

    def _inverse_root(self, nodes: Array) -> npt.NDArray[np.float64]:
        """1 / sqrt(degree) of nodes, 0 where the degree is 0."""
        if self._degree is not None:
            degree = self._degree[nodes]
        else:
            at = nodes.astype(np.int64)
            degree = (self.graph.indptr[at + 1] - self.graph.indptr[at]).astype(np.float64)
        root = np.sqrt(np.maximum(degree, 0))
        return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)


def weighted_degree(graph: Graph) -> npt.NDArray[np.float64]:
    """The sum of the weights of each node's row, float64 [N]; reads all weights once."""
    assert graph.edge_weight is not None
    total = np.zeros(graph.num_nodes)
    for first in range(0, graph.num_nodes, _ROWS):
        bounds = np.asarray(graph.indptr[first : first + _ROWS + 1])
        rows = np.repeat(np.arange(bounds.size - 1), np.diff(bounds))
        weights = graph.edge_weight[bounds[0] : bounds[-1]]
        total[first : first + _ROWS] = np.bincount(rows, weights, minlength=bounds.size - 1)
    return total


def _long(values: Array) -> "Tensor":
    import torch

    return torch.from_numpy(np.array(values, np.int64))


def _edge_index(sample: Sample, start: int, end: int) -> "Tensor":
    import torch

    edges = np.empty((2, end - start), np.int64)
    edges[0], edges[1] = sample.row[start:end], sample.col[start:end]
    return torch.from_numpy(edges)


def _layers(
    sample: Sample, edge_index: "Tensor", e_id: "Tensor", weight: "Tensor | None"
) -> list[LayerGraph]:
    layers, end = [], 0
    for layer, count in enumerate(sample.num_edges):
        start, end = end, end + count
        size = (sample.num_nodes[layer + 1], sample.num_nodes[layer])
        part = None if weight is None else weight[start:end]
        layers.append(
            LayerGraph(edge_index[:, start:end].contiguous(), e_id[start:end], size, part)
        )
    return layers[::-1]
