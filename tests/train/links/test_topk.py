"""The best targets of every source, against sorting all of them; what lists are worth."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foregather import _core
from foregather.errors import BudgetError, InputError, NumericError
from foregather.graph.links.known import KnownLinks
from foregather.train.links import topk
from foregather.train.links.baselines import common_neighbours, popularity
from foregather.train.links.blocks import plan_blocks
from foregather.train.links.lists import LIST_METRICS, ListMeter
from foregather.train.links.topk import score_pairs, top_k, top_k_parts
from tests.graph.links.linked_graphs import edges_of, some_graph


def slow_top(scores, k, known):
    """Sorts by (score, lower id)."""
    targets, values = [], []
    for source, row in enumerate(scores):
        left = [t for t in range(len(row)) if (source, t) not in known]
        best = sorted(left, key=lambda t: (-row[t], t))[:k]
        targets.append(best + [-1] * (k - len(best)))
        values.append([float(row[t]) for t in best] + [-np.inf] * (k - len(best)))
    return targets, values


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 5]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_it_is_what_sorting_gives(seed, k, function):
    rng = np.random.default_rng(seed)
    sources, targets, width = rng.integers(1, 14), int(rng.integers(k, 23)), int(rng.integers(1, 4))
    a = rng.integers(-2, 3, (sources, width)).astype(np.float32)  # many ties
    b = rng.integers(-2, 3, (targets, width)).astype(np.float32)
    pairs = rng.integers(0, [[sources], [targets]], (2, 30))
    known = KnownLinks.of([pairs], sources, targets)
    score = (lambda x, y: x @ y.T) if function else "dot"
    with pytest.MonkeyPatch.context() as patch:  # several tiles of few pairs
        patch.setattr(topk, "TILE_SOURCES", 3)
        patch.setattr(topk, "TILE_TARGETS", 7)
        found = top_k(a, b, k, exclude=known, score=score)
        some = top_k(torch.from_numpy(a), b, k, sources=[sources - 1, 0], score=score)
    expected = slow_top(a @ b.T, k, set(zip(*pairs.tolist(), strict=True)))
    assert (found.targets.tolist(), found.scores.tolist()) == expected
    assert found.sources.tolist() == list(range(sources))
    every = slow_top(a @ b.T, k, set())
    assert some.targets.tolist() == [every[0][-1], every[0][0]]


def test_the_budget_changes_passes_and_no_bits(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "b.npy", rng.standard_normal((5000, 24)).astype(np.float32))
    a = rng.standard_normal((700, 24)).astype(np.float32)
    b = np.load(tmp_path / "b.npy", mmap_mode="r")
    least = plan_blocks(None, 1, 24, 4, 10).nbytes
    whole = top_k(a, b, 10)
    parts = list(top_k_parts(a, b, 10, memory=least + 1))
    assert [len(one.sources) for one in parts] == [128] * 5 + [60]
    targets = np.concatenate([one.targets for one in parts])
    scores = np.concatenate([one.scores for one in parts])
    assert targets.tobytes() == whole.targets.tobytes()
    assert scores.tobytes() == whole.scores.tobytes()
    some = top_k(a, b, 10, sources=np.arange(3, 700, 5))
    assert some.scores.tobytes() == whole.scores[3::5].tobytes()
    best = np.argsort(-(a @ b.T), axis=1, kind="stable")[:, :10]
    assert (best == whole.targets).mean() > 0.999  # up to rounding of nearly equal scores


@pytest.mark.parametrize("memory", [22 << 20, 30 << 20, 200 << 20])
@pytest.mark.parametrize("known", [0, 10_000])
def test_blocks_fit_into_the_budget(memory, known):
    blocks = plan_blocks(memory, 10_000, 64, 4, 100, known)
    assert blocks.nbytes <= memory and blocks.sources % 128 == 0
    assert blocks.passes == -(-10_000 // blocks.sources)
    with pytest.raises(BudgetError, match="at least") as refused:
        plan_blocks(1 << 20, 10_000, 64, 4, 100)
    assert plan_blocks(refused.value.least, 10_000, 64, 4, 100).sources == 128
    with pytest.raises(BudgetError):
        plan_blocks(refused.value.least - 1, 10_000, 64, 4, 100)


def test_what_is_held_is_what_was_planned():
    """The arrays that a score function sees, and gives, are within the plan."""
    rng = np.random.default_rng(1)
    a, b = (rng.random((n, 32), np.float32) for n in (1000, 6000))
    most = 0

    def score(x, y):
        nonlocal most
        made = x @ y.T
        most = max(most, sum(one.numel() * 4 for one in (x, y, made)))
        return made

    blocks = plan_blocks(30 << 20, 1000, 32, 4, 50)
    top_k(a, b, 50, score=score, memory=30 << 20)
    lists = blocks.sources * (32 * 4 + 50 * 12)
    assert 0 < most + lists <= blocks.nbytes <= 30 << 20


def test_products_do_not_depend_on_their_neighbours():
    rng = np.random.default_rng(2)
    for dtype in (np.float32, np.float64):
        a, b = (
            rng.standard_normal((37, 19)).astype(dtype),
            rng.standard_normal((19, 53)).astype(dtype),
        )
        whole = np.empty((37, 53), dtype)
        _core.pair_dots(a, b, whole, 2)
        slow = np.zeros((37, 53), dtype)
        for c in range(19):
            slow += a[:, c, None] * b[None, c]
        assert whole.tobytes() == slow.tobytes()
        for rows, columns in ((slice(5, 6), slice(3, 20)), (slice(0, 37), slice(50, 53))):
            part = np.empty_like(whole[rows, columns])
            _core.pair_dots(*map(np.ascontiguousarray, (a[rows], b[:, columns])), part, 1)
            assert part.tobytes() == np.ascontiguousarray(whole[rows, columns]).tobytes()
    with pytest.raises(InputError, match="do not fit"):
        _core.pair_dots(np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 3)))


def test_scores_of_pairs(monkeypatch):
    rng = np.random.default_rng(3)
    a, b = rng.random((9, 5), np.float32), rng.random((7, 5), np.float32)
    pairs = np.stack([rng.integers(0, 9, 40), rng.integers(0, 7, 40)])
    whole = score_pairs(a, b, pairs)
    np.testing.assert_allclose(whole, (a[pairs[0]] * b[pairs[1]]).sum(1), rtol=1e-6)
    monkeypatch.setattr(topk, "_PAIRS", 7)
    assert score_pairs(a, b, torch.from_numpy(pairs)).tobytes() == whole.tobytes()
    found = score_pairs(a, b, pairs, score=lambda x, y: -(x - y).abs().sum(1))
    assert found.shape == (40,) and (found <= 0).all()


def test_bad_input_is_one_sentence():
    a, b = np.ones((3, 2), np.float32), np.ones((4, 2), np.float32)
    for options, words in (
        ({"k": 5}, "only 4 targets"),
        ({"k": 0}, "from 1 on"),
        ({"k": 1, "exclude": KnownLinks.of([], 3, 5)}, "3 sources and 5 targets"),
        ({"k": 1, "sources": [3]}, "sources holds 3"),
        ({"k": 1, "score": lambda x, y: x}, "a score for each pair"),
    ):
        with pytest.raises(InputError, match=words):
            top_k(a, b, **options)
    with pytest.raises(InputError, match="2 columns and target embeddings 3"):
        top_k(a, np.ones((4, 3), np.float32), 1)
    with pytest.raises(InputError, match="expected floats"):
        top_k(np.ones((3, 2), int), b, 1)
    with pytest.raises(NumericError, match="NaN"):
        top_k(a * np.nan, b, 1)
    with pytest.raises(InputError, match="targets of pairs holds 4"):
        score_pairs(a, b, [[0], [4]])
    with pytest.raises(NumericError, match="pair 1"):
        score_pairs(np.array([[1.0], [np.nan]]), np.ones((1, 1)), [[0, 1], [0, 0]])
    assert top_k(a[:0], b, 1).targets.shape == (0, 1)


def test_metrics_of_lists():
    rng = np.random.default_rng(4)
    pairs = rng.integers(0, [[6], [9]], (2, 14))
    wanted = KnownLinks.of([pairs], 6, 9)
    there = [
        {t for s, t in zip(*pairs.tolist(), strict=True) if s == source} for source in range(6)
    ]
    lists = np.stack([rng.permutation(9)[:5] for _ in range(6)])
    lists[2, 3:] = -1
    values = {name: [] for name in LIST_METRICS}
    k = 4
    for own, mine in zip(lists.tolist(), there, strict=True):
        if not mine:
            continue
        right = [t in mine for t in own[:k]]
        gain = sum(r / np.log2(n + 2) for n, r in enumerate(right))
        most = sum(1 / np.log2(n + 2) for n in range(min(k, len(mine))))
        values["recall"].append(sum(right) / len(mine))
        values["precision"].append(sum(right) / k)
        values["ndcg"].append(gain / most)
        values["hit"].append(float(any(right)))
        at = [sum(right[: n + 1]) / (n + 1) for n in range(k) if right[n]]
        values["map"].append(sum(at) / min(k, len(mine)))
    whole, parts = ListMeter(wanted, k), ListMeter(wanted, k)
    whole.add(np.arange(6), lists)
    other = ListMeter(wanted, k)
    other.add([0, 5], lists[[0, 5]])
    parts.add([4, 1, 3, 2], lists[[4, 1, 3, 2]])
    parts.merge(other.state())
    assert whole.sources == parts.sources == len(values["recall"])
    for name in LIST_METRICS:
        assert whole.value(name) == parts.value(name)
        assert whole.value(name) == pytest.approx(np.mean(values[name]), abs=1e-12)
    with pytest.raises(InputError, match="there are recall"):
        whole.value("mrr")
    with pytest.raises(InputError, match="split is empty"):
        ListMeter(wanted, 3).value("recall")
    with pytest.raises(InputError, match="only 9 candidates"):
        ListMeter(wanted, 10)
    with pytest.raises(InputError, match="at least 4 targets"):
        whole.add([0], [[1, 2]])


def test_baselines():
    assert popularity([[0, 1, 2], [3, 3, 1]], 5).tolist() == [0, 1, 0, 2, 0]
    with pytest.raises(InputError, match="targets holds 7"):
        popularity([[0], [7]], 5)
    graph, _ = some_graph(6, 12, 60)
    near = [{s for s, t in edges_of(graph) if t == node} for node in range(12)]
    pairs = np.random.default_rng(5).integers(0, 12, (2, 50))
    expected = [len(near[a] & near[b]) for a, b in zip(*pairs.tolist(), strict=True)]
    assert common_neighbours(graph, pairs).tolist() == expected
