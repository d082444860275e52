"""Sampling of graphs with types and times, against slow Python and against the plain sampler."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.sampling import HeteroNeighbor, Neighbor
from tests.helpers_sampling import drawn_graph as plain_graph
from tests.sampling.helpers_hetero import (
    assert_same_samples,
    by_type,
    drawn_graph,
    drawn_seeds,
    random_graph,
    sample_all,
    sample_slowly,
)
from tests.some import some

KINDS = [
    {},
    {"replace": True},
    {"weights": True},
    {"weights": True, "replace": True},
    {"disjoint": True},
    {"disjoint": True, "replace": True},
    {"disjoint": True, "weights": True},
    *(
        {"time": level, **more}
        for level in ("node", "edge")
        for more in (
            {},
            {"replace": True},
            {"temporal_strategy": "last"},
            {"weights": True},
            {"weights": True, "replace": True},
        )
    ),
]
FANOUT = st.sampled_from([-1, 0, 1, 2, 3, 5, 20, 45])


def drawn_rule(data, graph, kind):
    layers = data.draw(st.integers(1, 3))
    numbers = st.lists(FANOUT, min_size=layers, max_size=layers)
    if data.draw(st.booleans()):
        return HeteroNeighbor(data.draw(numbers), **kind)
    return HeteroNeighbor({name: data.draw(numbers) for name in graph.edge_types}, **kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=40)
@given(data=st.data())
def test_equals_the_reference(kind, data):
    graph = drawn_graph(data)
    rule = drawn_rule(data, graph, kind)
    dealt = drawn_seeds(data, graph, data.draw(st.integers(1, 3)))
    keys = {
        "seed": data.draw(st.integers(0, 2**64 - 1)),
        "epoch": data.draw(st.integers(0, 99)),
        "first_batch": data.draw(st.integers(0, 99)),
    }
    want = sample_slowly(rule, graph, dealt, **keys)
    got = sample_all(rule, graph, dealt, threads=data.draw(st.integers(1, 3)), **keys)
    assert_same_samples(got, want)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=40)
@given(data=st.data())
def test_one_type_is_the_plain_sampler(replace, weighted, data):
    plain = plain_graph(data, 60, 900)
    weights = np.random.default_rng(plain.num_edges).random(plain.num_edges).astype(np.float32)
    relation = Relation(plain.indptr, plain.indices, weights=weights)
    graph = HeteroGraph({"node": NodeTable(plain.num_nodes)}, {("node", "to", "node"): relation})
    fanouts = data.draw(st.lists(st.sampled_from([-1, 1, 2, 5, 40]), min_size=1, max_size=3))
    ids = st.lists(st.integers(0, plain.num_nodes - 1), max_size=9)
    seeds = [np.array(one, np.int64) for one in data.draw(st.lists(ids, min_size=1, max_size=4))]
    rows = [np.arange(len(one)) * 7 + data.draw(st.integers(0, 2**40)) for one in seeds]
    keys = {"seed": data.draw(st.integers(0, 2**64 - 1)), "epoch": 3, "first_batch": 5}
    simple = Neighbor(fanouts, replace=replace, weights=weights if weighted else None)
    own = {"replace": replace, "weights": weighted}
    pairs = [
        (
            simple.sample_bulk(plain, seeds, **keys),
            HeteroNeighbor(fanouts, **own).sample_bulk(graph, {"node": seeds}, **keys),
        ),
        (
            simple.sample_trees(plain, seeds, rows, **keys),
            HeteroNeighbor(fanouts, disjoint=True, **own).sample_bulk(
                graph, {"node": seeds}, rows={"node": rows}, **keys
            ),
        ),
    ]
    for want, got in pairs:
        for one, typed in some(zip(want, got, strict=True)):
            nodes, edges = typed.nodes["node"], typed.edges["node", "to", "node"]
            for name in ("node", "tree", "seed_position"):
                np.testing.assert_array_equal(getattr(one, name), getattr(nodes, name), name)
            for name in ("row", "col", "edge"):
                np.testing.assert_array_equal(getattr(one, name), getattr(edges, name), name)
                assert getattr(one, name).dtype == getattr(edges, name).dtype
            assert (one.num_nodes, one.num_edges) == (nodes.num_nodes, edges.num_edges)
            assert one.node.dtype == nodes.node.dtype and one.batch == typed.batch


BUSY = random_graph(5, 4, 7, 400, 6000)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_threads_and_bulks_change_nothing(kind):
    rule, rng = HeteroNeighbor([6, 5, 4], **kind), np.random.default_rng(0)
    name = BUSY.edge_types[0][2]
    count = BUSY.nodes[name].num_nodes
    dealt = [
        [(name, int(rng.integers(count)), 50 * b + i, int(rng.integers(-9, 9))) for i in range(50)]
        for b in range(12)
    ]
    want = sample_all(rule, BUSY, dealt, seed=4, epoch=1, threads=1)
    assert sum(len(edges.row) for sample in want for edges in sample.edges.values()) > 5000
    for threads, k in ((2, 12), (5, 3), (2, 1), (1, 5)):
        got = []
        for first in range(0, 12, k):
            got += sample_all(
                rule, BUSY, dealt[first : first + k],
                seed=4, epoch=1, first_batch=first, threads=threads,
            )  # fmt: skip
        assert_same_samples(got, want)


def trees_of(rule, graph, table, order, sizes, threads):
    """What each row's tree holds: nodes and edges by type, relation and hop, in their order."""
    dealt = [[table[r] for r in part] for part in np.split(order, np.cumsum(sizes)[:-1])]
    found = {row: [] for _, _, row, _ in table}
    for sample, own in zip(
        sample_all(rule, graph, dealt, seed=1, epoch=2, threads=threads), dealt, strict=True
    ):
        for place, (_, _, row, _) in enumerate(own):
            for name, nodes in sample.nodes.items():
                found[row].append((name, nodes.node[nodes.tree == place].tolist()))
            for name, edges in sample.edges.items():
                col, source = sample.nodes[name[2]], sample.nodes[name[0]]
                mine = col.tree[edges.col] == place
                assert (source.tree[edges.row[mine]] == place).all()
                hop = np.repeat(np.arange(rule.num_layers), edges.num_edges)[mine]
                ends = source.node[edges.row[mine]], col.node[edges.col[mine]], edges.edge[mine]
                found[row].append((name, hop.tolist(), *(end.tolist() for end in ends)))
    return found


