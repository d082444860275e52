"""Neighbor by weight: the kernel, the matrix program and the slow reference give the same bits."""

import copy
import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregather import _core
from foregather.errors import InputError
from foregather.graph import Graph
from foregather.sampling import MatrixSampler, Neighbor
from tests.helpers_sampling import (
    assert_free_of_threads_and_bulks,
    assert_same,
    drawn_graph,
    skewed_graph,
)
from tests.sampling.reference_weighted import alias, weighted_bulk
from tests.sampling.test_bulk import GOLDEN, graph  # noqa: F401
from tests.some import some


def random_weights(seed, graph, spread=1.0, zeros=0.0):  # noqa: F811
    """Log-normal float32 weights; a share of them 0, but never a whole row."""
    rng = np.random.default_rng(seed)
    weights = np.exp(spread * rng.standard_normal(graph.num_edges)).astype(np.float32)
    weights[rng.random(graph.num_edges) < zeros] = 0
    first = graph.indptr[:-1][np.diff(graph.indptr) > 0]
    weights[first] = np.maximum(weights[first], 0.25)
    return weights


def rows_of(degree):
    """A node with `degree` in-neighbours."""
    pairs = np.stack([np.arange(degree), np.full(degree, degree // 2)])
    return Graph.from_edge_index(pairs, degree), [np.array([degree // 2])] * 3


@given(data=st.data())
def test_equals_the_reference(data):
    made = drawn_graph(data, 40, 400)
    nodes = made.num_nodes
    spread = data.draw(st.sampled_from([0, 1, 6]))
    weights = random_weights(1, made, spread, data.draw(st.sampled_from([0, 0.3])))
    fanouts = data.draw(st.lists(st.sampled_from([-1, 1, 2, 5, 40, 70]), min_size=1, max_size=3))
    replace, expand = data.draw(st.booleans()), data.draw(st.sampled_from(["once", "per-layer"]))
    ids = st.integers(0, nodes - 1)
    seeds = data.draw(st.lists(st.lists(ids, max_size=8), min_size=1, max_size=3))
    keys = {"seed": data.draw(st.integers(0, 2**64 - 1)), "epoch": data.draw(st.integers(0, 99))}
    keys["first_batch"] = data.draw(st.integers(0, 10**6))
    rule = Neighbor(fanouts, replace=replace, expand=expand, weights=weights)
    given_seeds = [np.array(part, np.int64) for part in seeds]
    got = rule.sample_bulk(made, given_seeds, **keys, threads=2)
    want = weighted_bulk(made, seeds, fanouts, weights.tolist(), replace, expand, **keys)
    assert_same(got, want)
    assert_same(MatrixSampler.sample_bulk(rule, made, given_seeds, **keys), want)


@pytest.mark.parametrize("spread", [1.0, 8.0])  # with 8, few entries have nearly all the weight
@pytest.mark.parametrize("degree", [2, 4, 5, 9, 16, 17, 32, 33, 64, 65, 200, 3000])
@pytest.mark.parametrize("fanout", [1, 4, 15, 31, 32, 33, 100, 199])
def test_rows_of_every_length(degree, fanout, spread):
    made, seeds = rows_of(degree)
    weights = random_weights(degree, made, spread)
    rule = Neighbor([fanout], weights=weights)
    got = rule.sample_bulk(made, seeds, seed=5)
    want = weighted_bulk(made, seeds, [fanout], weights.tolist(), False, "once", seed=5)
    assert_same(got, want)
    assert_same(MatrixSampler.sample_bulk(rule, made, seeds, seed=5), want)


@pytest.mark.parametrize("rows", [1, 16, 17, 23, 24, 25, 33, 49])
def test_frontiers_about_as_long_as_the_pipeline(rows):
    """What a row reads is prefetched 24 rows ahead, and ids are read 16 rows later."""
    made = skewed_graph(3, 80, 2000, skew=4)
    weights = random_weights(rows, made, 2.0)
    seeds = [np.random.default_rng(rows).permutation(80)[:rows]] * 2
    got = Neighbor([3, 2], weights=weights).sample_bulk(made, seeds, seed=5)
    want = weighted_bulk(made, seeds, [3, 2], weights.tolist(), False, "once", seed=5)
    assert_same(got, want)


def test_the_weights_of_the_graph_and_as_an_array_are_the_same():
    pairs = np.random.default_rng(3).integers(0, 50, (2, 900))
    made = Graph.from_edge_index(pairs, 50, edge_weight=np.random.default_rng(4).random(900))
    seeds = [np.arange(20)] * 2
    want = Neighbor([4, 3], weights=True).sample_bulk(made, seeds, seed=1)
    for values in (made.edge_weight, made.edge_weight.astype(np.float64) * 8):
        assert_same(Neighbor([4, 3], weights=values).sample_bulk(made, seeds, seed=1), want)
    for none in (None, False):
        uniform = Neighbor([4, 3], weights=none)
        assert uniform == Neighbor([4, 3])
        assert uniform.sample_bulk(made, seeds, seed=1).digest != want.digest


def test_torch_weights():
    torch = pytest.importorskip("torch")
    made = skewed_graph(5, 60, 900)
    weights = random_weights(2, made)
    rule = Neighbor([3], weights=torch.from_numpy(weights).requires_grad_())
    assert rule == Neighbor([3], weights=weights)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanout", [-1, 2, 5, 30])
def test_edges_of_weight_zero_are_never_picked(fanout, replace):
    made = skewed_graph(6, 80, 2000)
    weights = random_weights(7, made, 3, zeros=0.6)
    bulk = Neighbor([fanout] * 2, replace=replace, weights=weights).sample_bulk(
        made, [np.arange(80)] * 20, seed=0
    )
    for sample in bulk:
        assert (weights[sample.edge] > 0).all()
    positive = np.add.reduceat(weights > 0, made.indptr[:-1][np.diff(made.indptr) > 0])
    counts = np.bincount(bulk[0].col[: bulk[0].num_edges[0]], minlength=80)
    full = positive if fanout < 0 else np.minimum(positive, fanout)
    if not replace or fanout < 0:
        np.testing.assert_array_equal(counts[np.diff(made.indptr) > 0], full)


@pytest.mark.parametrize("degree", [24, 40])
def test_edges_of_weight_zero_are_not_picked_where_little_else_is_left(degree):
    edges = np.stack([np.arange(1, degree + 1), np.zeros(degree, np.int64)])
    weights = np.zeros(degree, np.float32)
    weights[[3, 7, 11, 19]] = 1e30, 1, 1, 1  # with the first gone, the others have next to nothing
    star = Graph.from_edge_index(edges, degree + 1, edge_weight=weights)
    bulk = Neighbor([3], weights=True).sample_bulk(star, [np.array([0])] * 50, seed=1)
    for sample in some(bulk):
        assert set(sample.node[1:]) <= {4, 8, 12, 20}
        assert 4 in sample.node


@pytest.mark.parametrize("expand", ["once", "per-layer"])
@pytest.mark.parametrize("replace", [False, True])
def test_threads_and_bulk_size_change_nothing(expand, replace):
    made = skewed_graph(1, 500, 9000, skew=3)
    weights = random_weights(3, made, 2)
    seeds = [np.random.default_rng(b).integers(0, 500, 40) for b in range(8)]
    rule = Neighbor([6, 4, 3], replace=replace, expand=expand, weights=weights)
    assert_free_of_threads_and_bulks(rule, made, seeds)


@pytest.mark.parametrize("expand", ["once", "per-layer"])
@pytest.mark.parametrize("replace", [False, True])
def test_golden_digests(graph, expand, replace):  # noqa: F811
    weights = 1 + (np.arange(graph.num_edges, dtype=np.float32) * 7919) % 64
    seeds = [np.arange(b, 3000, 97) for b in range(5)]
    rule = Neighbor([5, 4], replace=replace, expand=expand, weights=weights)
    bulk = rule.sample_bulk(graph, seeds, seed=11, epoch=3, first_batch=7)
    name = f"weighted {expand} {'with' if replace else 'without'} replacement"
    assert bulk.digest == json.loads(GOLDEN.read_text())[name]


@given(
    st.lists(st.floats(0, 1e30, allow_subnormal=False), min_size=1, max_size=200).filter(any),
)
def test_cells_hold_the_probabilities(weights):
    keep, other = np.empty(len(weights), np.uint32), np.empty(len(weights), np.uint32)
    _core.testing.alias_row(np.array(weights), keep, other)
    assert list(zip(keep.tolist(), other.tolist(), strict=True)) == alias(weights)
    got = [Fraction(0)] * len(weights)
    for i, (k, j) in enumerate(zip(keep.tolist(), other.tolist(), strict=True)):
        got[i] += Fraction(k, 2**32)
        got[j] += 1 - Fraction(k, 2**32)
    total = sum(map(Fraction, weights))
    for i, weight in enumerate(weights):
        want = Fraction(weight) * len(weights) / total  # in units of the mean
        assert abs(got[i] - want) < Fraction(len(weights) + 1, 2**32)
        assert weight > 0 or got[i] == 0


def test_samplers_with_weights_are_values():
    weights = np.array([1.0, 2.0])
    rule = Neighbor([2], weights=weights)
    same, other = Neighbor([2], weights=[1, 2]), Neighbor([2], weights=[2, 1])
    assert rule == same and hash(rule) == hash(same) and repr(rule) == repr(same)
    assert rule != other and repr(rule) != repr(other) and rule != Neighbor([2], weights=True)
    assert repr(Neighbor([2], weights=True)) != repr(Neighbor([2]))
    weights[0] = 9  # the sampler keeps what was given
    assert rule == same


def test_the_array_given_stays_the_callers():
    weights = np.ones(5, np.float32)  # of the dtype that is kept: nothing need be converted
    rule = Neighbor([2], weights=weights)
    weights[0] = 9
    assert rule == Neighbor([2], weights=np.ones(5))


def test_copies_begin_without_a_kernel():
    made = skewed_graph(1, 30, 200)
    rule = Neighbor([2], weights=random_weights(1, made))
    want = rule.sample_bulk(made, [np.arange(5)], seed=1)
    for other in (pickle.loads(pickle.dumps(rule)), copy.deepcopy(rule)):
        assert other == rule and other._kept is not rule._kept
        assert_same(other.sample_bulk(made, [np.arange(5)], seed=1), want)


PAIRS = np.array([[1, 2, 3, 0, 2], [0, 0, 0, 1, 1]])  # rows of nodes 0 and 1


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -2, 3, 1, 1], r"-2\.0+ at position 1 \(an edge into node 0\)"),
        ([1, 1, 1, np.nan, 1], r"nan at position 3 \(an edge into node 1\)"),
        ([1, 1, np.inf, 1, 1], "inf at position 2"),
        ([1, 1, 1e39, 1, 1], "inf at position 2"),
        ([1, 1, 1, 0, 0], "all 2 edges into node 1 are 0, so there is nothing to sample"),
        ([1, 1, 1, 1], "hold 4 numbers, but the graph has 5 edges"),
        ([1, 1, 1, 1, 1, 1], "hold 6 numbers, but the graph has 5 edges"),
        (True, "weights is True, but the graph has no edge_weight"),
    ],
)
def test_bad_weights(weights, message):
    made = Graph.from_edge_index(PAIRS, 4)
    rule = Neighbor([2], weights=weights)
    with pytest.raises(InputError, match=message):
        rule.sample_bulk(made, [np.array([0])], seed=0)
    with pytest.raises(InputError):  # and once more: nothing was kept
        rule.sample_bulk(made, [np.array([0])], seed=0)


@pytest.mark.parametrize("count", [4, 6])
def test_a_program_with_weights_of_another_graph(count):
    made = Graph.from_edge_index(PAIRS, 4)
    rule = Neighbor([2], weights=np.ones(count))
    with pytest.raises(InputError, match=f"hold {count} numbers, but the graph has 5 edges"):
        MatrixSampler.sample_bulk(rule, made, [np.array([0])], seed=0)


@pytest.mark.parametrize("weights", ["edge_weight", [[1.0, 2.0]], [True, False]])
def test_weights_of_a_wrong_kind(weights):
    with pytest.raises(InputError, match="expected one number per edge"):
        Neighbor([2], weights=weights)


def test_a_program_with_a_row_of_zeros():
    class Program(MatrixSampler):
        layer_sizes = (2,)

        def sample(self, p):
            return p.draw_rows(2, np.zeros(len(p.columns)))

    with pytest.raises(InputError, match="edges into node 1 are 0"):
        Program().sample_bulk(Graph.from_edge_index(PAIRS, 4), [np.array([1])], seed=0)
