"""Reference: neighbour sampling as slow, obvious Python; what every faster sampler must equal.

Keys and draws are csrc's keys.hpp and random.hpp once more, in Python integers. A sample is written
as it is defined: for each node to expand, in order, choose positions of its row; each edge chosen
gives its source the next number unless it has one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk, Expand, Sample
from foregather.sampling.sampler import Sampler

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SAMPLE, SHUFFLE, PRESAMPLE, ROOTS = 1, 2, 3, 4  # Purpose


def mix64(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def derive(key: int, word: int) -> int:
    return mix64((key + GOLDEN * (word + 1)) & MASK)


draw = derive  # the same formula; one makes keys, the other bits


def bounded(key: int, counter: int, limit: int) -> int:
    """Uniform in [0, limit), by multiplication and rejection."""
    bits = draw(key, counter)
    product = (bits >> 32) * limit
    while (product & 0xFFFFFFFF) < (2**32 - limit) % limit:
        bits = mix64((bits + GOLDEN) & MASK)
        product = (bits >> 32) * limit
    return product >> 32


def epoch_key(seed: int, purpose: int, epoch: int) -> int:
    return derive(derive(mix64(seed & MASK), purpose), epoch)


def batch_key(seed: int, epoch: int, batch: int) -> int:
    return derive(epoch_key(seed, SAMPLE, epoch), batch)


def layer_key(batch: int, layer: int) -> int:
    return derive(batch, layer)


def vertex_key(layer: int, vertex: int) -> int:
    return derive(layer, vertex)


def choose(key: int, degree: int, fanout: int, replace: bool) -> list[int]:
    """Positions in a row of `degree` edges that a fan-out picks."""
    if fanout < 0 or degree == 0 or (not replace and fanout >= degree):
        return list(range(degree))
    if replace:
        return sorted(bounded(key, slot, degree) for slot in range(fanout))
    taken: set[int] = set()  # Floyd: every subset of that size is equally likely
    for slot, j in enumerate(range(degree - fanout, degree)):
        t = bounded(key, slot, j + 1)
        taken.add(j if t in taken else t)
    return sorted(taken)


#: (layer, batch key, node, fan-out) -> positions in the node's row.
Pick = Callable[[int, int, int, int], list[int]]


def sample_one(
    graph: Graph,
    seeds: Sequence[int],
    fanouts: Sequence[int],
    pick: Pick,
    expand: Expand,
    key: int,
    batch: int,
) -> Sample:
    """One minibatch under its batch key."""
    local: dict[int, int] = {}  # node -> position; a dict keeps the order of arrival
    for v in seeds:
        if not 0 <= v < graph.num_nodes:
            raise InputError(f"seeds hold node {v}, but the graph has {graph.num_nodes} nodes")
        local.setdefault(v, len(local))
    num_nodes, num_edges = [len(local)], []
    row: list[int] = []
    col: list[int] = []
    edge: list[int] = []
    first = 0
    for layer, fanout in enumerate(fanouts):
        targets = list(local)[0 if expand == "per-layer" else first :]
        first, before = len(local), len(edge)
        for v in targets:
            start = int(graph.indptr[v])
            for position in pick(layer, key, v, fanout):
                source = int(graph.indices[start + position])
                row.append(local.setdefault(source, len(local)))
                col.append(local[v])
                edge.append(start + position)
        num_nodes.append(len(local))
        num_edges.append(len(edge) - before)
    repeats = len(set(seeds)) < len(seeds)
    return Sample(
        node=np.array(list(local), graph.indices.dtype),
        num_nodes=tuple(num_nodes),
        row=np.array(row, np.uint32),
        col=np.array(col, np.uint32),
        num_edges=tuple(num_edges),
        edge=np.array(edge, np.int64),
        weight=None,
        seed_position=np.array([local[v] for v in seeds], np.int64) if repeats else None,
        batch=batch,
        expand=expand,
    )


@dataclass(frozen=True)
class ReferenceNeighbor(Sampler):
    """What `Neighbor` promises: uniform neighbour sampling, with or without replacement.

    A fan-out of -1 takes the whole row, with replacement too; 0 takes nothing.
    """

    num_neighbors: tuple[int, ...]
    replace: bool = False
    expand: Expand = "once"

    @property
    def num_layers(self) -> int:
        return len(self.num_neighbors)

    def sample_bulk(
        self,
        graph: Graph,
        seeds: Sequence[Any],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
    ) -> Bulk:
        def pick(layer: int, key: int, v: int, fanout: int) -> list[int]:
            degree = int(graph.indptr[v + 1] - graph.indptr[v])
            return choose(vertex_key(layer_key(key, layer), v), degree, fanout, self.replace)

        samples = [
            sample_one(
                graph,
                np.asarray(given).tolist(),
                self.num_neighbors,
                pick,
                self.expand,
                batch_key(seed, epoch, first_batch + number),
                first_batch + number,
            )
            for number, given in enumerate(seeds)
        ]
        return Bulk(samples, seed, epoch, first_batch)


def to_unit(bits: int) -> float:
    return (bits >> 11) * 2.0**-53


def walk_one(graph: Graph, starts: Sequence[int], length: int, key: int) -> list[list[int]]:
    """The walks of a minibatch under its batch key; one list of nodes for each start."""
    paths = []
    for number, start in enumerate(starts):
        path = [start]
        for step in range(length):
            row = graph.indices[graph.indptr[path[-1]] : graph.indptr[path[-1] + 1]]
            if len(row) == 0:
                path.append(path[-1])
                continue
            own = vertex_key(layer_key(key, step), start)
            path.append(int(row[bounded(own, number, len(row))]))
        paths.append(path)
    return paths


def induce_one(graph: Graph, nodes: Sequence[int]) -> list[tuple[int, int, int]]:
    """(source, target, position) of all edges between distinct nodes, in local numbers."""
    local = {v: i for i, v in enumerate(nodes)}
    return [
        (local[int(graph.indices[e])], local[v], e)
        for v in nodes
        for e in range(graph.indptr[v], graph.indptr[v + 1])
        if int(graph.indices[e]) in local
    ]


def node_weights(graph: Graph) -> list[float]:
    """Squared norms of the columns of mean aggregation with self-loops."""
    weights = [0.0] * graph.num_nodes
    for v in range(graph.num_nodes):
        begin, end = int(graph.indptr[v]), int(graph.indptr[v + 1])
        entry = 1.0 / (end - begin + 1)
        for u in [*graph.indices[begin:end], v]:
            weights[int(u)] += entry * entry
    return weights


def edge_weights(graph: Graph) -> list[float]:
    """1 / deg u + 1 / deg v for each edge u -> v, in the order of the graph."""
    degree = [max(int(d), 1) for d in np.diff(graph.indptr)]
    target = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return [
        1.0 / degree[v] + 1.0 / degree[int(u)] for u, v in zip(graph.indices, target, strict=True)
    ]


def _invert(weights: Sequence[float], bits: int) -> int:
    total = 0.0
    for weight in weights:
        total += weight
    at, total = to_unit(bits) * total, 0.0
    for number, weight in enumerate(weights):
        total += weight
        if total > at:
            return number
    raise AssertionError("rounding reached the total")


def draw_nodes(graph: Graph, size: int, key: int) -> list[int]:
    """Nodes drawn by weight under a batch key."""
    weights, layer = node_weights(graph), layer_key(key, 0)
    return [_invert(weights, draw(layer, slot)) for slot in range(size)]


def draw_edge_ends(graph: Graph, size: int, key: int) -> list[int]:
    """Source, target, source, target, ... of edges drawn by weight under a batch key."""
    weights = edge_weights(graph)
    # Running sums over all edges, read at the end of each row, as the sums are defined.
    sums, total = [0.0], 0.0
    for weight in weights:
        total += weight
        sums.append(total)
    ends: list[int] = []
    for slot in range(size):
        at = to_unit(draw(layer_key(key, 0), slot)) * total
        v = next(v for v in range(graph.num_nodes) if sums[int(graph.indptr[v + 1])] > at)
        begin, end = int(graph.indptr[v]), int(graph.indptr[v + 1])
        position = _invert(weights[begin:end], draw(layer_key(key, 1), slot))
        ends += [int(graph.indices[begin + position]), v]
    return ends
