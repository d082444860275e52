"""The sampler of the Heterogeneous Graph Transformer, node by node; slow and obvious."""

from collections.abc import Mapping, Sequence

import numpy as np

from foregather.graph.hetero import HeteroGraph
from foregather.sampling.hetero.hetero_bulk import EdgeSample, HeteroSample, NodeSample
from foregather.sampling.hetero.hgt import Hgt
from tests.sampling.reference import GOLDEN, MASK, batch_key, draw, layer_key, mix64, vertex_key
from tests.sampling.reference_weighted import exponential

UNIT = 1 << 40


def fold(*words: int) -> int:
    """A key of several words."""
    key = 0
    for word in words:
        key = mix64(((key ^ word) + GOLDEN) & MASK)
    return key


def rows_of(graph: HeteroGraph) -> dict[tuple[str, str, str], list[list[tuple[int, int]]]]:
    """For each relation and target its (source, position of the edge)."""
    found = {}
    for name in graph.edge_types:
        own = graph.relation(name)
        found[name] = [
            [(int(own.indices[at]), at) for at in range(int(own.indptr[v]), int(own.indptr[v + 1]))]
            for v in range(own.num_targets)
        ]
    return found


def sample_hgt(
    graph: HeteroGraph,
    rule: Hgt,
    seeds: Mapping[str, Sequence[int]],
    seed: int,
    epoch: int,
    batch: int,
) -> HeteroSample:
    """One minibatch."""
    rows, numbers = rows_of(graph), rule.of(graph.node_types)
    taken: dict[str, list[int]] = {name: [] for name in graph.node_types}
    counts: dict[str, list[int]] = {name: [] for name in graph.node_types}
    budget: dict[str, dict[int, int]] = {name: {} for name in graph.node_types}
    fresh: dict[str, list[int]] = {name: [] for name in graph.node_types}
    for name, given in seeds.items():
        fresh[name] = list(dict.fromkeys(int(v) for v in given))
    key = batch_key(seed, epoch, batch)
    for layer in range(rule.num_layers + 1):
        for name, new in fresh.items():
            taken[name] += new
            counts[name].append(len(taken[name]))
        if layer == rule.num_layers:
            break
        for (source, _, target), of in rows.items():
            for v in fresh[target]:
                row = of[v]
                for u, _ in row:
                    if u not in taken[source]:
                        units = max(1, UNIT // len(row))
                        budget[source][u] = budget[source].get(u, 0) + units
        for number, name in enumerate(graph.node_types):
            own = fold(layer_key(key, layer), number)
            order = sorted(
                (exponential(draw(vertex_key(own, u), 0)) / (units / UNIT) ** 2, u)
                for u, units in budget[name].items()
                if u not in taken[name]
            )
            many = numbers[number][layer]
            fresh[name] = sorted(u for _, u in (order if many < 0 else order[:many]))
            for u in fresh[name]:
                del budget[name][u]
    edges = {}
    for edge_type, of in rows.items():
        place = {u: at for at, u in enumerate(taken[edge_type[0]])}
        found = [
            (place[u], at, edge)
            for at, v in enumerate(taken[edge_type[2]])
            for u, edge in of[v]
            if u in place
        ]
        row, col, edge = np.array(found, np.int64).reshape(-1, 3).T
        edges[edge_type] = EdgeSample(row.astype(np.uint32), col.astype(np.uint32), edge, None)
    return HeteroSample(
        {
            name: NodeSample(
                np.array(taken[name], np.int64),
                tuple(counts[name]),
                None,
                _positions(seeds.get(name, []), taken[name]),
            )
            for name in graph.node_types
        },
        edges,
        batch,
    )


def _positions(
    given: Sequence[int], taken: list[int]
) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    if len(set(map(int, given))) == len(given):
        return None
    return np.array([taken.index(int(v)) for v in given], np.int64)
