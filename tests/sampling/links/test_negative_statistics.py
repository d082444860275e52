"""Negatives: every node that may be drawn is drawn with its own probability (chi-square)."""

from typing import Any

import numpy as np
import pytest

from foregather.sampling.links.negative_sampler import NegativeSampler
from foregather.sampling.links.negatives import Negatives

NODES, TRIES = 37, 60_000
SOURCE = 4


def assert_fits(found: Any, share: Any) -> None:
    """Counts agree with probabilities, and nothing was drawn that has none."""
    count, share = np.bincount(found, minlength=len(share)), np.asarray(share, float)
    assert not count[share == 0].any()
    want = len(found) * share[share > 0] / share.sum()
    assert want.min() > 5
    chi = float(((count[share > 0] - want) ** 2 / want).sum())
    free = len(want) - 1
    assert abs(chi - free) < 6 * np.sqrt(2 * free)


def facts() -> tuple[Any, Any, Any]:
    """Weights with a heavy and a light end, times, and links of a source and of others."""
    rng = np.random.default_rng(11)
    weight = rng.choice([0.0, 0.3, 1.0, 2.5], NODES)
    weight[[1, 5]] = 0.02, 9.0
    time = rng.integers(0, 10, NODES)
    links = np.stack([rng.integers(0, NODES, 300), rng.integers(0, NODES, 300)])
    return weight, time, links


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("exclude", [None, "positives"])
def test_destinations(weighted, timed, exclude):
    weight, time, links = facts()
    negatives = Negatives("triplet", 1, dst_weight=weight if weighted else None, exclude=exclude)
    sampler = NegativeSampler(
        negatives,
        NODES,
        NODES,
        positives=links if exclude else None,
        dst_time=time if timed else None,
    )
    rows = np.arange(TRIES)
    source, limit = np.full(TRIES, SOURCE), np.full(TRIES, 6)
    _, found = sampler.draw(rows, src=source, times=limit, seed=8)
    share = weight.copy() if weighted else np.ones(NODES)
    share[(time > 6) & timed] = 0
    if exclude:
        share[links[1, links[0] == SOURCE]] = 0
    assert_fits(found, share)
    # Two numbers of one row, and the two ends of one negative, are independent.
    _, other = sampler.draw(rows, src=source, times=limit, seed=8, number=2 * TRIES)
    assert np.array_equal(other[:TRIES], found)
    assert abs(np.corrcoef(found, other[TRIES:])[0, 1]) < 0.03


@pytest.mark.parametrize("timed", [False, True])
def test_both_ends(timed):
    weight, time, links = facts()
    negatives = Negatives("binary", 1, weight, exclude="positives")
    ends = {"src_time": time} if timed else {}
    sampler = NegativeSampler(negatives, NODES, NODES, positives=links, **ends)
    source, destination = sampler.draw(np.arange(TRIES), times=np.full(TRIES, 6), seed=3)
    share = np.where((time <= 6) | (not timed), weight, 0)
    assert_fits(source, share)
    chosen = int(np.bincount(source).argmax())
    free = np.ones(NODES)
    free[links[1, links[0] == chosen]] = 0
    assert_fits(destination[source == chosen], free)


def test_a_wide_range_is_even():
    sampler = NegativeSampler(Negatives("triplet"), 1, 3 << 40)
    _, found = sampler.draw(np.arange(TRIES), src=np.zeros(TRIES, np.int64), seed=1)
    assert_fits(found * 32 // (3 << 40), np.ones(32))
    assert_fits(found % 29, np.ones(29))
