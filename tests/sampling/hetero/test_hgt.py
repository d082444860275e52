"""The sampler of the Heterogeneous Graph Transformer against a slow one, and against chances."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import HeteroLoader, InputError
from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.sampling import Hgt
from tests.sampling.helpers_hetero import (
    assert_same_samples,
    by_type,
    drawn_graph,
    drawn_seeds,
    random_graph,
)
from tests.sampling.hetero.reference_budgets import sample_by_budgets
from tests.sampling.hetero.reference_hgt import sample_hgt
from tests.some import some


def slowly(graph, rule, seeds, seed, epoch, first):
    batches = len(next(iter(seeds.values())))
    return [
        sample_hgt(
            graph, rule, {name: own[at] for name, own in seeds.items()}, seed, epoch, first + at
        )
        for at in range(batches)
    ]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_it_equals_a_slow_one(data):
    graph = drawn_graph(data)
    layers = data.draw(st.integers(1, 3))
    number = st.integers(-1, 6)
    if data.draw(st.booleans()):
        rule = Hgt([data.draw(number) for _ in range(layers)])
    else:
        rule = Hgt({name: [data.draw(number) for _ in range(layers)] for name in graph.node_types})
    dealt = drawn_seeds(data, graph, data.draw(st.integers(1, 4)))
    seeds = by_type(dealt, 1)
    seed, epoch, first = data.draw(
        st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 9), st.integers(0, 9))
    )
    got = rule.sample_bulk(graph, seeds, seed=seed, epoch=epoch, first_batch=first)
    assert_same_samples(got, slowly(graph, rule, seeds, seed, epoch, first))


@pytest.mark.parametrize("numbers", [[40, 30, 20], [300, 300], [-1, 5], [0, 9]])
@pytest.mark.parametrize("wide", [False, True])
def test_it_equals_numpy_where_rows_are_long(numbers, wide):
    graph = random_graph(8, 4, 9, most_nodes=900, most_edges=20_000, wide=wide)
    rng = np.random.default_rng(1)
    seeds = {
        name: [rng.integers(0, graph.nodes[name].num_nodes, size) for size in (30, 0, 7)]
        for name in ("item", "user")
        if name in graph.node_types
    }
    rule = Hgt(numbers)
    for epoch in range(3):  # tables are used again
        got = rule.sample_bulk(graph, seeds, seed=2**63 + 5, epoch=epoch, first_batch=4)
        expected = sample_by_budgets(graph, rule, seeds, 2**63 + 5, epoch, 4)
        assert_same_samples(got, expected)
        assert sum(len(one.edges[name].row) for one in got for name in graph.edge_types) > 0


def test_a_kernel_is_of_its_graph_and_rule():
    one, other = (random_graph(k, types=3, relations=6, most_nodes=90) for k in (3, 4))
    rule, seeds = Hgt([5, 5]), {"user": [np.arange(4)]}
    for graph in (one, other, one):
        got = rule.sample_bulk(graph, seeds, seed=1)
        assert_same_samples(got, sample_by_budgets(graph, rule, seeds, 1))


def test_bulk_and_threads_change_nothing():
    graph = random_graph(3, types=3, relations=6, most_nodes=300, most_edges=3000)
    rule = Hgt([7, 5])
    rng = np.random.default_rng(0)
    seeds = [rng.integers(0, graph.nodes["user"].num_nodes, 9) for _ in range(6)]
    whole = rule.sample_bulk(graph, {"user": seeds}, seed=4, epoch=2, first_batch=10, threads=1)
    again = rule.sample_bulk(graph, {"user": seeds}, seed=4, epoch=2, first_batch=10, threads=3)
    assert whole.digest == again.digest
    for at, one in enumerate(some(list(whole))):
        alone = rule.sample_bulk(graph, {"user": [seeds[at]]}, seed=4, epoch=2, first_batch=10 + at)
        assert_same_samples([one], alone)
    assert whole.digest != rule.sample_bulk(graph, {"user": seeds}, seed=4, epoch=3).digest


def star(degrees):
    """One target; source u also points to `degrees[u] - 1` other targets of its own relation."""
    sources = len(degrees)
    pairs = [(u, 0) for u in range(sources)]
    return HeteroGraph(
        {"hub": NodeTable.of(1), "leaf": NodeTable.of(sources)},
        {("leaf", "to", "hub"): Relation.of(np.array(pairs).T, sources, 1)},
    )


def test_chances_are_squared_budgets():
    """Sources 0, 1 and 2 have 1, 2 and 3 parallel edges into the seed: chances 1 : 4 : 9."""
    pairs = np.array([[0, 1, 1, 2, 2, 2], [0] * 6])
    graph = HeteroGraph(
        {"hub": NodeTable.of(1), "leaf": NodeTable.of(3)},
        {("leaf", "to", "hub"): Relation.of(pairs, 3, 1)},
    )
    batches = 14_000
    seeds = {"hub": [np.zeros(1, np.int64)] * batches}
    made = Hgt([1]).sample_bulk(graph, seeds, seed=5)
    counts = np.bincount([int(one.nodes["leaf"].node[0]) for one in made], minlength=3)
    expected = batches * np.array([1, 4, 9]) / 14
    assert counts.sum() == batches
    assert float(((counts - expected) ** 2 / expected).sum()) < 18.4  # 2 degrees, p = 0.0001


def test_degrees_normalise_budgets():
    """A seed of degree 4 gives each source 1/4, one of degree 1 gives its source 1: 1 : 16."""
    pairs = np.array([[0, 1, 2, 3, 4], [0, 0, 0, 0, 1]])
    graph = HeteroGraph(
        {"hub": NodeTable.of(2), "leaf": NodeTable.of(5)},
        {("leaf", "to", "hub"): Relation.of(pairs, 5, 2)},
    )
    batches = 10_000
    made = Hgt([1]).sample_bulk(graph, {"hub": [np.arange(2)] * batches}, seed=6)
    counts = np.bincount([int(one.nodes["leaf"].node[0]) for one in made], minlength=5)
    expected = batches * np.array([1, 1, 1, 1, 16]) / 20
    assert float(((counts - expected) ** 2 / expected).sum()) < 23.6  # 4 degrees, p = 0.0001


def test_all_reaches_what_a_search_reaches():
    graph = random_graph(8, types=3, relations=6)
    made = Hgt([-1, -1, -1]).sample_bulk(graph, {"user": [np.array([0])]}, seed=0)[0]
    reached = {name: set() for name in graph.node_types}
    reached["user"].add(0)
    for _ in range(3):
        new = {name: set(own) for name, own in reached.items()}
        for name in graph.edge_types:
            own = graph.relation(name)
            for v in reached[name[2]]:
                new[name[0]] |= set(own.indices[own.indptr[v] : own.indptr[v + 1]].tolist())
        reached = new
    assert {name: set(own.node.tolist()) for name, own in made.nodes.items()} == reached


def test_a_hub_is_looked_at_whole():
    """torch-sparse looks at 50 edges of a row, and names wrong edges; here all are there."""
    graph = star([1] * 400)
    made = Hgt([400]).sample_bulk(graph, {"hub": [np.array([0])]}, seed=0)[0]
    assert sorted(made.nodes["leaf"].node.tolist()) == list(range(400))
    edges = made.edges["leaf", "to", "hub"]
    relation = graph.relation(("leaf", "to", "hub"))
    assert np.array_equal(made.nodes["leaf"].node[edges.row], relation.indices[edges.edge])
    assert len(edges.edge) == 400


def test_no_seeds_and_no_edges():
    graph = HeteroGraph({"a": NodeTable.of(3), "b": NodeTable.of(0)}, {})
    made = Hgt([2]).sample_bulk(graph, {"a": [np.array([1]), np.empty(0, np.int64)]}, seed=0)
    assert [one.nodes["a"].node.tolist() for one in made] == [[1], []]
    assert all(not len(one.nodes["b"].node) for one in made)


def test_it_loads_and_resumes_exactly():
    graph = random_graph(3, types=3, relations=6, most_nodes=300, most_edges=3000)

    def loader():
        return HeteroLoader(
            graph, input_nodes="user", sampler=Hgt([6, 4]), batch_size=8, shuffle=True, seed=3
        )

    whole = [batch["user"].n_id.tolist() for batch in loader()]
    first = loader()
    loop = iter(first)
    seen = [next(loop)["user"].n_id.tolist() for _ in range(3)]
    state = first.state_dict()
    second = loader()
    second.load_state_dict(state)
    assert seen + [batch["user"].n_id.tolist() for batch in second] == whole
    other = HeteroLoader(
        graph, input_nodes="user", sampler=Hgt([6, 5]), batch_size=8, shuffle=True, seed=3
    )
    with pytest.raises(InputError, match="sampler"):
        other.load_state_dict(state)


def test_it_is_the_same_in_another_process(tmp_path):
    graph = random_graph(5, most_nodes=100, most_edges=900)
    rule, seeds = Hgt({name: [3, 3] for name in graph.node_types}), {"user": [np.arange(1)]}
    here = rule.sample_bulk(graph, seeds, seed=1).digest
    path = tmp_path / "all.pickle"
    path.write_bytes(pickle.dumps((rule, graph, seeds)))
    code = (
        f"import pickle; r, g, s = pickle.load(open({str(path)!r}, 'rb')); "
        "print(r.sample_bulk(g, s, seed=1).digest)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == here


@pytest.mark.parametrize(
    ("num_samples", "sentence"),
    [
        (5, "num_samples is a int, expected one number of nodes per layer"),
        ([], "num_samples is empty"),
        ({}, "num_samples is empty"),
        ([2, -2], "num_samples has -2 for layer 1"),
        ([2.5], "num_samples has 2.5 for layer 0"),
        ([True], "num_samples has True"),
        ({"user": [1], "item": [1, 2]}, "lists of 1 and 2 numbers"),
        ({"user": "ab"}, "num_samples of 'user' is a str"),
    ],
)
def test_numbers_that_are_no_counts(num_samples, sentence):
    with pytest.raises(InputError, match=sentence):
        Hgt(num_samples)


def test_types_that_do_not_fit():
    graph = random_graph(1, types=2)
    one = {"user": [np.array([0])]}
    with pytest.raises(InputError, match="no node type 'usr'; the nearest is 'user'"):
        Hgt({"usr": [1], "item": [1]}).sample_bulk(graph, one, seed=0)
    with pytest.raises(InputError, match="num_samples has no entry for node type 'item'"):
        Hgt({"user": [1]}).sample_bulk(graph, one, seed=0)
    with pytest.raises(InputError, match="seeds hold node 99"):
        Hgt([1]).sample_bulk(graph, {"user": [np.array([99])]}, seed=0)
    with pytest.raises(InputError, match="rows key disjoint trees"):
        Hgt([1]).sample_bulk(graph, one, seed=0, rows=one)
    with pytest.raises(InputError, match="times were given"):
        Hgt([1]).sample_bulk(graph, one, seed=0, times=one)
