"""HeteroLabor: the slow reference, the plain sampler, and what it promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from foregather import Graph, InputError
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.sampling import HeteroLabor, HeteroNeighbor, Labor
from tests.helpers_sampling import drawn_graph as plain_graph
from tests.sampling.helpers_hetero import (
    assert_same_samples,
    drawn_graph,
    drawn_seeds,
    random_graph,
    sample_all,
)
from tests.sampling.hetero.reference_rules import sample_labor
from tests.some import some

KINDS = [
    {},
    {"layer_dependency": True},
    {"disjoint": True},
    {"disjoint": True, "layer_dependency": True},
    {"time": "node"},
    {"time": "edge"},
]
DEBIAS = st.sampled_from(["exact", "reference", None])
FANOUT = st.sampled_from([-1, 0, 1, 2, 5, 20])
LEAST = 1e-4  # probability below which a statistic is an error


def drawn_keys(data):
    return {
        "seed": data.draw(st.integers(0, 2**64 - 1)),
        "epoch": data.draw(st.integers(0, 99)),
        "first_batch": data.draw(st.integers(0, 99)),
    }


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=30)
@given(data=st.data())
def test_equals_the_reference(kind, data):
    graph, layers = drawn_graph(data), data.draw(st.integers(1, 3))
    numbers = st.lists(FANOUT, min_size=layers, max_size=layers)
    fanouts = data.draw(numbers)
    if data.draw(st.booleans()):
        fanouts = {name: data.draw(numbers) for name in graph.edge_types}
    rule = HeteroLabor(fanouts, debias=data.draw(DEBIAS), **kind)
    dealt = drawn_seeds(data, graph, data.draw(st.integers(1, 3)))
    keys = drawn_keys(data)
    want = [
        sample_labor(graph, rule, batch, keys["seed"], keys["epoch"], number)
        for number, batch in enumerate(dealt, keys["first_batch"])
    ]
    got = sample_all(rule, graph, dealt, threads=data.draw(st.integers(1, 3)), **keys)
    assert_same_samples(got, want)


def one_relation(plain: Graph) -> HeteroGraph:
    relation = Relation(plain.indptr, plain.indices, weights=plain.edge_weight)
    return HeteroGraph({"node": NodeTable(plain.num_nodes)}, {("node", "to", "node"): relation})


@pytest.mark.parametrize("same", [False, True])
@settings(max_examples=40)
@given(data=st.data())
def test_one_type_is_the_plain_sampler(same, data):
    plain = plain_graph(data, 60, 900)
    if data.draw(st.booleans()):
        rng = np.random.default_rng(plain.num_edges)
        weights = (rng.random(plain.num_edges) - 0.2).astype(np.float32)
        arrays = (plain.indptr, plain.indices)
        plain = Graph(plain.num_nodes, plain.num_edges, *arrays, edge_weight=weights)
    fanouts = data.draw(st.lists(st.sampled_from([-1, 1, 2, 5, 40]), min_size=1, max_size=3))
    debias, keys = data.draw(DEBIAS), drawn_keys(data)
    ids = st.lists(st.integers(0, plain.num_nodes - 1), max_size=9)
    seeds = [np.array(one, np.int64) for one in data.draw(st.lists(ids, min_size=1, max_size=4))]
    rows = [np.arange(len(one)) * 7 + data.draw(st.integers(0, 2**40)) for one in seeds]
    simple = Labor(fanouts, layer_dependency=same, debias=debias)
    graph, options = one_relation(plain), {"layer_dependency": same, "debias": debias}
    pairs = [
        (
            simple.sample_bulk(plain, seeds, **keys),
            HeteroLabor(fanouts, **options).sample_bulk(graph, {"node": seeds}, **keys),
        ),
        (
            simple.sample_trees(plain, seeds, rows, **keys),
            HeteroLabor(fanouts, disjoint=True, **options).sample_bulk(
                graph, {"node": seeds}, rows={"node": rows}, **keys
            ),
        ),
    ]
    for want, got in pairs:
        for one, typed in some(zip(want, got, strict=True)):
            nodes, edges = typed.nodes["node"], typed.edges["node", "to", "node"]
            for name in ("node", "tree", "seed_position"):
                np.testing.assert_array_equal(getattr(one, name), getattr(nodes, name), name)
            for name in ("row", "col", "edge", "weight"):
                np.testing.assert_array_equal(getattr(one, name), getattr(edges, name), name)
            assert (one.num_nodes, one.num_edges) == (nodes.num_nodes, edges.num_edges)


def test_threads_and_bulks_change_nothing():
    graph, rng = random_graph(5, 4, 7, 400, 6000), np.random.default_rng(0)
    name = graph.edge_types[0][2]
    seeds = [rng.integers(0, graph.nodes[name].num_nodes, 50) for _ in range(6)]
    rule = HeteroLabor([6, 5, 4])
    want = rule.sample_bulk(graph, {name: seeds}, seed=4, threads=1)
    assert want.digest == rule.sample_bulk(graph, {name: seeds}, seed=4, threads=3).digest
    for first in range(6):
        one = rule.sample_bulk(
            graph, {name: seeds[first : first + 1]}, seed=4, first_batch=first, threads=2
        )
        assert_same_samples(one, want.samples[first : first + 1])


def star(degree: int, time: bool) -> HeteroGraph:
    """One item whose in-edges are from users in order, at times 0, 1, 2, ..."""
    pairs = np.stack([np.arange(degree), np.zeros(degree, np.int64)])
    relation = Relation.of(pairs, degree, 1, time=np.arange(degree) if time else None)
    other = Relation.of(pairs, degree, 1, time=np.arange(degree) if time else None)
    tables = {"item": NodeTable(1), "user": NodeTable(degree)}
    return HeteroGraph(tables, {("user", "a", "item"): relation, ("user", "b", "item"): other})


@pytest.mark.parametrize(("degree", "seen", "count"), [(20, 20, 5), (60, 30, 7), (500, 90, 10)])
def test_inclusion_is_that_of_the_part_seen(degree, seen, count):
    trials = 4000
    rule = HeteroLabor([count], time="edge")
    zero, rows = np.zeros(1, np.int64), [np.array([r]) for r in range(trials)]
    bulk = rule.sample_bulk(
        star(degree, True),
        {"item": [zero] * trials},
        rows={"item": rows},
        times={"item": [zero + seen - 1] * trials},
        seed=3,
    )
    for link in some(bulk[0].edges):
        taken = np.zeros(degree)
        for sample in bulk:
            taken[sample.edges[link].edge] += 1
        assert not taken[seen:].any()
        expected = trials * count / seen
        chi = ((taken[:seen] - expected) ** 2 / (expected * (1 - count / seen))).sum()
        assert LEAST < stats.chi2.sf(chi, seen) < 1 - LEAST


def test_relations_draw_apart_and_targets_together():
    sources, targets = 300, 40
    rng = np.random.default_rng(1)
    pairs = np.stack([rng.integers(0, sources, 6000), rng.integers(0, targets, 6000)])
    tables = {"item": NodeTable(targets), "user": NodeTable(sources)}
    links = {("user", name, "item"): Relation.of(pairs, sources, targets) for name in "ab"}
    graph = HeteroGraph(tables, links)
    sample = HeteroLabor([10]).sample_bulk(graph, {"item": [np.arange(targets)]}, seed=2)[0]
    chosen = [set(sample.edges[link].row.tolist()) for link in links]
    apart = HeteroNeighbor([10]).sample_bulk(graph, {"item": [np.arange(targets)]}, seed=2)[0]
    alone = len(set(apart.edges["user", "a", "item"].row.tolist()))
    assert len(chosen[0]) < 0.6 * alone  # targets of a relation choose the same sources
    shared = len(chosen[0] & chosen[1]) / len(chosen[0])
    assert shared < 0.5  # those of two relations do not


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("time", [None, "edge"])
def test_exact_weights_are_unbiased(weighted, time):
    rng = np.random.default_rng(0)
    degree, seen, trials = 60, 60 if time is None else 33, 8000
    pairs = np.stack([np.arange(degree), np.zeros(degree, np.int64)])
    weights = rng.exponential(size=degree) if weighted else None
    relation = Relation.of(pairs, degree, 1, time=np.arange(degree), weights=weights)
    tables = {"item": NodeTable(1), "user": NodeTable(degree)}
    graph = HeteroGraph(tables, {("user", "to", "item"): relation})
    x = rng.standard_normal(degree) + 2
    values = np.full(seen, 1 / seen) if weights is None else weights[:seen]
    truth = float((values * x[:seen]).sum())
    zero, more = np.zeros(1, np.int64), {}
    if time is not None:
        more["rows"] = {"item": [np.array([r]) for r in range(trials)]}
        more["times"] = {"item": [zero + seen - 1] * trials}
    rule = HeteroLabor([7], time=time)
    found = []
    for sample in rule.sample_bulk(graph, {"item": [zero] * trials}, seed=0, **more):
        edges, nodes = sample.edges["user", "to", "item"], sample.nodes["user"].node
        found.append((edges.weight * x[nodes[edges.row]]).sum(dtype=np.float64))
    spread = np.std(found)
    assert abs(np.mean(found) - truth) < 4.5 * spread / trials**0.5
    assert spread > 0.05 * abs(truth)  # the bound above means something


def test_a_bulk_with_weights_is_saved_and_loaded(tmp_path):
    graph = random_graph(3)
    name = graph.edge_types[0][2]
    bulk = HeteroLabor([3, 2]).sample_bulk(graph, {name: [np.zeros(1, np.int64)]}, seed=1)
    bulk.save(tmp_path / "bulk.npz")
    again = type(bulk).load(tmp_path / "bulk.npz")
    assert_same_samples(again, bulk)
    assert again.digest == bulk.digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_neighbors": []}, "num_neighbors is empty"),
        ({"num_neighbors": [2], "debias": "some"}, "debias is 'some', expected"),
        ({"num_neighbors": [2], "time": "day"}, "time is 'day', expected 'node' or 'edge'"),
        (
            {"num_neighbors": [2], "time": "node", "temporal_strategy": "last"},
            "temporal_strategy is 'last', but LABOR draws edges",
        ),
        ({"num_neighbors": [2], "temporal_strategy": "x"}, "temporal_strategy is 'x', expected"),
    ],
)
def test_samplers_that_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        HeteroLabor(**options)


def test_what_cannot_be_sampled():
    graph = random_graph(3)
    name = graph.edge_types[0][2]
    seeds = {name: [np.zeros(1, np.int64)]}
    with pytest.raises(InputError, match="rows key disjoint trees"):
        HeteroLabor([2]).sample_bulk(graph, seeds, rows=seeds, seed=0)
    with pytest.raises(InputError, match="disjoint trees need rows"):
        HeteroLabor([2], disjoint=True).sample_bulk(graph, seeds, seed=0)
    with pytest.raises(InputError, match="no entry for relation"):
        HeteroLabor({graph.edge_types[0]: [2]}).sample_bulk(graph, seeds, seed=0)
