"""What batches of typed graphs must be, looked up in the graph the slow way."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from tests.some import some

#: Loaders of `shop` below.
BUYS = ("user", "buys", "item")
BOUGHT = ("item", "rev_buys", "user")
LIKES = ("user", "likes", "user")


def shop(seed: int = 0, users: int = 60, items: int = 25, edges: int = 400) -> HeteroGraph:
    """Users, items and a type without nodes; times of nodes and of edges, weights, features."""
    rng = np.random.default_rng(seed)
    bought = np.stack([rng.integers(0, users, edges), rng.integers(0, items, edges)])
    liked = rng.integers(0, users, (2, edges))
    when = rng.integers(0, 20, edges) * 5  # many are equal
    nodes = {
        "user": NodeTable.of(
            users,
            {"x": rng.random((users, 5), np.float32), "age": rng.integers(0, 99, users)},
            labels=rng.integers(0, 3, users).astype(np.int16),
            time=rng.integers(0, 20, users) * 5,
            splits={"train": rng.permutation(users)[: users // 2], "test": [3, 1]},
        ),
        "item": NodeTable.of(items, {"picture": rng.random((items, 2, 3)).astype(np.float16)}),
        "nothing": NodeTable.of(0, {"x": np.empty((0, 4), np.float32)}),
    }
    return HeteroGraph(
        nodes,
        {
            BUYS: Relation.of(bought, users, items, time=when, features=rng.random((edges, 2))),
            BOUGHT: Relation.of(bought[::-1], items, users, time=when, weights=rng.random(edges)),
            LIKES: Relation.of(liked, users, users),
        },
    )


def given_edges(graph: HeteroGraph) -> dict[Any, dict[str, Any]]:
    """Edges, times, weights and features of each relation in the order in which they were given."""
    found = {}
    for name, relation in graph.edges.items():
        ids = np.arange(relation.num_edges) if relation.edge_ids is None else relation.edge_ids
        back = np.argsort(ids)
        targets = np.repeat(np.arange(relation.num_targets), np.diff(relation.indptr))
        columns = {
            "edge_index": np.stack([relation.indices.astype(np.int64), targets]),
            "time": relation.time,
            "edge_weight": relation.weights,
            "edge_attr": relation.features,
        }
        found[name] = {
            key: torch.from_numpy(
                np.ascontiguousarray(values[..., back] if key == "edge_index" else values[back])
            )
            for key, values in columns.items()
            if values is not None
        }
    return found


def check_batch(batch: Any, graph: HeteroGraph, edges: bool = True) -> None:
    """Every type is there, and everything in it is that of its nodes and edges in the graph.

    Args:
        batch: the batch.
        graph: the graph.
        edges: whether edges are those of the graph, with ids, and were not added to it.
    """
    assert sorted(batch.node_types) == list(graph.node_types)
    assert sorted(batch.edge_types) == list(graph.edge_types)
    for name, table in some(graph.nodes.items()):
        store, at = batch[name], batch[name].n_id.numpy()
        assert store.num_nodes == len(at)
        known = {**table.features, "y": table.labels, "time": table.time}
        for key, values in known.items():
            if values is None:
                assert key not in store
                continue
            assert np.array_equal(store[key].numpy(), values[at]), (name, key)
        if "num_sampled_nodes" in store:
            assert sum(store.num_sampled_nodes) == len(at)
    given = given_edges(graph)
    for edge_type in some(graph.edge_types):
        store = batch[edge_type]
        assert ("e_id" in store) == edges
        if not edges:
            assert set(store.keys()) == {"edge_index"}
            continue
        ends = torch.stack(
            [
                batch[edge_type[0]].n_id[store.edge_index[0]],
                batch[edge_type[2]].n_id[store.edge_index[1]],
            ]
        )
        for key, values in some(given[edge_type].items()):
            expected = values[..., store.e_id] if key == "edge_index" else values[store.e_id]
            assert torch.equal(ends if key == "edge_index" else store[key], expected), (
                edge_type,
                key,
            )
        if "num_sampled_edges" in store:
            assert sum(store.num_sampled_edges) == store.e_id.numel()


def same_data(one: Any, other: Any) -> bool:
    """Whether two batches have the same stores, names and values."""
    mine, yours = _flat(one), _flat(other)
    return mine.keys() == yours.keys() and all(_same(mine[key], yours[key]) for key in mine)


def _flat(batch: Any) -> dict[Any, Any]:
    return {(store._key, key): value for store in batch.stores for key, value in store.items()}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def trees(batch: Any, node_type: str) -> dict[int, Any]:
    """By `input_id`, what the tree of each row holds, whatever else is in its batch."""
    found: dict[int, Any] = {}
    for tree, row in enumerate(batch[node_type].input_id.tolist()):
        nodes = {
            name: batch[name].n_id[batch[name].batch == tree].tolist() for name in batch.node_types
        }
        edges = {}
        for name in batch.edge_types:
            mine = batch[name[2]].batch[batch[name].edge_index[1]] == tree
            edges[name] = batch[name].e_id[mine].tolist()
        found[row] = (nodes, edges)
    return found
