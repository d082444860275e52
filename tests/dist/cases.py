"""What the ranks sample in the tests: graphs, samplers and seeds, the same in every process."""

from collections.abc import Iterable

import numpy as np

from foregather import Graph
from foregather.dist import Grid
from foregather.sampling import FastGCN, Full, Labor, Ladies, MatrixSampler, Neighbor

SEED, EPOCH = 11, 2

SAMPLERS: dict[str, MatrixSampler] = {
    "once": Neighbor([4, 3, 2]),
    "per-layer": Neighbor([4, 3, 2], expand="per-layer"),
    "replace": Neighbor([3, 3], replace=True, expand="per-layer"),
    "whole": Neighbor([-1, 3], replace=True),
    "ladies": Ladies([9, 7]),
    "ladies-reference": Ladies([6, -1, 4], debias="reference"),
    "fastgcn": FastGCN([12, 8]),
    "fastgcn-none": FastGCN([-1, 5], debias=None),
    "fastgcn-many": FastGCN([100, 30]),
    "full": Full(2),
    "labor": Labor([3, 2]),
    "labor-dependent": Labor([3, 2], layer_dependency=True, debias="reference"),
    "by-weight": Neighbor([3, 2], weights=True),
    "by-weight-replace": Neighbor([3, -1], weights=True, replace=True, expand="per-layer"),
}
BY_WEIGHT = ("by-weight", "by-weight-replace")
EVERY_BULK = ("once", "per-layer", "ladies", "fastgcn")
PAPER = ("once", "per-layer", "replace", "whole", "ladies", "ladies-reference", *BY_WEIGHT)


def impatient(grid: Grid, seconds: float) -> None:
    """All ranks are there, however long that took: from now on silence is an error sooner."""
    grid.timeout = grid.watch.timeout = seconds


def graph(name: str) -> Graph:
    """Small graphs with hubs, parallel edges, self-loops and isolated nodes."""
    if name == "empty":
        return Graph.from_edge_index(np.empty((2, 0), np.int64), 5)
    rng = np.random.default_rng(3)
    nodes, edges = 400, 3000
    source = (nodes * rng.random(edges) ** 2).astype(np.int64)
    target = (nodes * rng.random(edges) ** 3).astype(np.int64)
    target[target >= nodes - 20] = 0  # the last nodes have empty rows
    weight = rng.random(edges).astype(np.float32) if "weighted" in name else None
    made = Graph.from_edge_index(np.stack([source, target]), nodes, edge_weight=weight)
    if "wide" not in name:
        return made
    indices = made.indices.astype(np.int64)
    return Graph(nodes, edges, made.indptr, indices, edge_weight=made.edge_weight)


def seeds(graph: Graph, batches: Iterable[int]) -> list[np.ndarray]:
    """Seeds of each minibatch, by its number: uneven, one with repeats, one with none."""
    made = []
    for batch in batches:
        rng = np.random.default_rng([7, batch])
        count = [12, 5, 0, 9][batch % 4]
        ids = rng.integers(0, graph.num_nodes, count)
        made.append(np.concatenate([ids, ids[:2]]) if batch % 3 == 0 else np.unique(ids))
    return made


def deal(bulk: int, size: int, rank: int) -> list[int]:
    """Numbers of a rank's minibatches: rank, rank + size, ..."""
    return list(range(rank, bulk, size))


def matrix(size: int) -> list[tuple[str, int, str, int, str]]:
    """All cases of a world: (graph, replication, topology, bulk size, sampler)."""
    found: list[tuple[str, int, str, int, str]] = []
    for c in (c for c in (1, 2) if size % c == 0):
        for name in SAMPLERS:
            modes = ["owner"] + ["paper"] * (name in PAPER and size % (c * c) == 0)
            for mode in modes:
                bulks = (1, 3, 8) if name in EVERY_BULK else (8,)
                graph = "weighted" if name in BY_WEIGHT else "plain"
                found += [(graph, c, mode, bulk, name) for bulk in bulks]
                found.append(("weighted wide", c, mode, 3, name))
        for bulk in (1, 3, 8):
            found.append(("plain", c, "replicated", bulk, "per-layer"))
            found.append(("plain", c, "replicated", bulk, "ladies"))
        found.append(("empty", c, "owner", 3, "once"))
        found.append(("empty", c, "owner", 3, "fastgcn"))
    return found
