"""Ranks and their metrics, against slow counts of one link at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather.errors import InputError, NumericError
from foregather.graph.links.known import KnownLinks
from foregather.train.ranking import (
    RankMeter,
    ogb_hits_at,
    ranks_among,
    ranks_among_all,
    ranks_in_pool,
)

TIES = ("mean", "optimistic", "pessimistic")


def slow_rank(right, others, ties):
    above = sum(1 for one in others if one > right)
    equal = sum(1 for one in others if one == right)
    return 1 + above + equal * {"mean": 0.5, "optimistic": 0, "pessimistic": 1}[ties]


@given(st.integers(0, 10**6), st.sampled_from(TIES), st.booleans())
@settings(max_examples=60, deadline=None)
def test_filtered_ranks(seed, ties, tensors):
    rng = np.random.default_rng(seed)
    links, sources, targets = rng.integers(1, 12), 5, int(rng.integers(1, 9))
    scores = rng.integers(0, 4, (links, targets)).astype(np.float32)
    source, target = rng.integers(0, sources, links), rng.integers(0, targets, links)
    pairs = rng.integers(0, [[sources], [targets]], (2, 15))
    known = KnownLinks.of([pairs, np.stack([source, target])], sources, targets)
    given_scores = torch.from_numpy(scores) if tensors else scores
    found = ranks_among_all(given_scores, target, source, known)
    there = set(zip(*pairs.tolist(), strict=True)) | set(zip(source, target, strict=True))
    expected, counts = [], []
    for row, (s, t) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        others = [n for n in range(targets) if n != t and (s, n) not in there]
        expected.append(slow_rank(scores[row, t], scores[row, others], ties))
        counts.append(len(others) + 1)
    assert found.ranks(ties).tolist() == expected and found.candidates.tolist() == counts
    plain = ranks_among_all(scores, target).ranks(ties).tolist()
    every = [
        slow_rank(row[t], np.delete(row, t), ties) for row, t in zip(scores, target, strict=True)
    ]
    assert plain == every


@given(st.integers(0, 10**6), st.sampled_from(TIES))
@settings(max_examples=60, deadline=None)
def test_given_candidates_and_pools(seed, ties):
    rng = np.random.default_rng(seed)
    right = rng.integers(0, 4, rng.integers(1, 9)).astype(np.float32)
    own = rng.integers(0, 4, (len(right), rng.integers(1, 6))).astype(np.float64)
    pool = rng.integers(0, 4, rng.integers(1, 9)).astype(np.float32)
    expected = [slow_rank(r, row, ties) for r, row in zip(right, own, strict=True)]
    assert ranks_among(right, own).ranks(ties).tolist() == expected
    found = ranks_in_pool(right, pool)
    assert found.ranks(ties).tolist() == [slow_rank(r, pool, ties) for r in right]
    for k in range(1, len(pool) + 1):  # OGB's rule, as its evaluator has it
        least = np.sort(pool)[-k]
        expected_hits = float((right > least).sum()) / len(right)
        meter = RankMeter("pessimistic")
        meter.add(found)
        assert ogb_hits_at(right, pool, k) == expected_hits == meter.hits_at(k)


def test_metrics_are_means_over_links_however_they_are_divided():
    rng = np.random.default_rng(3)
    right, own = rng.random(500), rng.random((500, 40))
    whole, parts, other = (RankMeter() for _ in range(3))
    whole.add(ranks_among(right, own))
    cuts = [0, 1, 7, 130, 400]
    for begin, end in zip(cuts, [*cuts[1:], 500], strict=True):
        parts.add(ranks_among(right[begin:end], own[begin:end]))
    order = rng.permutation(500)
    other.add(ranks_among(right[order[:77]], own[order[:77]]))
    more = RankMeter()
    more.add(ranks_among(right[order[77:]], own[order[77:]]))
    other.merge(more.state())
    ranks = ranks_among(right, own).ranks()
    assert whole.links == other.links == 500
    for meter in (whole, parts, other):
        assert meter.mrr() == whole.mrr() == pytest.approx(float((1 / ranks).mean()), abs=1e-15)
        assert meter.mean_rank() == ranks.mean()
        for k in (1, 10, 41):
            assert meter.hits_at(k) == float((ranks <= k).mean())


def test_ogb_mrr_is_the_mean_of_both_extremes():
    """OGB averages the optimistic and the pessimistic rank."""
    right, own = np.array([1.0, 2.0]), np.array([[1, 1, 3, 0], [2, 2, 2, 2]], float)
    ranks = ranks_among(right, own)
    both = (ranks.ranks("optimistic") + ranks.ranks("pessimistic")) / 2
    assert ranks.ranks().tolist() == both.tolist() == [3.0, 3.0]


def test_float64_is_not_rounded_into_ties():
    right, pool = np.array([1.0], np.float32), np.array([1.0 + 1e-12])
    assert ranks_in_pool(right, pool).ranks().tolist() == [2.0]
    assert ogb_hits_at(right, pool, 1) == 0.0


def test_bad_input_is_one_sentence():
    meter = RankMeter()
    with pytest.raises(InputError, match="split is empty"):
        meter.mrr()
    meter.add(ranks_among([1.0], [[0.0, 2.0]]))
    for k, words in ((4, "only 3 candidates"), (0, "from 1 on"), (True, "from 1 on")):
        with pytest.raises(InputError, match=words):
            meter.hits_at(k)
    with pytest.raises(InputError, match="of only 1 negative,"):
        ogb_hits_at([1.0], [2.0], 20)
    with pytest.raises(InputError, match="split is empty"):
        ogb_hits_at(np.empty(0), [2.0], 1)
    with pytest.raises(NumericError, match="NaN"):
        ranks_in_pool([float("nan")], [1.0])
    with pytest.raises(InputError, match="row for each of 2 links"):
        ranks_among_all(np.zeros((1, 3)), [0, 1])
    with pytest.raises(InputError, match="column for each target"):
        ranks_among_all(np.zeros((1, 3)), [3])
    with pytest.raises(InputError, match="one for each of 2 links"):
        ranks_among([1.0, 2.0], [[1.0]])
    with pytest.raises(InputError, match="give both"):
        ranks_among_all(np.zeros((1, 3)), [0], known=KnownLinks.of([], 1, 3))
    with pytest.raises(InputError, match="have 4 targets"):
        ranks_among_all(np.zeros((1, 3)), [0], [0], KnownLinks.of([], 1, 4))
    with pytest.raises(InputError, match="expected mean, optimistic"):
        ranks_among([1.0], [[1.0]]).ranks("best")
    with pytest.raises(InputError, match="use one rule"):
        meter.merge(RankMeter("optimistic").state())
    with pytest.raises(InputError, match="shape"):
        ranks_among([[1.0]], [[1.0]])
