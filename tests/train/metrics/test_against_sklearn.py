"""train/metrics: every metric against scikit-learn, however rows are cut, with ties and gaps."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from foregather.errors import InputError, NumericError
from foregather.train.metrics import METRICS, Metric, find_metric, fitting_metrics
from foregather.train.metrics.by_name import FAMILIES
from foregather.train.metrics.distances import exact_sum

FEW = settings(max_examples=25)  # scikit-learn takes milliseconds for each
SCORES = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 0.5, 3.0])  # few values, so that many are equal


def in_parts(metric, scores, labels, cuts):
    """The metric over batches of three ranks, whose states are merged."""
    ranks = [metric.start() for _ in range(3)]
    edges = [0, *sorted(cuts), len(scores)]
    for number, (first, end) in enumerate(itertools.pairwise(edges)):
        ranks[number % 3].update(torch.from_numpy(scores[first:end]), labels[first:end])
    whole = metric.start()
    for one in reversed(ranks):
        whole.merge(one.state())
    return whole.value()


@st.composite
def cases(draw, columns, label):
    """Rows of scores, labels, and where they are cut."""
    count = draw(st.integers(1, 25))
    width = draw(columns)
    rows = st.lists(SCORES, min_size=width, max_size=width)
    scores = np.array(draw(st.lists(rows, min_size=count, max_size=count)), np.float32)
    labels = draw(st.lists(label(width), min_size=count, max_size=count))
    cuts = draw(st.lists(st.integers(0, count), max_size=4))
    return scores, np.array(labels), cuts


def same(metric, scores, labels, cuts, expected):
    found = METRICS[metric].of(scores, labels)
    assert in_parts(METRICS[metric], scores, labels, cuts) == found or math.isnan(found)
    if expected is None:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(expected, abs=1e-12, rel=1e-12)


@FEW
@given(cases(st.integers(2, 5), lambda width: st.integers(-1, width - 1)))
def test_classes(case):
    scores, labels, cuts = case
    known = labels >= 0
    true, guess = labels[known], scores[known].argmax(1)
    none = None if not known.any() else 0
    f1 = lambda by: sk.f1_score(true, guess, average=by, zero_division=0)  # noqa: E731
    same("accuracy", scores, labels, cuts, none if none is None else (true == guess).mean())
    same("macro_f1", scores, labels, cuts, none if none is None else f1("macro"))
    same("micro_f1", scores, labels, cuts, none if none is None else f1("micro"))


@FEW
@given(
    cases(
        st.integers(1, 4), lambda width: st.lists(st.integers(0, 1), min_size=width, max_size=width)
    )
)
def test_columns_of_labels(case):
    scores, labels, cuts = case
    guess = (scores > 0).astype(int)
    if labels.shape[1] == 1:
        assert METRICS["micro_f1"].of(scores[:, 0], labels[:, 0]) == METRICS["micro_f1"].of(
            scores, labels
        )
        return  # scikit-learn takes one column for classes
    f1 = lambda by: sk.f1_score(labels, guess, average=by, zero_division=0)  # noqa: E731
    same("accuracy", scores, labels, cuts, (labels == guess).mean())
    same("macro_f1", scores, labels, cuts, f1("macro"))
    same("micro_f1", scores, labels, cuts, f1("micro"))
    both = [c for c in range(labels.shape[1]) if 0 < labels[:, c].sum() < len(labels)]
    for name, theirs in RANKED.items():
        each = [theirs(labels[:, c], scores[:, c]) for c in both]
        same(name, scores, labels, cuts, np.mean(each) if each else None)


RANKED = {"roc_auc": sk.roc_auc_score, "average_precision": sk.average_precision_score}


@FEW
@given(cases(st.just(2), lambda width: st.integers(-1, 1)))
def test_two_classes_ranked(case):
    scores, labels, cuts = case
    known = labels >= 0
    margin = scores[known, 1].astype(float) - scores[known, 0]
    both = len(set(labels[known])) == 2
    for name, theirs in RANKED.items():
        same(name, scores, labels, cuts, theirs(labels[known], margin) if both else None)


def test_auc_counts_pairs():
    """Independent of any library: the share of pairs ranked rightly, ties half."""
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 6, 60).astype(float), rng.integers(0, 2, 60)
    ones, zeros = scores[labels == 1], scores[labels == 0]
    pairs = [(a > b) + 0.5 * (a == b) for a in ones for b in zeros]
    assert METRICS["roc_auc"].of(scores, labels) == np.mean(pairs)


@FEW
@given(
    cases(
        st.integers(1, 3),
        lambda width: st.lists(
            st.sampled_from([-1.5, 0.0, 2.0, 1e6, math.nan]), min_size=width, max_size=width
        ),
    )
)
def test_numbers(case):
    scores, labels, cuts = case
    theirs = {"mae": sk.mean_absolute_error, "rmse": sk.root_mean_squared_error, "r2": sk.r2_score}
    for name, measure in theirs.items():
        each = []
        for column in range(labels.shape[1]):
            true, rows = labels[:, column], scores[:, column].astype(float)
            known = ~np.isnan(true)
            if known.any() and (name != "r2" or len(set(true[known])) > 1):
                each.append(measure(true[known], rows[known]))
        found = METRICS[name].of(scores, labels)
        same(name, scores, labels, cuts, np.mean(each) if each else None)
        if each:  # in any order, to the bit
            assert METRICS[name].of(scores[::-1], labels[::-1]) == found


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30))
def test_sums_have_no_rounding(values):
    from fractions import Fraction

    assert Fraction(exact_sum(np.array(values)), 1 << 1128) == sum(map(Fraction, values))


def test_sums_beyond_float64_are_refused():
    with pytest.raises(NumericError, match="beyond float64"):
        METRICS["rmse"].of(np.array([[1.0]]), np.array([[1e200]]))


@pytest.mark.parametrize("name", METRICS)
def test_nothing_to_compare_is_nan(name):
    metric = METRICS[name]
    assert math.isnan(metric.start().value())
    empty = metric.start()
    empty.merge(metric.start().state())
    assert math.isnan(empty.value())


def test_directions():
    lower = {name for name, one in METRICS.items() if not one.higher_is_better}
    assert lower == {"mae", "rmse"}
    assert METRICS["mae"].is_better(1.0, 2.0) and not METRICS["mae"].is_better(2.0, 2.0)


def test_half_precision_scores_are_compared():
    rows = torch.tensor([[0.5, 1.5], [2.0, 1.0]], dtype=torch.bfloat16)
    assert METRICS["accuracy"].of(rows, torch.tensor([1, 0])) == 1.0


def test_names():
    assert find_metric("auc", "classification") is METRICS["roc_auc"]
    assert fitting_metrics("regression") == ["mae", "rmse", "r2"]
    with pytest.raises(InputError, match="did you mean micro_f1"):
        find_metric("microf1", "multilabel")
    with pytest.raises(
        InputError, match="which is for regression, but the task is multilabel; use"
    ):
        find_metric("mae", "multilabel")


def test_a_family_makes_metrics_with_a_number(monkeypatch):
    made = lambda k: Metric(f"top@{k}", "", ("link",), True, METRICS["mae"].start)  # noqa: E731
    monkeypatch.setitem(FAMILIES, "top", made)
    assert find_metric("top@20", "link").name == "top@20"
    for bad in ("top@0", "top@", "top@x", "other@3"):
        with pytest.raises(InputError, match="train.metric is"):
            find_metric(bad, "link")


def test_warnings_are_errors_here():
    """scikit-learn warns where a class is not there; ours must not need that."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert METRICS["macro_f1"].of(np.eye(3), np.array([0, 0, 0])) == pytest.approx(1 / 6)
