"""Small graphs for the tests of loaders."""

from dataclasses import fields
from typing import Any

import numpy as np

from foregather import BatchContents, Graph, RankOptions


def grouped(options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a Loader, with the fields of `contents` and `ranks` put together."""
    made = dict(options)
    kinds: dict[str, Any] = {"contents": BatchContents, "ranks": RankOptions}
    for name, kind in kinds.items():
        own = {one.name: made.pop(one.name) for one in fields(kind) if one.name in made}
        if own:
            made[name] = kind(**own)
    return made


def small_graph(nodes: int = 120, edges: int = 900, seed: int = 0, **options: Any) -> Graph:
    """Random edges with features, labels, edge features and a split; a few nodes are isolated."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, nodes - 4, (2, edges))
    return Graph.from_edge_index(
        pairs,
        nodes,
        x=rng.random((nodes, 6), np.float32),
        y=rng.integers(0, 3, nodes),
        edge_attr=rng.random((edges, 2), np.float32),
        splits={"train": rng.permutation(nodes)[:50]},
        **options,
    )


def same_batch(a: Any, b: Any) -> bool:
    """Whether two plain batches are equal, bit for bit."""
    tensors = ("n_id", "x", "y", "edge_index", "e_id", "input_id", "seed_id")
    return bool(
        all(np.array_equal(getattr(a, name), getattr(b, name)) for name in tensors)
        and a.num_sampled_nodes == b.num_sampled_nodes
        and a.num_sampled_edges == b.num_sampled_edges
    )
