"""Ladies and FastGCN: the kernel equals the matrix program, and estimates are unbiased."""

import dataclasses
import gc
import itertools
import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph, InputError, _core
from foregather.sampling import FastGCN, Ladies, MatrixSampler
from foregather.sampling import layerwise as module
from tests.helpers_sampling import (
    GOLDEN,
    check_sample,
    derive,
    exponential,
    graphs,
    layer_key,
    layer_spans,
    mix64,
    random_graph,
    same_sample,
)

BOTH = pytest.mark.parametrize("kind", [Ladies, FastGCN])
sizes = st.lists(st.sampled_from([-1, 1, 2, 3, 5, 100]), min_size=1, max_size=3).map(tuple)
debias = st.sampled_from(["exact", "reference", None])


def matrix_of(graph):
    """A with a row for each target, as a dense array."""
    value = graph.edge_weight
    if value is None:
        degree = graph.in_degree()
        value = np.repeat(1 / np.maximum(degree, 1), degree)
    shape = (graph.num_nodes, graph.num_nodes)
    made = scipy.sparse.csr_matrix(
        (np.asarray(value, np.float64), graph.indices.astype(np.int64), graph.indptr), shape
    )
    return made.toarray(), value.astype(np.float64)


# ---- one result, three ways ----------------------------------------------------------------------


@settings(max_examples=60)
@given(graphs, sizes, debias, st.sampled_from([Ladies, FastGCN]), st.integers(0, 99))
def test_kernel_is_the_matrix_program(graph, layer_sizes, how, kind, seed):
    rng = np.random.default_rng(seed)
    seeds = [rng.integers(0, graph.num_nodes, n) for n in (5, 0, 1)]
    sampler = kind(layer_sizes, how)
    fused = sampler.sample_bulk(graph, seeds, seed=seed, first_batch=2)
    generic = MatrixSampler.sample_bulk(sampler, graph, seeds, seed=seed, first_batch=2)
    assert all(map(same_sample, fused, generic))
    for sample, given_seeds in zip(fused, seeds, strict=True):
        check_sample(graph, sample, given_seeds)


def oracle_layer(size, key, squares):
    """Chosen columns of one layer and tau, by sorting all keys; p as plain floating point."""
    keys = {
        v: exponential(derive(derive(key, v), 0)) / squares[v]
        for v in np.flatnonzero(squares).tolist()
    }
    order = sorted(keys, key=lambda v: keys[v])
    tau = keys[order[size]] if len(order) > size else math.inf
    return set(order[:size]), tau


def below(key, counter, limit):
    """A whole number below `limit`, as 64-bit multiply-shift with rejection gives it."""
    bits = derive(key, counter)
    while (bits * limit) % 2**64 < (2**64 - limit) % limit:
        bits = mix64((bits + GOLDEN) % 2**64)
    return bits * limit >> 64


def oracle_arrivals(size, key, p):
    """The first `size` to arrive and when the next one comes; p as whole units of its sum."""
    exponent = 61 - math.frexp(sum(p))[1]
    units = [max(1, int(w * 2.0**exponent + 0.5)) if w > 0 else 0 for w in p]
    upto, total = np.cumsum(np.array(units, object)), sum(units)
    stream, time, met = derive(key, 2**64 - 1), 0.0, []
    for i in range(8 * (size + 8)):
        time += exponential(derive(stream, 2 * i)) / (total * 2.0**-exponent)
        unit = below(stream, 2 * i + 1, total)
        v = next(v for v, end in enumerate(upto) if unit < end)
        if v not in met and len(met) == size:
            return set(met), time
        met += [] if v in met else [v]
    rest = [v for v in range(len(p)) if p[v] > 0 and v not in met]
    again = derive(key, 2**64 - 2)
    keys = {v: exponential(derive(derive(again, v), 0)) / p[v] for v in rest}
    order = sorted(keys, key=lambda v: keys[v])
    left = size - len(met)
    return set(met + order[:left]), time + keys[order[left]]


