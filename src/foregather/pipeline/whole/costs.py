"""costs: what each segment holds and takes, measured on a sample of the nodes.

The segments are run forward once on the first nodes with all their in-edges; what autograd saves
there is counted, each storage once. Rows that are held between segments are not counted again.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foregather.graph.graph import Graph
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.chunks import make_chunks
from foregather.pipeline.passes.stage import FeatureTable, Stage, Targets, Values
from foregather.pipeline.split.changes import untouched
from foregather.pipeline.whole.adjacency import Adjacency
from foregather.pipeline.whole.levels import Level
from foregather.pipeline.whole.pieces import Pieces
from foregather.pipeline.whole.stretches import SegmentCost, Stretch
from foregather.pipeline.whole.whole_pass import WholePass

__all__ = ["Measured", "measure"]

_NODES, _EDGES, _LEAST = 1 << 12, 1 << 18, 256
_VALUES = 1 << 18  # of a row tensor in the sample


@dataclass(frozen=True, slots=True)
class Measured:
    """What a sample told.

    Attributes:
        segments: costs of each segment for all nodes.
        norms: the norms that layers sum with.
        skips: bytes of the skip tensors of all nodes.
        sums: different sums over in-neighbours that a layer asks for, at most.
        features: bytes of feature rows, if they are aggregated.
        scores: bytes of the scores of all nodes.
        reads_edges: whether a layer looks at edges itself.
        reads_moments: whether a layer reads mean and variance of all rows.
        degree: edges per node.
    """

    segments: tuple[SegmentCost, ...]
    norms: tuple[str, ...]
    skips: int
    sums: int
    features: int
    scores: int
    reads_edges: bool
    reads_moments: bool
    degree: float


def measure(stage: Stage) -> Measured:
    """Runs the segments of the only stage on a sample."""
    graph = stage.topology.graph
    assert graph.labels is not None
    nodes = min(graph.num_nodes, _NODES, max(_LEAST, _VALUES // max(stage.widths.x)))
    nodes = max(min(nodes, _LEAST), min(nodes, int(np.searchsorted(graph.indptr, _EDGES))))
    sample = _sample(graph, nodes)
    chunks = make_chunks(sample, 1, "natural")
    place = ChunkTopology(sample, chunks, stage.topology.dtype, stage.topology.device)
    assert sample.features is not None
    rows = torch.arange(min(nodes, 16))
    labels = torch.from_numpy(np.array(graph.labels[: rows.shape[0]]))
    small = replace(
        stage,
        topology=place,
        features=FeatureTable(sample.features, chunks, place.dtype, place.device),
        targets=Targets([rows], [labels], max(1, rows.shape[0]), stage.targets.loss),
    )
    run = _Counting(small, nodes, graph)
    with torch.random.fork_rng(), untouched(nn.ModuleList(stage.layers)):
        for task in run.tasks[:1]:
            run.do(task)
    found = run.found()
    run.close()
    return found


def _sample(graph: Graph, nodes: int) -> Graph:
    """Returns the first nodes with all their in-edges; sources are folded into the sample."""
    last = int(graph.indptr[nodes])
    source = np.asarray(graph.indices[:last], np.int64) % nodes
    pairs = np.stack([source, np.repeat(np.arange(nodes), np.asarray(graph.in_degree())[:nodes])])
    attr = None if graph.edge_features is None else graph.edge_features[np.arange(last)]
    weight = None if graph.edge_weight is None else graph.edge_weight[np.arange(last)]
    assert graph.features is not None
    x = graph.features[np.arange(nodes)]
    return Graph.from_edge_index(pairs, nodes, x=x, edge_attr=attr, edge_weight=weight)


class _Counting(WholePass):
    """A forward pass that counts what it saves."""

    def __init__(self, stage: Stage, nodes: int, graph: Graph) -> None:
        place = stage.topology
        adjacency = Adjacency(place.graph, place.chunks, place.dtype)
        pieces = Pieces(stage, 1)
        program = stage.program
        count = len(program.segments) - program.reads_features
        super().__init__(stage, adjacency, pieces, [Stretch(0, count, True)], 0)
        self._watch = True
        self._saved: dict[int, int] = {}  # bytes by where a storage begins
        self._known: set[int] = set()
        self._costs: list[SegmentCost] = []
        self._begin = 0.0
        self._size = nodes, max(1, place.graph.num_edges)
        self._whole = graph.num_nodes, graph.num_edges
        self._lists = adjacency

    def _given(self, number: int, piece: int, grad: bool) -> Values:
        self._kept.clear()  # one segment at a time
        if number:
            self._levels[number - 1] = Level()
        given = super()._given(number, piece, grad)
        self._saved, self._begin = {}, time.process_time()
        weights = [p for layer in self._stage.layers for p in layer.parameters()]
        rows = [given.x, given.message, *given.skips.values()]
        self._known = {_start(value) for value in [*weights, *rows] if value is not None}
        return given

    def _saving(self, saved: list[Any], grad: bool) -> AbstractContextManager[Any]:
        noted, scaled = self._saved, partial(_scaled, size=self._size, whole=self._whole)

        def pack(value: Tensor) -> Tensor:  # it must not refer to what holds it
            if value.layout == torch.strided:
                noted[_start(value)] = scaled(value)
            return value.detach()

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value)

    def _store(self, number: int, piece: int, out: Values, saved: list[Any]) -> None:
        seconds = time.process_time() - self._begin
        rows = [out.x, out.message, *out.skips.values()]
        known = self._known | {_start(value) for value in rows if value is not None}
        counted = sum(size for start, size in self._saved.items() if start not in known)
        share = self._whole[0] / self._size[0]
        x = 0 if number == 0 else self._bytes(self._levels[number].x)
        message = 0 if number == 0 else self._bytes(self._levels[number].message)
        self._costs.append(SegmentCost(x, message, counted, seconds * share))
        super()._store(number, piece, out, [])

    def _bytes(self, held: Any) -> int:
        if held is None:
            return 0
        return int(held.full.nbytes * self._whole[0] / self._size[0])

    def found(self) -> Measured:
        """What was counted."""
        skips = sum(self._bytes(held) for held in self._skips.values())
        row = self._whole[0] * self._stage.topology.dtype.itemsize
        scores, features = row * self._stage.widths.x[-1], 0
        if self._stage.program.reads_features:
            features = row * self._stage.widths.x[0]
        norms: Sequence[str] = self._lists.norms
        return Measured(
            tuple(self._costs),
            tuple(norms),
            skips,
            self._pieces.sums,
            features,
            scores,
            self._pieces.reads_rows,
            self._pieces.reads_moments,
            self._whole[1] / max(1, self._whole[0]),
        )


def _scaled(value: Tensor, size: tuple[int, int], whole: tuple[int, int]) -> int:
    """Bytes of a saved tensor for all nodes, or all edges if it has a row for each of them."""
    by_edge = bool(value.dim()) and value.shape[0] >= size[1] > size[0]
    return int(value.untyped_storage().nbytes() * whole[by_edge] / size[by_edge])


def _start(value: Tensor) -> int:
    return value.untyped_storage().data_ptr()
