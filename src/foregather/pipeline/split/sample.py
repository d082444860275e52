"""sample: small graphs with rows of the user's graph, on which a model is recorded and checked.

Their edges are chosen to show differences: directed, several hops deep, with unequal degrees,
isolated nodes, self-loops and parallel edges. Features, edge weights and edge features are rows of
the user's graph.
"""

import numpy as np
import torch
from torch import Tensor

from foregather.graph.graph import Graph

__all__ = ["feature_rows", "small_graph"]


def feature_rows(graph: Graph, like: Tensor) -> Tensor:
    """The features of all nodes, of the type and on the device of `like`."""
    assert graph.features is not None
    return torch.from_numpy(np.array(graph.features[np.arange(graph.num_nodes)])).to(like)


def small_graph(like: Graph, nodes: int, edges: int, seed: int) -> Graph:
    """A small graph whose nodes and edges carry what those of `like` carry.

    Args:
        like: the user's graph, with features.
        nodes: how many; the last two are isolated.
        edges: random ones; a path, self-loops and parallel edges come on top.
        seed: of the edges.
    """
    assert like.features is not None
    random = np.random.default_rng(seed)
    some = nodes - 2
    source = np.floor(some * random.random(edges) ** 2).astype(np.int64)  # a few have many
    target = random.integers(0, some, edges)
    keep = source != target
    path = np.arange(some)
    # two self-loops, so that counts with and without them differ; two parallel edges
    source = np.concatenate([source[keep], path[:-1], [3, 5, 1, 1]])
    target = np.concatenate([target[keep], path[1:], [3, 5, 8, 8]])
    rows = random.integers(0, like.num_nodes, nodes)
    at = random.integers(0, max(1, like.num_edges), source.size)
    weight = attr = None
    if like.edge_weight is not None:
        weight = np.asarray(like.edge_weight)[at] if like.num_edges else np.ones(source.size)
    if like.edge_features is not None:
        shape = (source.size, like.edge_features.width)
        attr = np.array(like.edge_features[at]) if like.num_edges else np.ones(shape)
    return Graph.from_edge_index(
        np.stack([source, target]),
        nodes,
        x=np.array(like.features[rows]),
        edge_attr=None if attr is None else attr.astype(np.float32),
        edge_weight=None if weight is None else weight.astype(np.float32),
    )
