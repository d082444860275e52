"""With all neighbours, typed samples hold what PyG's loader holds; needs pyg-lib, else skipped."""

import numpy as np
import pytest

from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.sampling import HeteroNeighbor
from tests.sampling.helpers_hetero import random_relation
from tests.some import some

pytest.importorskip("pyg_lib")
torch = pytest.importorskip("torch")
loader = pytest.importorskip("torch_geometric.loader")

COUNTS = {"user": 30, "item": 25, "tag": 6}
LINKS = [
    ("item", "rev_buys", "user"),
    ("tag", "of", "item"),
    ("user", "buys", "item"),
    ("user", "knows", "user"),
]


def shop(level, seed):
    """Users and items have times, tags and their relation have none."""
    rng = np.random.default_rng(seed)
    nodes = {
        name: NodeTable.of(
            count, time=rng.integers(0, 9, count) if level == "node" and name != "tag" else None
        )
        for name, count in COUNTS.items()
    }
    # An edge-level time must be on all relations in pyg-lib; a tag is there from the beginning.
    edges = {}
    for link in LINKS:
        made = random_relation(rng, COUNTS[link[0]], COUNTS[link[2]], 60, time=level == "edge")
        if level == "edge" and link[0] == "tag":
            made = Relation(made.indptr, made.indices, made.edge_ids, np.full(60, -99, np.int64))
        edges[link] = made
    return HeteroGraph(nodes, edges)


def of_pyg(graph, level, ids, times, hops, **rule):
    """Per tree (or, not disjoint, in all): nodes by type and given edges by relation."""
    data = graph.to_pyg()
    more = {}
    if level is not None:
        more = {"time_attr": "time", "input_time": torch.as_tensor(times)}
    made = loader.NeighborLoader(
        data,
        num_neighbors=[-1] * hops,
        input_nodes=("user", torch.as_tensor(ids)),
        batch_size=len(ids),
        **more,
        **rule,
    )
    (batch,) = list(made)
    trees = rule.get("disjoint", level is not None)
    nodes, edges = set(), set()
    for name in data.node_types:
        tree = batch[name].batch.tolist() if trees else [0] * len(batch[name].n_id)
        nodes |= {(t, name, v) for t, v in zip(tree, batch[name].n_id.tolist(), strict=True)}
    for link in data.edge_types:
        col = batch[link].edge_index[1]
        tree = batch[link[2]].batch[col].tolist() if trees else [0] * len(col)
        edges |= {(t, link, e) for t, e in zip(tree, batch[link].e_id.tolist(), strict=True)}
    return nodes, edges


def of_ours(graph, level, ids, times, hops, **rule):
    rule = HeteroNeighbor([-1] * hops, time=level, **rule)
    more = {"rows": {"user": [np.arange(len(ids))]}} if rule.disjoint else {}
    if level is not None:
        more["times"] = {"user": [times]}
    sample = rule.sample_bulk(graph, {"user": [ids]}, seed=1, **more)[0]
    nodes, edges = set(), set()
    for name, own in sample.nodes.items():
        tree = own.tree.tolist() if rule.disjoint else [0] * len(own.node)
        nodes |= {(t, name, v) for t, v in zip(tree, own.node.tolist(), strict=True)}
    for link, own in sample.edges.items():
        col = sample.nodes[link[2]]
        tree = col.tree[own.col].tolist() if rule.disjoint else [0] * len(own.col)
        given = graph.relation(link, level).edge_ids
        place = own.edge if given is None else given[own.edge]
        edges |= {(t, link, e) for t, e in zip(tree, place.tolist(), strict=True)}
    return nodes, edges


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize(
    ("level", "rule"),
    [
        (None, {}),
        (None, {"disjoint": True}),
        ("node", {}),
        ("node", {"temporal_strategy": "last"}),
        ("edge", {}),
        ("edge", {"temporal_strategy": "last"}),
    ],
    ids=str,
)
def test_all_neighbours_are_those_of_pyg(level, rule, hops):
    for seed in some(range(4)):
        graph = shop(level, seed)
        rng = np.random.default_rng(seed)
        # pyg-lib misnumbers a seed that is given twice without trees
        ids = rng.permutation(30)[:8] if level is None and not rule else rng.integers(0, 30, 8)
        times = rng.integers(-1, 9, 8)
        want = of_pyg(graph, level, ids, times, hops, **rule)
        got = of_ours(graph, level, ids, times, hops, **rule)
        assert got == want
        assert len(want[1]) >= 5


def test_the_last_edges_are_those_of_pyg():
    """Where times are distinct, the last k are one set."""
    rng = np.random.default_rng(5)
    ends = np.stack([rng.integers(0, 25, 200), rng.integers(0, 30, 200)])
    link = ("item", "rev_buys", "user")
    nodes = {name: NodeTable.of(COUNTS[name]) for name in ("item", "user")}
    relation = Relation.of(ends, 25, 30, time=rng.permutation(200))
    graph = HeteroGraph(nodes, {link: relation})
    ids, times = np.arange(30), rng.integers(0, 200, 30)
    batch = next(
        iter(
            loader.NeighborLoader(
                graph.to_pyg(),
                num_neighbors=[3],
                input_nodes=("user", torch.as_tensor(ids)),
                input_time=torch.as_tensor(times),
                time_attr="time",
                temporal_strategy="last",
                batch_size=30,
            )
        )
    )
    sample = HeteroNeighbor([3], time="edge", temporal_strategy="last").sample_bulk(
        graph, {"user": [ids]}, rows={"user": [ids]}, times={"user": [times]}, seed=0
    )[0]
    given = graph.relation(link, "edge").edge_ids
    assert sorted(given[sample.edges[link].edge]) == sorted(batch[link].e_id.tolist())
    assert len(batch[link].e_id) > 60
