"""profile: measures what a layer costs per node, per edge and per call: seconds, and bytes kept.

Each type of layer (class and widths) is run on a sample of nodes with all their in-edges, on the
same nodes without edges, and on a few nodes: the differences are the prices of an edge and a node.
The median time is reported, not the best: a real epoch does not run at its best either.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foregather.graph.graph import Graph
from foregather.nn.layer import GraphLayer
from foregather.pipeline.dry_run import Widths
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.chunks import make_chunks
from foregather.pipeline.passes.aggregation import ChunkNear, Exchange, RowBuffers
from foregather.pipeline.split.changes import untouched

__all__ = ["LayerCost", "mean_cost", "profile_layers"]

_SAMPLE = 1 << 13  # nodes
_EDGES = 1 << 20  # of the sample, roughly: that of a dense graph has fewer nodes
_LEAST = 1024  # nodes, however many edges they have
_FEW = 16  # nodes; their cost is the price of a call
_REPEATS = 9


@dataclass(frozen=True, slots=True)
class LayerCost:
    """The cost of one layer.

    Attributes:
        forward: seconds per node, per edge, and per call whatever its size.
        backward: the same.
        kept: bytes kept for the backward pass, per node and per edge: all but the layer's input,
            which is the result of the previous layer.
        other: seconds per row of another chunk: to read it (forward), to push its gradient
            (backward).
    """

    forward: tuple[float, float, float]
    backward: tuple[float, float, float]
    kept: tuple[float, float]
    other: tuple[float, float] = (0.0, 0.0)

    def seconds(self, nodes: float, edges: float, backward: bool, others: float = 0.0) -> float:
        """Returns the seconds of a chunk that reads `others` rows of other chunks."""
        node, edge, call = self.backward if backward else self.forward
        return call + node * nodes + edge * edges + self.other[backward] * others


def mean_cost(costs: Sequence[LayerCost]) -> LayerCost:
    """Returns the mean of every price over several ranks."""

    def mean(values: Sequence[tuple[float, ...]]) -> Any:
        return tuple(map(statistics.fmean, zip(*values, strict=True)))

    return LayerCost(
        mean([c.forward for c in costs]),
        mean([c.backward for c in costs]),
        mean([c.kept for c in costs]),
        mean([c.other for c in costs]),
    )


def profile_layers(
    graph: Graph, layers: Sequence[GraphLayer], widths: Widths, sample: int = _SAMPLE
) -> list[LayerCost]:
    """Measures the cost of every layer; layers of the same type and widths are run once."""
    weight = next((p for layer in layers for p in layer.parameters()), torch.empty(0))
    dense = int(np.searchsorted(graph.indptr, _EDGES))
    nodes = min(sample, graph.num_nodes, max(dense, _LEAST))
    few = min(_FEW, nodes)
    graphs = [_sample(graph, n, edges=with_edges) for n, with_edges in _runs(nodes, few)]
    places = [
        ChunkTopology(g, make_chunks(g, 1, "natural"), weight.dtype, weight.device) for g in graphs
    ]
    known: dict[Any, LayerCost] = {}
    found = []
    for number, layer in enumerate(layers):
        key = (
            type(layer),
            _inner(layer),
            getattr(layer, "does", ()),
            widths.x[number],
            widths.x[number + 1],
        )
        if key not in known:
            skips = {name: widths.skip[name] for name in layer.needs}
            other = _other_row(widths.message[number], places[0])
            known[key] = replace(_cost(layer, widths.x[number], skips, places), other=other)
        found.append(known[key])
    return found


def _runs(nodes: int, few: int) -> list[tuple[int, bool]]:
    return [(nodes, True), (nodes, False), (few, False)]


def _inner(layer: GraphLayer) -> tuple[str, ...]:
    return tuple(type(part).__name__ for part in layer.modules())


def _sample(graph: Graph, nodes: int, edges: bool) -> Graph:
    """Returns the first nodes with all their in-edges; sources are folded into the sample."""
    last = graph.indptr[nodes] if edges else 0
    source = graph.indices[:last].astype(np.int64) % nodes
    degree = graph.in_degree()[:nodes] if edges else np.zeros(nodes, np.int64)
    pairs = np.stack([source, np.repeat(np.arange(nodes), degree)])
    attr = None
    if graph.edge_features is not None:
        attr = np.zeros((int(last), graph.edge_features.width), np.float32)
    weight = None if graph.edge_weight is None else np.array(graph.edge_weight[:last])
    return Graph.from_edge_index(pairs, nodes, edge_attr=attr, edge_weight=weight)


def _cost(
    layer: GraphLayer, width: int, skips: dict[str, int], places: Sequence[ChunkTopology]
) -> LayerCost:
    with untouched(layer):
        few = _timed(layer, width, skips, places[2])
        dense = _timed(layer, width, skips, places[1])
        full = _timed(layer, width, skips, places[0]) if layer.aggregates else dense
    nodes, edges = places[0].graph.num_nodes, max(1, places[0].graph.num_edges)
    more = max(1, nodes - places[2].graph.num_nodes)
    by_node = [max(0.0, a - b) / more for a, b in zip(dense, few, strict=True)]
    by_edge = [max(0.0, a - b) / edges for a, b in zip(full, dense, strict=True)]
    return LayerCost(
        (by_node[0], by_edge[0], few[0]), (by_node[1], by_edge[1], few[1]), (by_node[2], by_edge[2])
    )


def _timed(
    layer: GraphLayer, width: int, skips: dict[str, int], place: ChunkTopology
) -> tuple[float, float, float]:
    """Returns seconds forward, seconds backward, and bytes kept."""
    nodes, options = place.graph.num_nodes, {"dtype": place.dtype, "device": place.device}
    x = torch.ones(nodes, width, **options).requires_grad_()  # type: ignore[call-overload]
    given = {n: torch.ones(nodes, d, **options) for n, d in skips.items()}  # type: ignore[call-overload]
    grads = {id(p): p.grad for p in layer.parameters()}
    took: list[tuple[float, float]] = []
    kept = _Kept([*layer.parameters(), x, *given.values()])
    for repeat in range(1 + _REPEATS):  # the first one builds matrices
        begin = time.perf_counter()
        with torch.random.fork_rng(), torch.autograd.graph.saved_tensors_hooks(kept, _same):
            kept.begin()
            message = layer.message(x) if layer.aggregates else x
            near = None
            if layer.aggregates or layer.placed:
                near = ChunkNear(place, 0, message, Exchange(None, place.locals[0].others))
            out, more = layer.run(x, near, given)
            for one in (out, *more.values()):
                kept(one)
        middle = time.perf_counter()
        torch.autograd.backward([one.sum() for one in (out, *more.values()) if one.requires_grad])
        end = time.perf_counter()
        if repeat:
            took.append((middle - begin, end - middle))
    for parameter in layer.parameters():
        parameter.grad = grads[id(parameter)]
    forward, backward = map(statistics.median, zip(*took, strict=True))
    return forward, backward, float(kept.bytes)


def _other_row(width: int, place: ChunkTopology) -> tuple[float, float]:
    """Returns the seconds to read a row of another chunk, and to push its gradient."""
    count = place.graph.num_nodes
    if not width or not count:
        return 0.0, 0.0
    options: dict[str, Any] = {"dtype": place.dtype, "device": place.device}
    fresh, history, adjoint = (torch.zeros(count, width, **options) for _ in range(3))
    rows = RowBuffers(fresh, history, adjoint)
    order = np.random.default_rng(0).permutation(count)  # rows of others lie anywhere
    numbers = torch.from_numpy(order).to(place.device)
    exchange = Exchange(rows, numbers, fresh=numbers % 2 == 0)
    took: list[tuple[float, float]] = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        theirs = exchange.read_others(rows.fresh)
        middle = time.perf_counter()
        exchange.push(theirs)
        took.append((middle - begin, time.perf_counter() - middle))
    forward, backward = map(statistics.median, zip(*took, strict=True))
    return forward / count, backward / count


def _same(value: Tensor) -> Tensor:
    return value


class _Kept:
    """Counts what autograd keeps, each storage once.

    Args:
        known: what is counted elsewhere, such as weights.
    """

    def __init__(self, known: Sequence[Tensor]) -> None:
        self._known = {value.untyped_storage().data_ptr() for value in known}
        self.bytes = 0
        self._seen: set[int] = set()

    def begin(self) -> None:
        """Starts a new run."""
        self.bytes, self._seen = 0, set()

    def __call__(self, value: Tensor) -> Tensor:
        if value.layout == torch.strided:
            start = value.untyped_storage().data_ptr()
            if start not in self._seen and start not in self._known:
                self._seen.add(start)
                self.bytes += value.untyped_storage().nbytes()
        return value
