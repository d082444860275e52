"""What typed samplers reach: all there is with fan-out -1, against sets; and subgraph types."""

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.sampling import HeteroNeighbor
from tests.processes import ROOT
from tests.sampling.helpers_hetero import drawn_graph, drawn_seeds, sample_all
from tests.sampling.hetero.reference_hetero import rows_of
from tests.some import some


def reached(graph, level, seed, hops):
    """Nodes and edges within so many hops of a seed that are no later than its time, as sets."""
    name, v, _, limit = seed
    nodes, edges = {(name, v)}, set()
    rows = {link: rows_of(graph, link, level) for link in graph.edge_types}
    for _ in range(hops):
        for link in graph.edge_types:
            for kind, target in list(nodes):
                if kind != link[2]:
                    continue
                for place, (time, _, _) in enumerate(rows[link][target]):
                    if level is None or time is None or time <= limit:
                        edges.add((link, target, place))
        nodes |= {(link[0], rows[link][target][place][1]) for link, target, place in edges}
    return nodes, edges


@pytest.mark.parametrize("level", [None, "node", "edge"])
@settings(max_examples=40)
@given(data=st.data())
def test_with_all_neighbours_trees_are_what_can_be_reached(level, data):
    graph = drawn_graph(data)
    if level == "edge":  # without such times it is refused
        assume(any(one.time is not None for one in graph.edges.values()))
    if level == "node":
        assume(any(table.time is not None for table in graph.nodes.values()))
    hops = data.draw(st.integers(1, 3))
    strategy = data.draw(st.sampled_from(["uniform", "last"] if level else ["uniform"]))
    rule = HeteroNeighbor([-1] * hops, disjoint=True, time=level, temporal_strategy=strategy)
    dealt = drawn_seeds(data, graph, 1)
    sample = sample_all(rule, graph, dealt, seed=1)[0]
    for tree, seed in enumerate(dealt[0]):
        nodes = [
            (name, int(v)) for name, own in sample.nodes.items() for v in own.node[own.tree == tree]
        ]
        edges = []
        for link, own in sample.edges.items():
            mine = sample.nodes[link[2]].tree[own.col] == tree
            target = sample.nodes[link[2]].node[own.col[mine]]
            place = own.edge[mine] - graph.edges[link].indptr[target]
            edges += [(link, int(v), int(p)) for v, p in zip(target, place, strict=True)]
        assert len(set(nodes)) == len(nodes) and len(set(edges)) == len(edges)
        assert (set(nodes), set(edges)) == reached(graph, level, seed, hops)


@settings(max_examples=40)
@given(data=st.data())
def test_with_all_neighbours_a_batch_is_the_union(data):
    graph = drawn_graph(data)
    hops = data.draw(st.integers(1, 3))
    dealt = drawn_seeds(data, graph, 1)
    sample = sample_all(HeteroNeighbor([-1] * hops), graph, dealt, seed=1)[0]
    nodes = {(name, int(v)) for name, own in sample.nodes.items() for v in own.node}
    assert nodes == set().union(*(reached(graph, None, seed, hops)[0] for seed in dealt[0]))


def test_one_type_reaches_what_pyg_reaches():
    torch = pytest.importorskip("torch")
    utils = pytest.importorskip("torch_geometric.utils")
    rng = np.random.default_rng(3)
    index = rng.integers(0, 200, (2, 500))
    relation = Relation.of(index, 200, 200)
    graph = HeteroGraph({"v": NodeTable.of(200)}, {("v", "to", "v"): relation})
    for hops in some((1, 2, 3)):
        rule = HeteroNeighbor([-1] * hops)
        sample = rule.sample_bulk(graph, {"v": [np.array([5, 9])]}, seed=0)[0]
        subset, _, _, _ = utils.k_hop_subgraph([5, 9], hops, torch.as_tensor(index), num_nodes=200)
        assert sorted(sample.nodes["v"].node.tolist()) == sorted(subset.tolist())


def local_edges(sample, name):
    own = sample.edges[name]
    return list(zip(own.row.tolist(), own.col.tolist(), strict=True))