@pytest.mark.parametrize("heavy", [1.0, 30.0, 1e9])
def test_arrivals_by_the_definition(heavy):
    """With a node that holds nearly all the weight, the process is cut off."""
    rng = np.random.default_rng(3)
    p = np.where(rng.random(40) < 0.2, 0, rng.random(40))
    p[7] = heavy
    positive = int((p > 0).sum())
    for size in (1, 5, positive - 1):
        keys = np.array([layer_key(5, 6, b, 0) for b in range(6)], np.uint64)
        ptr = np.arange(7) * size
        picks, tau = np.empty(6 * size, np.int64), np.empty(6)
        none = np.empty(0, np.uint32)
        _core.sample_columns(np.array([0, 40]), none, p, keys, size, ptr, picks, tau)
        for b in range(6):
            chosen, then = oracle_arrivals(size, int(keys[b]), p.tolist())
            assert set(picks[b * size : (b + 1) * size].tolist()) == chosen
            assert tau[b] == pytest.approx(then, rel=1e-12)


def test_arrivals_are_a_weighted_draw_without_replacement():
    """Pairs of 5 nodes, one of them so heavy that the cut-off is common, by chi-square."""
    p, trials = np.array([1e4, 1.0, 2.0, 0.0, 4.0]), 20_000
    keys = np.array([derive(9, b) for b in range(trials)], np.uint64)
    picks, tau = np.empty(3 * trials, np.int64), np.empty(trials)
    none, ptr = np.empty(0, np.uint32), np.arange(trials + 1) * 3
    _core.sample_columns(np.array([0, 5]), none, p, keys, 3, ptr, picks, tau)
    missing = 7 - picks.reshape(-1, 3).sum(1)  # ids 0, 1, 2, 4 sum to 7
    chance = {}
    for order in itertools.permutations([0, 1, 2, 4]):
        left, q = p.sum(), 1.0
        for v in order[:3]:
            q *= p[v] / left
            left -= p[v]
        chance[order[3]] = chance.get(order[3], 0) + q
    seen = {v: int((missing == v).sum()) for v in chance}
    assert sum(seen.values()) == trials
    expected = {v: q * trials for v, q in chance.items() if q * trials > 5}
    chi = sum((seen[v] - n) ** 2 / n for v, n in expected.items())
    assert len(expected) == 3
    assert chi < 13.8  # 2 degrees of freedom, one in a thousand


@BOTH
@pytest.mark.parametrize("weighted", [False, True])
def test_layers_by_the_definition(kind, weighted):
    graph = random_graph(60, 400, 5, weighted)
    _, value = matrix_of(graph)
    row = np.repeat(np.arange(60), graph.in_degree())
    sample = kind((6, 9)).sample_bulk(graph, [np.array([7, 3, 30])], seed=11, epoch=4)[0]
    for layer, (begin, end) in enumerate(layer_spans(sample)):
        targets = sample.node[: sample.num_nodes[layer]].astype(np.int64)
        rows = np.isin(row, targets) if kind is Ladies else np.ones(len(row), bool)
        squares = np.bincount(graph.indices[rows], value[rows] ** 2, 60)
        key = layer_key(11, 4, 0, layer)
        if kind is Ladies:
            chosen, tau = oracle_layer((6, 9)[layer], key, squares)
        else:  # bit for bit: whether a draw is rejected hangs on the last bits of the sum
            p = FastGCN((1,)).column_weights(graph).weights
            assert np.allclose(p, squares, rtol=1e-12)
            chosen, tau = oracle_arrivals((6, 9)[layer], key, p.tolist())
        expected = [
            (e, value[e] / -math.expm1(-squares[graph.indices[e]] * tau))
            for t in targets
            for e in range(graph.indptr[t], graph.indptr[t + 1])
            if int(graph.indices[e]) in chosen
        ]
        assert sample.edge[begin:end].tolist() == [e for e, _ in expected]
        assert np.allclose(sample.weight[begin:end], [w for _, w in expected], rtol=1e-6)


