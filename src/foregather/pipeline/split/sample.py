"""sample: small graphs with rows of the user's graph, on which a model is recorded and checked.

Their edges are chosen to show differences: directed, several hops deep, with unequal degrees,
isolated nodes, self-loops and parallel edges. Features, edge weights and edge features are rows of
the user's graph. One more is cut out of the user's graph, with the edges that are there.
"""

import numpy as np
import torch
from torch import Tensor

from foregather.graph.graph import Graph

__all__ = ["feature_rows", "induced_graph", "small_graph"]

_DEGREE = 8  # in-neighbours of a node that are looked at, so that a hub does not take all places
_LEAST = 8  # nodes of a graph in which chunks and statistics mean something


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


def induced_graph(graph: Graph, most: int, seed: int) -> Graph | None:
    """The subgraph of some of the user's nodes with all edges between them.

    Args:
        graph: the user's graph, with features.
        most: nodes at most: a few with in-edges, then in-neighbours of theirs, breadth first.
        seed: of the nodes to begin with.

    Returns:
        It, or None if the graph has no edges or hardly any nodes.
    """
    if not graph.num_edges or graph.num_nodes < _LEAST:
        return None
    assert graph.features is not None
    nodes = _around(graph, most, seed)
    begin = [(int(graph.indptr[node]), int(graph.indptr[node + 1])) for node in nodes]
    edge = np.concatenate([np.arange(first, last) for first, last in begin])
    target = np.repeat(np.arange(len(nodes)), [last - first for first, last in begin])
    source = np.asarray(graph.indices[edge], np.int64)
    inside = np.flatnonzero(np.isin(source, nodes))
    number = {node: place for place, node in enumerate(nodes)}
    pairs = np.stack([[number[one] for one in source[inside].tolist()], target[inside]])
    weight = attr = None
    if graph.edge_weight is not None:
        weight = np.array(graph.edge_weight[edge[inside]]).astype(np.float32)
    if graph.edge_features is not None:
        attr = np.array(graph.edge_features[edge[inside]]).astype(np.float32)
    x = np.array(graph.features[np.array(nodes)])
    return Graph.from_edge_index(pairs, len(nodes), x=x, edge_attr=attr, edge_weight=weight)


def _around(graph: Graph, most: int, seed: int) -> list[int]:
    """Targets of three random edges, in-neighbours breadth first; others where those are few."""
    random = np.random.default_rng(seed)
    ends = np.searchsorted(graph.indptr, random.integers(0, graph.num_edges, 3), side="right") - 1
    nodes = dict.fromkeys(int(node) for node in ends)  # in order, each once
    waiting = [*nodes]
    while waiting and len(nodes) < most:
        node = waiting.pop(0)
        first, last = int(graph.indptr[node]), int(graph.indptr[node + 1])
        near = np.asarray(graph.indices[np.arange(first, min(last, first + _DEGREE))], np.int64)
        new = [one for one in dict.fromkeys(near.tolist()) if one not in nodes]
        new = new[: most - len(nodes)]
        nodes.update(dict.fromkeys(new))
        waiting += new
    while len(nodes) < _LEAST:
        nodes[int(random.integers(0, graph.num_nodes))] = None
    return [*nodes]
