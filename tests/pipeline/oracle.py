"""The oracle: one process, whole matrices, three products a layer, plain autograd.

For each aggregation z = A_intra m + A_earlier m + A_later history. It knows nothing of chunked
buffers, Functions or stages; slow and obvious.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foregather import Graph
from foregather.nn.layer import GraphLayer
from foregather.pipeline.partition.chunks import Chunks


def matrix(graph: Graph, norm: str) -> Tensor:
    """The dense weighted adjacency matrix [target, source], by loops over edges."""
    n = graph.num_nodes
    pairs = [(v, int(u)) for v in range(n) for u in graph.indices[slice(*graph.indptr[v : v + 2])]]
    dense = np.zeros((n, n))
    for v, u in pairs:
        dense[v, u] += 1
    if norm == "mean":
        for v in range(n):
            dense[v] /= max(1, dense[v].sum())
    elif norm == "gcn":  # PyG's rule: one self-loop a node, others of weight 1 each
        np.fill_diagonal(dense, 1)
        degree = dense.sum(1)
        dense = dense / np.sqrt(degree)[:, None] / np.sqrt(degree)[None, :]
    return torch.from_numpy(dense)


class OracleNear:
    def __init__(
        self,
        oracle: "Oracle",
        m: Tensor,
        history: Tensor,
        place: Tensor | None,
        factor: float,
    ) -> None:
        self.rows, self.own, self.count = m, m, m.shape[0]
        self._oracle, self._history, self._place, self._factor = oracle, history, place, factor

    def aggregate(self, norm: str = "mean") -> Tensor:
        a, m, place = self._oracle.matrices[norm], self.rows, self._place
        if place is None:
            return a @ m
        target, source = place[:, None], place[None, :]
        pushed = self._factor * m - (self._factor - 1) * m.detach()  # same value, scaled gradient
        return (
            (a * (source == target)) @ m
            + (a * (source < target)) @ pushed
            + (a * (source > target)) @ self._history
        )

    def dense(self, part: Callable[..., Any], *values: Any) -> Any:
        return part(*values)


class Oracle:
    """Layers on all nodes at once; `place` is each node's chunk position in the order, or None."""

    def __init__(self, graph: Graph, layers: Sequence[Any]) -> None:
        self.graph, self.layers = graph, layers
        self.matrices = {norm: matrix(graph, norm) for norm in ("mean", "gcn")}
        self.history: dict[int, Tensor] = {}
        self.messages: dict[int, Tensor] = {}

    def forward(self, place: Tensor | None = None, factor: float = 1.0) -> Tensor:
        assert self.graph.features is not None
        x = torch.from_numpy(self.graph.features.data).double()
        skips: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            near = None
            if layer.aggregates:
                m = layer.message(x)
                # the graph's own features are never stale
                raw = number == 0 and type(layer).message is GraphLayer.message
                old = m if raw else self.history.get(number, torch.zeros_like(m))
                near = OracleNear(self, m, old.detach(), place, factor)
                if not raw:
                    self.messages[number] = m.detach()
            x = layer.update(x, near, **{name: skips[name] for name in layer.needs})
            if layer.gives:
                skips[layer.gives] = x
        return x

    def commit(self) -> None:
        self.history = dict(self.messages)

    def loss(self, place: Tensor | None = None, factor: float = 1.0) -> Tensor:
        train = torch.from_numpy(self.graph.split("train"))
        labels = torch.from_numpy(np.asarray(self.graph.labels, np.int64))
        scores = self.forward(place, factor)
        return torch.nn.functional.cross_entropy(scores[train], labels[train])


def places(chunks: Chunks, order: Any) -> Tensor:
    """The position in the order of each node's chunk."""
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return torch.from_numpy(position[chunks.chunk_of(chunks.number)])
