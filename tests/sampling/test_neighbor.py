"""Neighbor: the fused kernel equals the slow reference, bit for bit, in every mode."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather.errors import InputError
from foregather.graph import Graph
from foregather.sampling.matrix import MatrixSampler
from foregather.sampling.neighbor import Neighbor
from tests.helpers_sampling import (
    assert_free_of_threads_and_bulks,
    assert_same,
    drawn_graph,
    skewed_graph,
)
from tests.sampling.reference import ReferenceNeighbor


@given(data=st.data())
def test_equals_the_reference(data):
    graph = drawn_graph(data, 60, 600)
    nodes = graph.num_nodes
    fanouts = data.draw(st.lists(st.sampled_from([-1, 1, 2, 5, 40, 70]), min_size=1, max_size=3))
    rule = {"replace": data.draw(st.booleans())}
    rule["expand"] = data.draw(st.sampled_from(["once", "per-layer"]))
    ids = st.integers(0, nodes - 1)
    seeds = data.draw(st.lists(st.lists(ids, max_size=12), min_size=1, max_size=4))
    seeds = [np.array(ids, np.int64) for ids in seeds]
    keys = {"seed": data.draw(st.integers(0, 2**64 - 1)), "epoch": data.draw(st.integers(0, 99))}
    keys["first_batch"] = data.draw(st.integers(0, 10**6))
    got = Neighbor(fanouts, **rule).sample_bulk(graph, seeds, **keys, threads=2)
    want = ReferenceNeighbor(tuple(fanouts), **rule).sample_bulk(graph, seeds, **keys)
    assert_same(got, want)


@dataclass(frozen=True)
class Program(MatrixSampler):
    """Neighbor as the generic matrix program: P = Q·A, picks in each row, extraction."""

    layer_sizes: tuple[int, ...] = ()
    replace: bool = False
    expand: str = "once"

    def sample(self, p):
        size = self.layer_sizes[p.layer]
        return p.sample_rows(size, replace=self.replace and size >= 0)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("expand", ["once", "per-layer"])
@pytest.mark.parametrize("fanouts", [(5, 3), (40, 70, 2), (-1, 4)])
def test_fused_equals_the_matrix_program(fanouts, expand, replace):
    graph = skewed_graph(7, 400, 12_000, skew=3)
    seeds = [np.random.default_rng(b).integers(0, 400, 9) for b in range(6)]
    fused = Neighbor(fanouts, replace=replace, expand=expand)
    keys = {"seed": 4, "epoch": 1, "first_batch": 2}
    got = fused.sample_bulk(graph, seeds, **keys)
    assert_same(Program(fanouts, replace, expand).sample_bulk(graph, seeds, **keys), got)


@pytest.mark.parametrize("degree", [33, 64, 65, 200, 5000])
@pytest.mark.parametrize("fanout", [1, 15, 31, 32, 33, 64, 100, 199])
def test_long_rows(degree, fanout):
    pairs = np.stack([np.arange(degree), np.full(degree, degree // 2)])
    graph = Graph.from_edge_index(pairs, degree)
    seeds = [np.array([degree // 2])] * 3
    got = Neighbor([fanout]).sample_bulk(graph, seeds, seed=5)
    assert_same(got, ReferenceNeighbor((fanout,)).sample_bulk(graph, seeds, seed=5))


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 24, 25, 31, 32, 33, 49])
@pytest.mark.parametrize("fanout", [1, 3, -1])
def test_frontiers_about_as_long_as_the_pipeline(rows, fanout):
    """Its stages are 16 rows apart, so short frontiers end before the last stage has begun."""
    graph = skewed_graph(3, 80, 300, skew=4)
    assert (np.diff(graph.indptr) == 0).any()  # rows without an edge are in between
    seeds = [np.random.default_rng(rows).permutation(80)[:rows]] * 2
    got = Neighbor([fanout, 2]).sample_bulk(graph, seeds, seed=5)
    assert_same(got, ReferenceNeighbor((fanout, 2)).sample_bulk(graph, seeds, seed=5))


@pytest.mark.parametrize("expand", ["once", "per-layer"])
def test_threads_and_bulk_size_change_nothing(expand):
    graph = skewed_graph(1, 500, 6000)
    seeds = [np.random.default_rng(b).integers(0, 500, 40) for b in range(8)]
    rule = Neighbor([6, 4, 3], expand=expand)
    assert_free_of_threads_and_bulks(rule, graph, seeds)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_minibatch_is_the_same_by_a_team(weighted, wide):
    """Few and large minibatches on many threads, each of which makes a part of them."""
    graph = skewed_graph(4, 20_000, 300_000, wide=wide)
    weights = np.random.default_rng(0).random(300_000, np.float32) if weighted else None
    rule = Neighbor([15, 10, 5], weights=weights)
    seeds = [np.random.default_rng(b).integers(0, 20_000, 1200) for b in range(3)]
    want = list(rule.sample_bulk(graph, seeds, seed=3, threads=1))
    assert min(sample.num_edges[1] for sample in want) > 50_000
    for threads, count in ((2, 1), (3, 1), (8, 1), (8, 3)):
        got = rule.sample_bulk(graph, seeds[:count], seed=3, threads=threads)
        assert_same(got, want[:count])


def test_results_outlive_the_next_bulk():
    graph = skewed_graph(2, 200, 3000)
    rule = Neighbor([5, 5])
    seeds = [np.arange(20)] * 4
    first = rule.sample_bulk(graph, seeds, seed=0)
    copies = [{name: np.copy(getattr(s, name)) for name in ("node", "row", "edge")} for s in first]
    for epoch in range(5):
        rule.sample_bulk(graph, seeds, seed=0, epoch=epoch)
    for sample, copy in zip(first, copies, strict=True):
        for name, values in copy.items():
            np.testing.assert_array_equal(getattr(sample, name), values)
    with pytest.raises(ValueError, match="read-only"):
        first[0].node[0] = 1


def test_more_ticks_than_the_table_has():
    graph = skewed_graph(3, 50, 400)
    rule, oracle = Neighbor([3, 2]), ReferenceNeighbor((3, 2))
    seeds = [np.array([b % 50, 7]) for b in range(1100)]  # ticks wrap after 1023
    bulk = rule.sample_bulk(graph, seeds, seed=1, threads=1)
    for at in (0, 1022, 1023, 1024, 1099):
        want = oracle.sample_bulk(graph, [seeds[at]], seed=1, first_batch=at)
        assert_same([bulk[at]], want)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_neighbors": []}, "num_neighbors is empty"),
        ({"num_neighbors": [5, 0]}, "has 0 for layer 1"),
        ({"num_neighbors": [-2]}, "has -2 for layer 0"),
        ({"num_neighbors": [2.5]}, "has 2.5 for layer 0"),
        ({"num_neighbors": [3], "expand": "twice"}, "expand is 'twice'"),
    ],
)
def test_bad_rules(options, message):
    with pytest.raises(InputError, match=message):
        Neighbor(**options)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([10], "seed 0 is node 10, but the graph has 10 nodes"),
        ([0, -1], "seed 1 is node -1"),
        ([0.5], "expected a list of node ids"),
        ([[1]], "expected a list of node ids"),
    ],
)
def test_bad_seeds(seeds, message):
    graph = skewed_graph(0, 10, 30)
    rule = Neighbor([2])
    with pytest.raises(InputError, match=message):
        rule.sample_bulk(graph, [np.array(seeds)], seed=0)
    assert len(rule.sample_bulk(graph, [np.array([1])], seed=0)) == 1  # and it still works