@pytest.mark.parametrize("kind", [k for k in KINDS if "disjoint" in k or "time" in k], ids=str)
def test_a_tree_depends_on_its_row_alone(kind):
    rule, rng = HeteroNeighbor([5, 4, 3], **kind), np.random.default_rng(1)
    name = BUSY.edge_types[0][2]
    ids = rng.integers(0, BUSY.nodes[name].num_nodes, 60)
    ids[10:20] = ids[0]  # the same entity at many times
    table = [(name, int(v), 3 * r, int(rng.integers(-9, 9))) for r, v in enumerate(ids)]
    want = trees_of(rule, BUSY, table, np.arange(60), [60], 1)
    assert trees_of(rule, BUSY, table, rng.permutation(60), [10] * 6, 2) == want
    assert trees_of(rule, BUSY, table, np.arange(60)[::-1], [1] * 60, 2) == want
    assert trees_of(rule, BUSY, table, np.arange(60), [7] * 8 + [4], 3) == want
    assert len({str(tree) for tree in want.values()}) > 30


@settings(max_examples=60)
@given(data=st.data())
def test_nothing_is_later_than_its_tree(data):
    graph = drawn_graph(data)
    level = data.draw(st.sampled_from(["node", "edge"]))
    more = data.draw(
        st.sampled_from([{}, {"temporal_strategy": "last"}, {"weights": True}, {"replace": True}])
    )
    shape = data.draw(st.sampled_from(["directional", "induced"]))
    rule = HeteroNeighbor([3, -1, 2], time=level, subgraph_type=shape, **more)
    dealt = drawn_seeds(data, graph, 2)
    for sample, batch in zip(sample_all(rule, graph, dealt, seed=3), dealt, strict=True):
        limit = np.array([time for _, _, _, time in batch], np.int64)
        for name, edges in sample.edges.items():
            relation = graph.relation(name, level)
            seen = limit[sample.nodes[name[2]].tree[edges.col]]
            if relation.time is not None:
                assert (relation.time[edges.edge] <= seen).all()
            own = graph.nodes[name[0]].time
            if level == "node" and own is not None:
                assert (own[sample.nodes[name[0]].node[edges.row]] <= seen).all()
        for name, nodes in sample.nodes.items():
            own = graph.nodes[name].time
            if level == "node" and own is not None:
                found = nodes.node[nodes.num_nodes[0] :]
                assert (own[found] <= limit[nodes.tree[nodes.num_nodes[0] :]]).all()


def test_seeds_without_times_use_their_own():
    name, rule = BUSY.edge_types[0][2], HeteroNeighbor([4, 4], time="node")
    ids, rows = [np.arange(30)], [np.arange(30)]
    own = BUSY.nodes[name].time
    keys = {"seed": 1, "rows": {name: rows}}
    got = rule.sample_bulk(BUSY, {name: ids}, **keys)
    want = rule.sample_bulk(BUSY, {name: ids}, times={name: [own[ids[0]]]}, **keys)
    assert got.digest == want.digest
    other = rule.sample_bulk(BUSY, {name: ids}, times={name: [own[ids[0]] + 1]}, **keys)
    assert other.digest != want.digest


def test_by_type_orders_seeds():
    """The helper that the tests above rely on."""
    dealt = [[("a", 1, 2, 3), ("b", 4, 5, 6)], [("b", 7, 8, 9)]]
    assert [one.tolist() for one in by_type(dealt, 1)["b"]] == [[4], [7]]
    assert [one.tolist() for one in by_type(dealt, 3)["a"]] == [[3], []]