@settings(max_examples=40)
@given(data=st.data())
def test_induced_edges_are_all_between_the_nodes(data):
    graph = drawn_graph(data)
    level = data.draw(st.sampled_from([None, "node", "edge"]))
    disjoint = level is not None or data.draw(st.booleans())
    numbers = {link: data.draw(st.sampled_from([[2, 2], [0, 0], [-1, 1]])) for link in graph.edges}
    kind = {"disjoint": disjoint, "time": level}
    rule = HeteroNeighbor(numbers, subgraph_type="induced", **kind)
    dealt = drawn_seeds(data, graph, 2)
    found = sample_all(rule, graph, dealt, seed=4)
    plain = sample_all(HeteroNeighbor(numbers, **kind), graph, dealt, seed=4)
    for sample, other, batch in zip(found, plain, dealt, strict=True):
        for name, own in sample.nodes.items():
            np.testing.assert_array_equal(own.node, other.nodes[name].node)
        for link, edges in sample.edges.items():
            source, target = sample.nodes[link[0]], sample.nodes[link[2]]
            rows = rows_of(graph, link, level)
            want = []
            for col, v in enumerate(target.node.tolist()):
                tree = int(target.tree[col]) if disjoint else 0
                for place, (time, u, _) in enumerate(rows[v] if any(numbers[link]) else []):
                    if time is not None and time > batch[tree][3]:
                        continue
                    same = source.node == u
                    if disjoint:
                        same &= source.tree == tree
                    edge = int(graph.edges[link].indptr[v]) + place
                    want += [(int(row), col, edge) for row in np.flatnonzero(same)]
            got = list(
                zip(edges.row.tolist(), edges.col.tolist(), edges.edge.tolist(), strict=True)
            )
            assert got == want and edges.num_edges is None


def reversed_graph(names):
    """Random relations of these names, and a little of everything in them."""
    rng = np.random.default_rng(2)
    nodes = {"a": NodeTable.of(20), "b": NodeTable.of(15)}
    counts = {"a": 20, "b": 15}
    edges = {
        (u, r, v): Relation.of(
            np.stack([rng.integers(0, counts[u], 60), rng.integers(0, counts[v], 60)]),
            counts[u],
            counts[v],
        )
        for u, r, v in names
    }
    return HeteroGraph(nodes, edges)


CASES = [
    [("a", "r", "b"), ("b", "rev_r", "a"), ("a", "to", "a")],
    [("a", "r", "b"), ("b", "back", "a")],
    [("a", "r", "a"), ("a", "rev_r", "a"), ("b", "x", "a"), ("a", "rev_x", "b")],
]


@pytest.mark.parametrize("names", CASES, ids=len)
@pytest.mark.parametrize("disjoint", [False, True])
def test_bidirectional_edges_are_those_of_pyg(names, disjoint):
    torch = pytest.importorskip("torch")
    sampler = pytest.importorskip("torch_geometric.sampler.base")
    graph = reversed_graph(names)
    seeds = {"a": [np.arange(5)]}
    keys = {"seed": 2} | ({"rows": seeds} if disjoint else {})
    plain = HeteroNeighbor([3, 2], disjoint=disjoint).sample_bulk(graph, seeds, **keys)[0]
    rule = HeteroNeighbor([3, 2], disjoint=disjoint, subgraph_type="bidirectional")
    got = rule.sample_bulk(graph, seeds, **keys)[0]

    def tensors(field):
        values = {link: getattr(own, field) for link, own in plain.edges.items()}
        return {link: torch.as_tensor(value.astype(np.int64)) for link, value in values.items()}

    nodes = {name: torch.as_tensor(own.node.astype(int)) for name, own in plain.nodes.items()}
    output = sampler.HeteroSamplerOutput(nodes, tensors("row"), tensors("col"), tensors("edge"))
    want = output.to_bidirectional()
    for link in some(names):
        pairs = zip(want.row[link].tolist(), want.col[link].tolist(), strict=True)
        assert sorted(local_edges(got, link)) == sorted(set(pairs))
        edges = got.edges[link]
        assert edges.edge is None and edges.num_edges is None
        assert (np.diff(edges.col.astype(int)) >= 0).all() and not edges.row.flags.writeable
    for name, own in got.nodes.items():
        np.testing.assert_array_equal(own.node, plain.nodes[name].node)


def test_a_relation_without_a_reverse_is_named():
    graph = reversed_graph([("a", "r", "b"), ("b", "x", "a"), ("b", "y", "a")])
    rule = HeteroNeighbor([3, 2], subgraph_type="bidirectional")
    with pytest.warns(UserWarning, match=r"relation \(a, r, b\) has no reverse") as caught:
        got = rule.sample_bulk(graph, {"a": [np.arange(5)]}, seed=1)[0]
    assert len(caught) == 1  # x and y have r
    plain = HeteroNeighbor([3, 2]).sample_bulk(graph, {"a": [np.arange(5)]}, seed=1)[0]
    link = ("a", "r", "b")
    assert local_edges(got, link) == local_edges(plain, link)
    np.testing.assert_array_equal(got.edges[link].edge, plain.edges[link].edge)


def test_the_example_of_the_page_runs(capsys):
    page = (ROOT / "docs/howto/typed_sampling.md").read_text(encoding="utf-8")
    first, rules = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    values = {}
    exec(compile(first, "typed_sampling.md", "exec"), values)
    nodes = values["batch"].nodes["user"]
    assert nodes.node[:3].tolist() == [3, 3, 8] and nodes.tree[:3].tolist() == [0, 1, 2]
    assert capsys.readouterr().out
    exec(compile(rules, "typed_sampling.md", "exec"), values)
    assert values["batch"].expand == "per-layer"
    assert "per-layer (0, " in capsys.readouterr().out
