"""Neighbor: picks are uniform, jointly uniform in pairs, and independent where they should be.

Seeds are fixed, so these tests give the same answer every time; the bound on p-values is far
below what a correct sampler gives and far above what a biased one reaches.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from foregather.graph import Graph
from foregather.sampling.neighbor import Neighbor

LEAST = 1e-4  # p-value


def star(degree):
    """Node 0 has the in-neighbours 1 to `degree`."""
    pairs = np.stack([np.arange(1, degree + 1), np.zeros(degree, np.int64)])
    return Graph.from_edge_index(pairs, degree + 1)


def picks(degree, count, trials, seed=1, replace=False, epoch=0, first_batch=0):
    """[trials, count] positions picked from a row, one trial a minibatch."""
    rule = Neighbor([count], replace=replace)
    seeds = [np.zeros(1, np.int64)] * trials
    bulk = rule.sample_bulk(star(degree), seeds, seed=seed, epoch=epoch, first_batch=first_batch)
    return np.stack([sample.edge for sample in bulk])


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("degree", [6, 10, 64, 65, 100, 5000, 40_000])
def test_every_position_is_equally_likely(degree, replace):
    got = picks(degree, 5, 20_000, replace=replace).ravel()
    bins = min(degree, 200)
    every = np.arange(degree)
    # by size and by remainder: the second sees the bias of `bits % range`
    for cell in (lambda p: p * bins // degree, lambda p: p % bins):
        expected = np.bincount(cell(every), minlength=bins) * len(got) / degree
        observed = np.bincount(cell(got), minlength=bins)
        # without replacement the counts vary less than multinomial ones, so p is on the safe side
        assert stats.chisquare(observed, expected).pvalue > LEAST


@pytest.mark.slow
@pytest.mark.parametrize(("degree", "count"), [(6, 5), (8, 3), (12, 6), (20, 2)])
def test_every_pair_is_equally_likely(degree, count):
    trials = 40_000
    got = picks(degree, count, trials)
    table = np.zeros((degree, degree), np.int64)
    for a, b in itertools.combinations(range(count), 2):
        np.add.at(table, (got[:, a], got[:, b]), 1)
    observed = table[np.triu_indices(degree, 1)]  # picks ascend
    expected = trials * count * (count - 1) / (degree * (degree - 1))
    deviation = np.sqrt(expected * (1 - expected / trials))
    # each pair is a binomial count; Bonferroni over all pairs
    worst = np.abs(observed - expected).max() / deviation
    assert worst < stats.norm.isf(LEAST / len(observed))
    assert observed.sum() == trials * count * (count - 1) // 2


def test_every_subset_is_equally_likely():
    got = picks(6, 3, 40_000)
    code = got @ [36, 6, 1]
    subsets = [
        sum(d * 6**p for d, p in zip(s, (2, 1, 0), strict=True))
        for s in itertools.combinations(range(6), 3)
    ]
    counts = [(code == s).sum() for s in subsets]
    assert sum(counts) == 40_000 and stats.chisquare(counts).pvalue > LEAST


@pytest.mark.parametrize("which", ["epoch", "batch", "seed"])
def test_epochs_batches_and_seeds_are_independent(which):
    first = picks(10, 1, 20_000).ravel()
    other = {
        "epoch": lambda: picks(10, 1, 20_000, epoch=1),
        "batch": lambda: picks(10, 1, 20_000, first_batch=20_000),
        "seed": lambda: picks(10, 1, 20_000, seed=2),
    }[which]().ravel()
    table = np.zeros((10, 10), np.int64)
    np.add.at(table, (first, other), 1)
    assert stats.chi2_contingency(table).pvalue > LEAST
    neighbours = np.zeros((10, 10), np.int64)
    np.add.at(neighbours, (first[:-1], first[1:]), 1)  # one minibatch and the next
    assert stats.chi2_contingency(neighbours).pvalue > LEAST


def test_layers_and_vertices_are_independent():
    # Nodes 0 and 1 both have the in-neighbours 0 and 1: per layer, four coins.
    graph = Graph.from_edge_index(np.array([[0, 1, 0, 1], [0, 0, 1, 1]]), 2)
    rule = Neighbor([1, 1], expand="per-layer")
    bulk = rule.sample_bulk(graph, [np.array([0, 1])] * 8000, seed=3)
    coins = np.stack([sample.edge & 1 for sample in bulk])  # layer 0: two, layer 1: two
    assert coins.shape == (8000, 4)
    code = coins @ [8, 4, 2, 1]
    assert stats.chisquare(np.bincount(code, minlength=16)).pvalue > LEAST


def test_the_same_row_in_one_layer_is_drawn_once():
    rule = Neighbor([3])
    first = rule.sample_bulk(star(50), [np.zeros(1, np.int64)], seed=9)[0]
    again = rule.sample_bulk(star(50), [np.zeros(1, np.int64)], seed=9)[0]
    np.testing.assert_array_equal(first.edge, again.edge)
