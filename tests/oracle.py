"""Oracle: slow, obvious versions of what the library does, in plain NumPy."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def csc(
    edge_index: Array,
    num_nodes: int,
    undirected: bool = False,
    self_loops: bool = False,
    dedup: bool = False,
) -> tuple[Array, Array, Array]:
    """Expected indptr, indices and, for each edge, the input edge it came from (-1: added loop)."""
    edges = []
    for position, (source, target) in enumerate(np.asarray(edge_index, np.int64).T.tolist()):
        edges.append((target, source, position))
        if undirected:
            edges.append((source, target, position))
    edges = sorted(edges, key=lambda e: e[:2])  # stable: parallel edges keep their order
    if undirected or dedup:
        edges = [e for i, e in enumerate(edges) if i == 0 or e[:2] != edges[i - 1][:2]]
    if self_loops:
        have = {t for t, s, _ in edges if t == s}
        edges += [(v, v, -1) for v in range(num_nodes) if v not in have]
        edges = sorted(edges, key=lambda e: e[:2])
    indptr = np.zeros(num_nodes + 1, np.int64)
    for target, _, _ in edges:
        indptr[target + 1] += 1
    indices = np.array([s for _, s, _ in edges], np.int64)
    return np.cumsum(indptr), indices, np.array([p for _, _, p in edges], np.int64)
