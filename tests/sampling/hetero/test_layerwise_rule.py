"""HeteroLadies and HeteroFastGCN: the matrix program, the plain samplers, and unbiased sums."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph, InputError
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.sampling import FastGCN, HeteroFastGCN, HeteroLadies, Ladies
from tests.helpers_sampling import drawn_graph as plain_graph
from tests.sampling.helpers_hetero import (
    assert_same_samples,
    drawn_graph,
    drawn_seeds,
    random_graph,
    sample_all,
)
from tests.sampling.hetero.reference_rules import sample_layerwise
from tests.some import some

BOTH = pytest.mark.parametrize("kind", [HeteroLadies, HeteroFastGCN])
DEBIAS = st.sampled_from(["exact", "reference", None])
SIZE = st.sampled_from([-1, 0, 1, 2, 5, 30])


@BOTH
@settings(max_examples=50)
@given(data=st.data())
def test_equals_the_matrix_program(kind, data):
    graph, layers = drawn_graph(data), data.draw(st.integers(1, 3))
    numbers = st.lists(SIZE, min_size=layers, max_size=layers)
    sizes = data.draw(numbers)
    if data.draw(st.booleans()):
        sizes = {name: data.draw(numbers) for name in graph.edge_types}
    rule = kind(sizes, data.draw(DEBIAS))
    dealt = drawn_seeds(data, graph, data.draw(st.integers(1, 3)))
    keys = {"seed": data.draw(st.integers(0, 2**64 - 1)), "epoch": 3, "first_batch": 7}
    want = [
        sample_layerwise(graph, rule, batch, keys["seed"], 3, number)
        for number, batch in enumerate(dealt, 7)
    ]
    got = sample_all(rule, graph, dealt, threads=data.draw(st.integers(1, 3)), **keys)
    assert_same_samples(got, want)


@pytest.mark.parametrize(("kind", "plain_kind"), [(HeteroLadies, Ladies), (HeteroFastGCN, FastGCN)])
@settings(max_examples=40)
@given(data=st.data())
def test_one_type_is_the_plain_sampler(kind, plain_kind, data):
    plain = plain_graph(data, 60, 900)
    if data.draw(st.booleans()):
        weights = np.random.default_rng(1).random(plain.num_edges).astype(np.float32)
        arrays = (plain.indptr, plain.indices)
        plain = Graph(plain.num_nodes, plain.num_edges, *arrays, edge_weight=weights)
    relation = Relation(plain.indptr, plain.indices, weights=plain.edge_weight)
    graph = HeteroGraph({"node": NodeTable(plain.num_nodes)}, {("node", "to", "node"): relation})
    sizes = data.draw(st.lists(st.sampled_from([-1, 1, 3, 20]), min_size=1, max_size=3))
    debias = data.draw(DEBIAS)
    ids = st.lists(st.integers(0, plain.num_nodes - 1), max_size=9)
    seeds = [np.array(one, np.int64) for one in data.draw(st.lists(ids, min_size=1, max_size=4))]
    keys = {"seed": data.draw(st.integers(0, 2**64 - 1)), "epoch": 3, "first_batch": 5}
    want = plain_kind(sizes, debias).sample_bulk(plain, seeds, **keys)
    got = kind(sizes, debias).sample_bulk(graph, {"node": seeds}, **keys)
    for one, typed in some(zip(want, got, strict=True)):
        nodes, edges = typed.nodes["node"], typed.edges["node", "to", "node"]
        for name in ("node", "seed_position"):
            np.testing.assert_array_equal(getattr(one, name), getattr(nodes, name), name)
        for name in ("row", "col", "edge", "weight"):
            np.testing.assert_array_equal(getattr(one, name), getattr(edges, name), name)
        assert (one.num_nodes, one.num_edges) == (nodes.num_nodes, edges.num_edges)
        assert one.expand == typed.expand == "per-layer"


@BOTH
def test_threads_and_bulks_change_nothing(kind, tmp_path):
    graph, rng = random_graph(5, 4, 7, 400, 6000), np.random.default_rng(0)
    name = graph.edge_types[0][2]
    seeds = [rng.integers(0, graph.nodes[name].num_nodes, 50) for _ in range(6)]
    rule = kind([40, 30])
    want = rule.sample_bulk(graph, {name: seeds}, seed=4, threads=1)
    assert sum(len(edges.row) for sample in want for edges in sample.edges.values()) > 1000
    for threads in (2, 3):
        assert rule.sample_bulk(graph, {name: seeds}, seed=4, threads=threads).digest == want.digest
    for first in range(6):
        part = {name: seeds[first : first + 1]}
        one = rule.sample_bulk(graph, part, seed=4, first_batch=first, threads=2)
        assert_same_samples(one, want.samples[first : first + 1])
    want.save(tmp_path / "bulk.npz")
    assert_same_samples(type(want).load(tmp_path / "bulk.npz"), want)


@BOTH
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_weights_are_unbiased(kind, weighted):
    """Two layers through two relations between three types: the sum over all paths."""
    rng, trials = np.random.default_rng(8), 4000
    ends = {("b", "to", "a"): (30, 12, 200), ("c", "to", "b"): (40, 30, 300)}
    links, dense = {}, {}
    for link, (sources, targets, count) in ends.items():
        pairs = np.stack([rng.integers(0, sources, count), rng.integers(0, targets, count)])
        weights = rng.random(count) if weighted else None
        links[link] = Relation.of(pairs, sources, targets, weights=weights)
        values = weights
        if values is None:
            values = 1 / np.bincount(pairs[1], minlength=targets)[pairs[1]]
        matrix = np.zeros((targets, sources))
        np.add.at(matrix, (pairs[1], pairs[0]), values)
        dense[link] = matrix
    graph = HeteroGraph(
        {name: NodeTable(n) for name, n in zip("abc", (12, 30, 40), strict=True)}, links
    )
    h = rng.normal(size=40) + 1
    (outer, inner), truth = links, dense["b", "to", "a"] @ dense["c", "to", "b"] @ h
    made = []
    for sample in kind([8, 10]).sample_bulk(graph, {"a": [np.arange(12)] * trials}, seed=17):
        x = h[sample.nodes["c"].node]
        for link, known in ((inner, sample.nodes["b"].num_nodes[1]), (outer, 12)):
            edges = sample.edges[link]
            own = (
                slice(sum(edges.num_edges[:1]), None)
                if link is inner
                else slice(0, edges.num_edges[0])
            )
            weighed = edges.weight[own] * x[edges.row[own]]
            x = np.bincount(edges.col[own], weighed, known)
        made.append(x)
    found = np.array(made)
    scores = (found.mean(0) - truth) / (found.std(0) / math.sqrt(trials))
    assert np.abs(scores).max() < 4.5
    assert (found.std(0) > 0.02 * np.abs(truth)).all()  # the bound above means something


@BOTH
def test_all_columns_are_all_edges(kind):
    graph = random_graph(7, 3, 5)
    name = graph.edge_types[0][2]
    sample = kind([-1]).sample_bulk(
        graph, {name: [np.arange(graph.nodes[name].num_nodes)]}, seed=0
    )[0]
    for link in some(one for one in graph.edge_types if one[2] == name):
        relation, weight = graph.edges[link], sample.edges[link].weight
        there = np.ones(relation.num_edges, bool)
        if relation.weights is not None:  # what has no weight in the sum is never chosen
            squares = np.bincount(relation.indices, relation.weights.astype(np.float64) ** 2)
            there = squares[relation.indices] > 0
        assert sample.edges[link].edge.tolist() == np.flatnonzero(there).tolist()
        if relation.weights is not None:
            assert np.array_equal(weight, relation.weights[there])


@BOTH
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer_sizes": []}, "layer_sizes is empty"),
        ({"layer_sizes": [-2]}, "layer_sizes has -2 for layer 0, expected a number of nodes"),
        ({"layer_sizes": 5}, "layer_sizes is a int"),
        ({"layer_sizes": [5], "debias": 1}, "debias is 1, expected"),
        ({"layer_sizes": [5], "disjoint": True}, "cannot have a tree or a time of its own"),
        ({"layer_sizes": [5], "time": "edge"}, "time is 'edge', but"),
    ],
)
def test_samplers_that_cannot_be(kind, options, message):
    with pytest.raises(InputError, match=message):
        kind(**options)


@BOTH
def test_what_cannot_be_sampled(kind):
    graph = random_graph(3)
    name = graph.edge_types[0][2]
    seeds = {name: [np.zeros(1, np.int64)]}
    with pytest.raises(InputError, match="the sampler has no time"):
        kind([2]).sample_bulk(graph, seeds, times=seeds, seed=0)
    with pytest.raises(InputError, match="ids are 0 to N-1"):
        kind([2]).sample_bulk(graph, {name: [np.array([10**6])]}, seed=0)
    relation = Relation.of([[0, 1], [0, 0]], 2, 1, weights=np.array([1.0, 2.0]))
    object.__setattr__(relation, "weights", np.array([1.0, np.inf], np.float32))
    broken = HeteroGraph({"a": NodeTable(2), "b": NodeTable(1)}, {("a", "to", "b"): relation})
    with pytest.raises(InputError, match="not finite"):
        kind([1]).sample_bulk(broken, {"b": [np.zeros(1, np.int64)]}, seed=0)
