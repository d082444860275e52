"""train/hetero/scoring: AUC against counting pairs, and baselines against counting."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foregather.train.hetero.scoring import baseline, rate, roc_auc

ROWS = st.lists(
    st.tuples(st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1e-9, 3.0]), st.integers(-1, 1)), max_size=40
)


@given(ROWS)
def test_auc_is_the_share_of_pairs(rows):
    scores = np.array([score for score, _ in rows])
    labels = np.array([label for _, label in rows], np.int64)
    ones = [score for score, label in rows if label == 1]
    zeros = [score for score, label in rows if label == 0]
    found = roc_auc(scores, labels)
    if not ones or not zeros:
        assert math.isnan(found)
        return
    right = sum((a > b) + 0.5 * (a == b) for a in ones for b in zeros)
    assert abs(found - right / (len(ones) * len(zeros))) < 1e-12


def test_auc_of_two_columns_is_that_of_their_difference():
    scores = np.array([[0, 1], [5, 5.5], [3, 0]], np.float32)
    assert rate("auc", scores, np.array([1, 0, 0])) == 1.0
    assert rate("auc", scores, np.array([0, 1, 1])) == 0.0


def test_accuracy_leaves_out_what_has_no_label():
    scores = np.eye(3, dtype=np.float32)
    assert rate("accuracy", scores, np.array([0, 2, -1], np.int16)) == 0.5


def test_the_majority_is_that_of_the_training_split():
    train = np.array([2, 2, 1, -1, -1, -1])
    assert baseline("accuracy", train, np.array([2, 1, 1, -1])) == 1 / 3
    assert baseline("auc", train, np.array([0, 1])) == 0.5
    several = np.array([[1, 0], [1, 0], [0, -1]])
    assert baseline("accuracy", several, np.array([[1, 0], [0, 0]])) == 0.75