@BOTH
def test_reference_rows_sum_to_one(kind):
    graph = random_graph(60, 600, 5)
    sample = kind((20,), "reference").sample_bulk(graph, [np.arange(10)], seed=1)[0]
    sums = np.bincount(sample.col, sample.weight, 10)
    assert np.allclose(sums[sums > 0], 1)
    assert (sums > 0).any()


# ---- unbiased estimates --------------------------------------------------------------------------


def estimates(sampler, graph, seeds, h, trials, program=None):
    """Sum over the sampled layers of `trials` minibatches with the same seeds, [trials, seeds]."""
    make = program or type(sampler).sample_bulk
    made = []
    for sample in make(sampler, graph, [seeds] * trials, seed=17):
        x = h[sample.node]
        for layer, (begin, end) in reversed(list(enumerate(layer_spans(sample)))):
            own = slice(begin, end)
            x = np.bincount(
                sample.col[own],
                sample.weight[own] * x[sample.row[own]],
                sample.num_nodes[layer],
            )
        made.append(x)
    return np.array(made)


def z_scores(made, truth):
    return (made.mean(0) - truth) / (made.std(0) / math.sqrt(len(made)))


@BOTH
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_weights_are_unbiased(kind, weighted):
    graph = random_graph(50, 400, 8, weighted)
    a, _ = matrix_of(graph)
    h, seeds = np.random.default_rng(1).normal(size=50) + 1, np.arange(12)
    one = estimates(kind((20,)), graph, seeds, h, 4000)
    assert np.abs(z_scores(one, (a @ h)[:12])).max() < 4
    two = estimates(kind((8, 10)), graph, seeds, h, 4000)
    assert np.abs(z_scores(two, (a @ a @ h)[:12])).max() < 4


class Unnormalised(Ladies):
    """Reference weights before the rows are normalised."""

    __slots__ = ()

    def extract(self, p, picks):
        return MatrixSampler.extract(self, p, picks)


def test_reference_weights_are_biased():
    graph = random_graph(50, 400, 8)
    a, _ = matrix_of(graph)
    h, seeds = np.random.default_rng(1).normal(size=50) + 1, np.arange(12)
    made = estimates(
        Unnormalised((20,), "reference"), graph, seeds, h, 4000, MatrixSampler.sample_bulk
    )
    assert np.abs(z_scores(made, (a @ h)[:12])).max() > 10


@BOTH
def test_all_columns_give_the_exact_sum(kind):
    graph = random_graph(50, 400, 8, weighted=True)
    a, _ = matrix_of(graph)
    h = np.random.default_rng(1).normal(size=50)
    for size in (-1, 50, 1000):
        made = estimates(kind((size, size)), graph, np.arange(12), h, 2)
        assert np.allclose(made, (a @ a @ h)[:12], atol=1e-5)


# ---- a pure function -----------------------------------------------------------------------------


@BOTH
def test_threads_and_bulks_do_not_change_samples(kind):
    graph = random_graph(300, 6000, 4)
    sampler = kind((40, 60), "reference")
    seeds = [np.arange(5 * b, 5 * b + 20) for b in range(8)]
    whole = sampler.sample_bulk(graph, seeds, seed=1, epoch=2, first_batch=10, threads=1)
    for threads in (2, 8):
        other = sampler.sample_bulk(graph, seeds, seed=1, epoch=2, first_batch=10, threads=threads)
        assert all(map(same_sample, whole, other))
    for size in (1, 3):
        for first in range(0, 8, size):
            part = sampler.sample_bulk(
                graph, seeds[first : first + size], seed=1, epoch=2, first_batch=10 + first
            )
            assert all(map(same_sample, list(whole)[first : first + size], part))


