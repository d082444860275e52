"""Matrix operations against SciPy and plain Python, and the generic program."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import Graph, InputError, _core
from foregather.sampling import Columns, MatrixSampler, Picks
from tests.helpers_sampling import (
    check_sample,
    derive,
    exponential,
    graphs,
    random_graph,
    rows_of,
    same_sample,
)
from tests.sampling.reference import choose

few = settings(max_examples=40)
P = (0.4, 0.25, 0.15, 0.1, 0.06, 0.04)
INCLUSION = (0.8727, 0.7447, 0.5558, 0.4007, 0.2533, 0.1728)


def frontiers(graph, seed, batches=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, min(graph.num_nodes, 9) + 1, batches)
    return [rng.permutation(graph.num_nodes)[:size] for size in sizes]


# ---- operations ----------------------------------------------------------------------------------


@few
@given(graphs, st.integers(0, 99))
def test_rows_are_those_of_the_matrix(graph, seed):
    batches = frontiers(graph, seed)
    p = rows_of(graph, batches)
    ones = np.ones(graph.num_edges)
    a = scipy.sparse.csr_matrix((ones, graph.indices, graph.indptr), [graph.num_nodes] * 2)
    made = scipy.sparse.csr_matrix(
        (np.ones(len(p.columns)), p.columns, p.ptr), (len(p.rows), graph.num_nodes)
    )
    assert (a[np.concatenate(batches).astype(np.int64)] != made).nnz == 0
    assert np.array_equal(graph.indices[p.edge], p.columns)
    assert np.array_equal(np.searchsorted(graph.indptr, p.edge, "right") - 1, p.targets)
    sizes = [sum(graph.in_degree()[ids]) for ids in batches]
    assert np.array_equal(np.bincount(p.batch, minlength=3), sizes)
    if graph.edge_weight is None:
        degree = graph.in_degree()[p.rows]
        assert np.allclose(np.bincount(p.row, p.values, len(p.rows)), degree > 0)
    assert p.tensor("columns").tolist() == p.columns.tolist()


@few
@given(graphs, st.integers(0, 99))
def test_sums_of_columns(graph, seed):
    p = rows_of(graph, frontiers(graph, seed))
    values = np.random.default_rng(seed).random(len(p.columns)) * 10.0 ** (seed % 40 - 20)
    sums = p.sum_columns(values)
    for b in range(3):
        own = p.batch == b
        expected = np.bincount(p.columns[own].astype(np.int64), values[own], graph.num_nodes)
        ids = sums.ids[sums.ptr[b] : sums.ptr[b + 1]]
        assert np.array_equal(ids, np.unique(p.columns[own]))
        assert np.allclose(sums.weights[sums.ptr[b] : sums.ptr[b + 1]], expected[ids], rtol=1e-9)
        assert np.isclose(sums.total[b], expected.sum())


def test_sums_do_not_depend_on_the_order_of_rows():
    graph = random_graph(30, 300, 1, weighted=True)
    ids = np.arange(20)
    first = rows_of(graph, [ids])
    second = rows_of(graph, [ids[::-1]])
    a, b = first.sum_columns(first.values), second.sum_columns(second.values)
    assert np.array_equal(a.weights, b.weights)
    assert np.array_equal(a.total, b.total)


def oracle_row_keys(p, weights):
    """The key of every entry, as the header defines it."""
    made, repeat = [], 0
    for i, (column, row) in enumerate(zip(p.columns.tolist(), p.row.tolist(), strict=True)):
        again = i > p.ptr[row] and column == p.columns[i - 1]
        repeat = repeat + 1 if again else 0
        key = derive(int(p.keys[p.batch[i]]), int(p.rows[row]))
        key = derive(key, repeat) if repeat else key
        weight = weights[i]
        made.append(exponential(derive(key, column)) / weight if weight else math.inf)
    return np.array(made)


@few
@given(graphs, st.integers(0, 99), st.integers(-1, 6))
def test_weighted_row_picks_have_the_smallest_keys(graph, seed, size):
    p = rows_of(graph, frontiers(graph, seed))
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, len(p.columns)) * 0.5
    picks = p.sample_rows(size, weights)
    keys = oracle_row_keys(p, weights)
    expected = []
    for r in range(len(p.rows)):
        own = [i for i in range(p.ptr[r], p.ptr[r + 1]) if keys[i] < math.inf]
        own = sorted(own, key=lambda i: keys[i])
        expected += sorted(own if size < 0 else own[:size])
    assert picks.entry.tolist() == expected


@few
@given(graphs, st.integers(0, 99), st.integers(-1, 6), st.booleans())
def test_uniform_row_picks_are_those_of_the_reference(graph, seed, size, replace):
    p = rows_of(graph, frontiers(graph, seed))
    replace = replace and size >= 0
    expected = []
    for r in range(len(p.rows)):
        batch = int(np.searchsorted(p.batch_ptr, r, "right")) - 1
        key = derive(int(p.keys[batch]), int(p.rows[r]))
        begin, end = int(p.ptr[r]), int(p.ptr[r + 1])
        expected += [begin + position for position in choose(key, end - begin, size, replace)]
    assert p.sample_rows(size, replace=replace).entry.tolist() == expected


@few
@given(graphs, st.integers(0, 99), st.integers(1, 8))
def test_column_picks_have_the_smallest_keys(graph, seed, size):
    p = rows_of(graph, frontiers(graph, seed))
    columns = p.sum_columns(np.random.default_rng(seed).integers(0, 3, len(p.columns)))
    chosen, tau = p.sample_columns(size, columns)
    for b in range(3):
        own = slice(columns.ptr[b], columns.ptr[b + 1])
        keys = {
            int(v): exponential(derive(derive(int(p.keys[b]), int(v)), 0)) / w
            for v, w in zip(columns.ids[own], columns.weights[own], strict=True)
            if w > 0
        }
        order = sorted(keys, key=lambda v: keys[v])
        assert chosen.ids[chosen.ptr[b] : chosen.ptr[b + 1]].tolist() == sorted(order[:size])
        expected = keys[order[size]] if len(order) > size else math.inf
        assert tau[b] == pytest.approx(expected, rel=1e-14)
    entry, which = p.match_columns(chosen)
    kept = [
        i
        for i in range(len(p.columns))
        if p.columns[i] in chosen.ids[chosen.ptr[p.batch[i]] : chosen.ptr[p.batch[i] + 1]]
    ]
    assert entry.tolist() == kept
    assert np.array_equal(chosen.ids[which], p.columns[entry])


def test_logarithm_and_inclusion_agree_with_libm():
    x = np.random.default_rng(0).random(20000) * 10.0 ** np.arange(-10, 10).repeat(1000)
    made = np.empty_like(x)
    _core.testing.exact_log(x, made)
    assert np.abs(made - np.log(x)).max() <= 2.0**-51 * np.abs(np.log(x)).max()
    _core.inclusion(x, made)
    assert np.allclose(made, -np.expm1(-x), rtol=2.0**-50, atol=0)


# ---- distributions -------------------------------------------------------------------------------


def subset_probabilities(p, s):
    """Probability of every set of s, drawing one after the other."""
    made = {}
    for order in itertools.permutations(range(len(p)), s):
        rest, probability = 1.0, 1.0
        for i in order:
            probability *= p[i] / rest
            rest -= p[i]
        subset = tuple(sorted(order))
        made[subset] = made.get(subset, 0.0) + probability
    return made


def check_subsets(picks, expected):
    """Chi-square of observed sets [trials, s] against their probabilities; 1 in 10^4 fails."""
    trials = len(picks)
    seen = dict.fromkeys(expected, 0)
    for subset in map(tuple, picks.tolist()):
        seen[subset] += 1
    chi = sum((seen[k] - trials * q) ** 2 / (trials * q) for k, q in expected.items())
    assert chi < scipy.stats.chi2.ppf(0.9999, len(expected) - 1)


def keys_for(trials, seed=3):
    keys = np.empty(trials, np.uint64)
    _core.layer_keys(seed, 0, 0, 0, keys)
    return keys


def test_column_inclusion_is_that_of_sequential_sampling():
    trials, expected = 20000, subset_probabilities(P, 3)
    inclusion = [sum(q for k, q in expected.items() if i in k) for i in range(6)]
    assert np.allclose(inclusion, INCLUSION, atol=5e-5)
    picks, tau = np.empty(3 * trials, np.int64), np.empty(trials)
    ptr = np.arange(trials + 1) * 3
    none = np.empty(0, np.uint32)
    _core.sample_columns(np.array([0, 6]), none, np.array(P), keys_for(trials), 3, ptr, picks, tau)
    check_subsets(picks.reshape(-1, 3), expected)
    # given tau, 1 / (1 - exp(-p tau)) counts every column once on average
    trial = np.repeat(np.arange(trials), 3)
    share = np.bincount(picks, 1 / -np.expm1(-np.array(P)[picks] * tau[trial])) / trials
    assert np.abs(share - 1).max() < 0.05


@pytest.mark.parametrize("weights", [None, P])
def test_row_inclusion(weights):
    trials = 20000
    graph = Graph.from_edge_index(np.array([[0, 1, 2, 3, 4, 5], [6] * 6]), 7)
    p = rows_of(graph, [[6]] * trials)
    picks = p.sample_rows(3, None if weights is None else np.tile(weights, trials))
    subsets = p.columns[picks.entry].reshape(-1, 3)
    check_subsets(subsets, subset_probabilities(weights or [1 / 6] * 6, 3))


@pytest.mark.parametrize("weights", [None, (0.0, 0.4, 0.0, 0.35, 0.25, 0.0)])
def test_picks_with_replacement(weights):
    trials = 20000
    graph = Graph.from_edge_index(np.array([[0, 1, 2, 3, 4, 5], [6] * 6]), 7)
    p = rows_of(graph, [[6]] * trials)
    entry = p.sample_rows(2, None if weights is None else np.tile(weights, trials), True).entry
    share = np.array(weights or [1 / 6] * 6)
    seen = np.bincount(p.columns[entry], minlength=6)
    assert not seen[share == 0].any()
    chi = ((seen - 2 * trials * share)[share > 0] ** 2 / (2 * trials * share[share > 0])).sum()
    assert chi < scipy.stats.chi2.ppf(0.9999, (share > 0).sum() - 1)


def test_row_weights_are_unbiased():
    graph = random_graph(20, 200, 2)
    p = rows_of(graph, [[4]] * 4000)
    h = np.random.default_rng(0).normal(size=20)
    picks = p.sample_rows(3, 1.0 + p.columns % 5, debias=True)
    estimate = np.bincount(p.batch[picks.entry], picks.weight * h[p.columns[picks.entry]])
    truth = h[graph.indices[graph.indptr[4] : graph.indptr[5]]].mean()
    assert abs(estimate.mean() - truth) < 4 * estimate.std() / math.sqrt(4000)


# ---- the generic program -------------------------------------------------------------------------


class Uniform(MatrixSampler):
    """Nothing overridden: uniform in-neighbours."""

    layer_sizes = (3, 2)


class Once(Uniform):
    expand = "once"


class Heavy(Uniform):
    """The ten lines of a user, in torch."""

    def norm(self, p):
        return p.tensor("columns") % 3 + 1.0


class Masked(Uniform):
    def sample(self, p):
        return p.columns % 2 == 0


class Positions(Uniform):
    def sample(self, p):
        return np.flatnonzero(p.columns % 2 == 0)


@few
@given(graphs, st.integers(0, 99), st.sampled_from([Uniform, Once, Heavy, Masked]))
def test_samples_keep_the_rules(graph, seed, kind):
    batches = frontiers(graph, seed)
    batches[0] = np.concatenate([batches[0], batches[0][:1]])  # a seed given twice
    bulk = kind().sample_bulk(graph, batches, seed=seed)
    for sample, seeds in zip(bulk, batches, strict=True):
        check_sample(graph, sample, seeds)
        if kind in (Uniform, Heavy):
            for layer, size in enumerate(kind.layer_sizes):
                degree = graph.in_degree()[sample.node[: sample.num_nodes[layer]]]
                assert sample.num_edges[layer] == np.minimum(degree, size).sum()


@pytest.mark.parametrize("kind", [Uniform, Once, Heavy])
def test_threads_and_bulks_do_not_change_samples(kind):
    graph = random_graph(200, 3000, 4)
    seeds = [np.arange(5 * b, 5 * b + 20) for b in range(8)]
    whole = kind().sample_bulk(graph, seeds, seed=1, epoch=2, first_batch=10, threads=1)
    for threads in (2, 8):
        other = kind().sample_bulk(graph, seeds, seed=1, epoch=2, first_batch=10, threads=threads)
        assert all(map(same_sample, whole, other))
    for size in (1, 3):
        for first in range(0, 8, size):
            part = kind().sample_bulk(
                graph, seeds[first : first + size], seed=1, epoch=2, first_batch=10 + first
            )
            assert all(map(same_sample, list(whole)[first : first + size], part))


def test_seed_epoch_and_batch_change_samples():
    graph = random_graph(200, 3000, 4)
    same = [np.arange(20)] * 2
    bulk = Uniform().sample_bulk(graph, same, seed=1)
    assert not np.array_equal(bulk[0].edge, bulk[1].edge)
    for change in ({"seed": 2}, {"seed": 1, "epoch": 1}, {"seed": 1, "first_batch": 2}):
        assert not np.array_equal(
            Uniform().sample_bulk(graph, same, **change)[0].edge, bulk[0].edge
        )


def test_positions_masks_and_picks_are_the_same():
    graph = random_graph(30, 200, 3)
    masked = Masked().sample_bulk(graph, [np.arange(9)], seed=0)[0]
    assert same_sample(masked, Positions().sample_bulk(graph, [np.arange(9)], seed=0)[0])
    assert len(Uniform().sample_bulk(graph, [], seed=0)) == 0


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.ones(3, bool), "mask of shape"),
        (np.array([0.5]), "expected positions in P"),
        (np.array([2, 1]), "do not ascend"),
        (np.array([-1]), "do not ascend"),
        (np.array([10**6]), "do not ascend"),
        (Picks(np.array([0, 1]), np.ones(3)), "one number per pick"),
    ],
)
def test_bad_choices_are_refused(returned, message):
    class Bad(Uniform):
        def sample(self, p):
            return returned

    with pytest.raises(InputError, match=message):
        Bad().sample_bulk(random_graph(30, 200, 3), [np.arange(9)], seed=0)


def test_weights_in_some_layers_only_are_refused():
    class Bad(Uniform):
        def sample(self, p):
            return p.sample_rows(1, debias=p.layer == 0)

    with pytest.raises(InputError, match="in some layers only"):
        Bad().sample_bulk(random_graph(30, 200, 3), [np.arange(9)], seed=0)


def test_bad_arguments_are_refused():
    graph = random_graph(30, 200, 3)
    p = rows_of(graph, [np.arange(9)])
    with pytest.raises(InputError, match="weights hold nan at position 0"):
        p.sample_rows(2, np.full(len(p.columns), np.nan))
    with pytest.raises(InputError, match="weights hold -1"):
        p.sum_columns(np.full(len(p.columns), -1))
    with pytest.raises(InputError, match="one number per entry"):
        p.sample_rows(2, np.ones(3))
    with pytest.raises(InputError, match="debias needs replace=False"):
        p.sample_rows(2, replace=True, debias=True)
    with pytest.raises(InputError, match="cannot be picked with replacement"):
        p.sample_rows(-1, replace=True)
    with pytest.raises(InputError, match="weights do not have one number"):
        p.sample_columns(2, Columns(np.array([0, 3]), np.arange(3), np.ones(2), np.ones(1)))
    for seeds, message in (
        ([30], "seeds hold node 30, but the graph has 30 nodes"),
        ([-1], "seeds hold node -1"),
        ([0.5], "expected a list of node ids"),
        ([[1]], "expected a list of node ids"),
    ):
        with pytest.raises(InputError, match=message):
            Uniform().sample_bulk(graph, [np.array(seeds)], seed=0)
