"""Neighbor by weight: what is picked follows the weights, exactly.

Seeds are fixed, so these tests give the same answer every time; the bound on p-values is far
below what a correct sampler gives and far above what a biased one reaches.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from foregather.sampling import MatrixSampler, Neighbor
from tests.sampling.test_neighbor_statistics import LEAST, star


def picks(weights, count, trials, replace=False, seed=1):
    """[trials, count] positions picked from a row of these weights, one trial a minibatch."""
    rule = Neighbor([count], replace=replace, weights=np.array(weights, np.float32))
    seeds = [np.zeros(1, np.int64)] * trials
    bulk = rule.sample_bulk(star(len(weights)), seeds, seed=seed)
    return np.stack([sample.edge for sample in bulk])


def successive(weights, count):
    """Probability of each set when entries are drawn one after the other, by enumeration."""
    found = dict.fromkeys(itertools.combinations(range(len(weights)), count), 0.0)
    for order in itertools.permutations(range(len(weights)), count):
        left, chance = sum(weights), 1.0
        for i in order:
            chance *= weights[i] / left
            left -= weights[i]
        found[tuple(sorted(order))] += chance
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "count"),
    [
        ([1, 1, 1, 1, 1], 3),
        ([1, 2, 3, 4, 5], 2),
        ([5, 1, 4, 2, 3, 8], 4),
        ([1, 1000, 2, 3, 1], 3),  # the keys decide most of the picks
        ([1000, 1, 1000, 2, 3, 4], 4),
        ([0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125], 3),
    ],
)
def test_every_set_as_often_as_enumerated(weights, count):
    trials = 40_000
    expected = successive(weights, count)
    code = picks(weights, count, trials) @ (len(weights) ** np.arange(count))
    observed = [(code == np.dot(s, len(weights) ** np.arange(count))).sum() for s in expected]
    assert sum(observed) == trials
    rare = np.array(list(expected.values())) * trials < 5  # chi-square needs five in a cell
    pairs = np.array([observed, np.array(list(expected.values())) * trials])
    pooled = np.column_stack([pairs[:, ~rare], pairs[:, rare].sum(1)])
    pooled = pooled[:, pooled[1] > 0]
    if pooled[1, -1] < 5:
        pooled = np.column_stack([pooled[:, :-2], pooled[:, -2:].sum(1)])
    assert stats.chisquare(*pooled).pvalue > LEAST


@pytest.mark.slow
@pytest.mark.parametrize("degree", [5, 64, 65, 2000, 40_000])
@pytest.mark.parametrize("replace", [False, True])
def test_one_pick_is_multinomial(degree, replace):
    # Weights that fall with the position, so that a mix-up of positions is seen.
    weights = (1 / (1 + np.arange(degree) / degree * 50)).astype(np.float32)
    got = picks(weights, 4 if replace else 1, 20_000, replace).ravel()
    bins = min(degree, 100)
    cell = np.arange(degree) * bins // degree
    expected = np.bincount(cell, weights, bins) / weights.sum(dtype=np.float64) * len(got)
    assert stats.chisquare(np.bincount(cell[got], minlength=bins), expected).pvalue > LEAST


@pytest.mark.parametrize(("degree", "count"), [(40, 30), (300, 10), (300, 200), (3000, 60)])
@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_inclusion_is_that_of_exponential_keys(degree, count, spread):
    # Two algorithms for one distribution: the counts of both must look alike.
    weights = np.exp(spread * np.random.default_rng(degree).standard_normal(degree))
    weights = weights.astype(np.float32)

    class Keys(MatrixSampler):
        layer_sizes = (count,)

        def norm(self, p):
            return weights[p.edge]

    trials = 3000
    seeds = [np.zeros(1, np.int64)] * trials
    other = np.stack([s.edge for s in Keys().sample_bulk(star(degree), seeds, seed=2)])
    group = np.argsort(np.argsort(weights)) * 20 // degree  # twenty groups from light to heavy
    table = np.array(
        [
            np.bincount(group[p.ravel()], minlength=20)
            for p in (picks(weights, count, trials), other)
        ]
    )
    table = table[:, table.sum(0) >= 10]
    assert stats.chi2_contingency(table).pvalue > LEAST