@BOTH
def test_seed_epoch_batch_and_layer_change_samples(kind):
    graph = random_graph(300, 6000, 4)
    sampler, same = kind((10, 10)), [np.arange(300)] * 2
    bulk = sampler.sample_bulk(graph, same, seed=1)
    assert not np.array_equal(bulk[0].edge, bulk[1].edge)
    for change in ({"seed": 2}, {"seed": 1, "epoch": 1}, {"seed": 1, "first_batch": 2}):
        assert not np.array_equal(sampler.sample_bulk(graph, same, **change)[0].edge, bulk[0].edge)
    (first, second) = [set(bulk[0].edge[b:e].tolist()) for b, e in layer_spans(bulk[0])]
    assert first != second  # the same targets, other columns


def test_global_weights_are_kept_with_the_graph_only():
    graph = random_graph(30, 200, 3)
    other = random_graph(30, 200, 3)
    before = len(module._SQUARES)
    first = FastGCN((3,)).column_weights(graph)
    assert FastGCN((5,)).column_weights(graph) is first
    assert FastGCN((3,)).column_weights(other) is not first
    assert np.array_equal(FastGCN((3,)).column_weights(other).weights, first.weights)
    assert len(module._SQUARES) == before + 2
    del graph, other
    gc.collect()
    assert len(module._SQUARES) == before


# ---- corner cases --------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("how", ["exact", "reference", None])
def test_corner_cases(kind, how):
    sampler = kind((4, 4), how)
    lonely = Graph.from_edge_index(np.empty((2, 0), np.int64), 3)
    sample = sampler.sample_bulk(lonely, [np.array([2, 2, 0])], seed=0)[0]
    assert sample.node.tolist() == [2, 0]
    assert sample.num_nodes == (2, 2, 2)
    assert sample.num_edges == (0, 0)
    assert sample.seed_position.tolist() == [0, 0, 1]
    loop = Graph.from_edge_index(np.array([[0], [0]]), 1)
    sample = sampler.sample_bulk(loop, [np.array([0])], seed=0)[0]
    assert sample.num_nodes == (1, 1, 1)
    assert sample.row.tolist() == sample.col.tolist() == [0, 0]
    assert (sample.weight is None) == (how is None)
    assert how is None or sample.weight.tolist() == [1, 1]
    assert len(sampler.sample_bulk(loop, [], seed=0)) == 0
    zero = Graph.from_edge_index(np.array([[0, 1], [1, 0]]), 2, edge_weight=np.zeros(2))
    assert sampler.sample_bulk(zero, [np.array([0])], seed=0)[0].num_edges == (0, 0)


@BOTH
def test_bad_options_are_refused(kind):
    for options, message in (
        (((),), "expected one whole number for each layer"),
        (((1.5,),), "expected one whole number for each layer"),
        (((4, 0),), "expected numbers of at least 1"),
        (((4, -2),), "expected numbers of at least 1"),
        (((4,), "exactly"), 'expected "exact", "reference" or None'),
    ):
        with pytest.raises(InputError, match=message):
            kind(*options)
    graph = random_graph(30, 200, 3)
    with pytest.raises(InputError, match="seeds hold node 30, but the graph has 30 nodes"):
        kind((3,)).sample_bulk(graph, [np.array([30])], seed=0)
    weight = np.full(200, np.inf, np.float32)
    broken = dataclasses.replace(graph, edge_weight=weight, edge_ids=None)
    with pytest.raises(InputError, match="not finite"):
        kind((3,)).sample_bulk(broken, [np.arange(30)], seed=0)


def test_samplers_are_values():
    assert Ladies((3, 4)) == Ladies([3, 4], "exact")
    assert hash(FastGCN(5)) == hash(FastGCN((5,)))
    assert Ladies((3, 4)).num_layers == 2
    assert Ladies((3,)).expand == "per-layer"
