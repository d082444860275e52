"""Typed sampling with times: what is picked is uniform, or follows the weights, on the prefix.

Seeds are fixed, so these tests give the same answer every time; the bound on p-values is far below
what a correct sampler gives and far above what a biased one reaches.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from foregather.graph.hetero import HeteroGraph, NodeTable, Relation
from foregather.sampling import HeteroNeighbor
from tests.sampling.test_neighbor_statistics import LEAST
from tests.sampling.test_weighted_statistics import successive

NAME = ("event", "of", "user")


def star(degree, weights=None):
    """One user with an event at each of the times 0, 1, 2, ..."""
    ends = np.stack([np.arange(degree), np.zeros(degree, np.int64)])
    relation = Relation.of(ends, degree, 1, time=np.arange(degree), weights=weights)
    return HeteroGraph(
        {"event": NodeTable.of(degree, time=np.arange(degree)), "user": NodeTable.of(1)},
        {NAME: relation},
    )


def picks(graph, count, seen, trials, **rule):
    """[trials, count] positions picked of the first `seen`, one tree a trial."""
    trees = np.arange(trials)
    sample = HeteroNeighbor([count], time="edge", **rule).sample_bulk(
        graph,
        {"user": [np.zeros(trials, np.int64)]},
        rows={"user": [trees]},
        times={"user": [np.full(trials, seen - 1)]},
        seed=8,
    )[0]
    edges = sample.edges[NAME]
    assert (edges.col == np.repeat(trees, count)).all()
    return edges.edge.reshape(trials, count)


@pytest.mark.parametrize(("degree", "seen", "count"), [(9, 6, 2), (60, 7, 3), (500, 6, 4)])
def test_every_set_of_the_prefix_is_as_likely(degree, seen, count):
    sets = list(itertools.combinations(range(seen), count))
    got = picks(star(degree), count, seen, 20_000)
    code = got @ (seen ** np.arange(count))
    observed = [(code == np.dot(one, seen ** np.arange(count))).sum() for one in sets]
    assert sum(observed) == 20_000
    assert stats.chisquare(observed).pvalue > LEAST


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(("degree", "seen"), [(70, 65), (3000, 40), (3000, 2999)])
def test_every_edge_of_a_long_prefix_is_as_likely(degree, seen, replace):
    got = picks(star(degree), 5, seen, 20_000, replace=replace)
    counts = np.bincount(got.ravel(), minlength=seen)
    assert len(counts) == seen and counts.min() > 0
    if replace:
        assert stats.chisquare(counts).pvalue > LEAST
    else:  # draws of a tree are not independent: the first of the five alone is one draw
        first = np.bincount(got[np.arange(20_000), np.arange(20_000) % 5], minlength=seen)
        assert stats.chisquare(first).pvalue > LEAST


@pytest.mark.parametrize(
    ("weights", "seen", "count"),
    [([1, 2, 3, 4, 5, 900], 5, 2), ([5, 1, 4, 2, 3, 8, 1, 1], 6, 4), ([1, 0, 2, 3, 0, 9], 5, 2)],
)
def test_sets_by_weight_as_often_as_enumerated(weights, seen, count):
    expected = successive(weights[:seen], count)
    got = picks(
        star(len(weights), np.array(weights, np.float32)), count, seen, 20_000, weights=True
    )
    code = got @ (seen ** np.arange(count))
    observed = np.array([(code == np.dot(s, seen ** np.arange(count))).sum() for s in expected])
    chance = np.array(list(expected.values()))
    assert observed.sum() == 20_000 and (observed[chance == 0] == 0).all()
    assert stats.chisquare(observed[chance > 0], 20_000 * chance[chance > 0]).pvalue > LEAST


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("after", [0.01, 1.0, 100.0])
def test_one_pick_of_a_long_prefix_by_weight(after, replace):
    """What comes after the prefix, however heavy, changes nothing; with 100 the rest is drawn."""
    weights = np.concatenate([1 + np.arange(90) % 7, np.full(300, after)]).astype(np.float32)
    got = picks(star(390, weights), 1, 90, 20_000, weights=True, replace=replace).ravel()
    share = weights[:90].astype(float)
    expected = share / share.sum() * 20_000
    assert stats.chisquare(np.bincount(got, minlength=90), expected).pvalue > LEAST


@pytest.mark.parametrize("after", [1.0, 100.0])
def test_repeats_of_a_long_prefix_by_weight(after):
    weights = np.concatenate([1 + np.arange(40) % 5, np.full(300, after)]).astype(np.float32)
    got = picks(star(340, weights), 6, 40, 10_000, weights=True, replace=True)
    share = weights[:40].astype(float)
    expected = share / share.sum() * 60_000
    assert stats.chisquare(np.bincount(got.ravel(), minlength=40), expected).pvalue > LEAST


@pytest.mark.parametrize("after", [1.0, 100.0])
def test_pairs_of_a_long_prefix_by_weight(after):
    """Two of 40 without replacement: how often each is in a pair, as enumerated."""
    weights = np.concatenate([1 + np.arange(40) % 5, np.full(300, after)]).astype(np.float32)
    got = picks(star(340, weights), 2, 40, 40_000, weights=True)
    chance = successive(weights[:40].astype(float).tolist(), 2)
    code = got @ np.array([40, 1])
    observed = np.bincount(code, minlength=1600)
    expected = np.zeros(1600)
    for (a, b), p in chance.items():
        expected[40 * a + b] = 40_000 * p
    assert observed[expected == 0].sum() == 0
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > LEAST


def test_relations_and_layers_draw_apart():
    """Two relations, and two layers, with the same rows pick independently."""
    degree, trials = 12, 20_000
    ends = np.stack([np.arange(degree), np.zeros(degree, np.int64)])
    names = [("a", f"r{i}", "b") for i in range(4)]
    relation = Relation.of(ends, degree, 1)
    nodes = {"a": NodeTable.of(degree), "b": NodeTable.of(1)}
    graph = HeteroGraph(nodes, dict.fromkeys(names, relation))
    sample = HeteroNeighbor([1], disjoint=True).sample_bulk(
        graph, {"b": [np.zeros(trials, np.int64)]}, rows={"b": [np.arange(trials)]}, seed=1
    )[0]
    for one, other in itertools.combinations(names, 2):
        code = sample.edges[one].edge * degree + sample.edges[other].edge
        counts = np.bincount(code, minlength=degree * degree)
        assert stats.chisquare(counts).pvalue > LEAST
