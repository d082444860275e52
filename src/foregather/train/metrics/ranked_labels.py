"""ranked_labels: ROC-AUC and average precision, from all scores and labels gathered.

Both depend on the order of all scores, so batches and ranks hand over the scores themselves; the
value depends neither on their order nor on how they were divided. Equal scores are one step of the
curve. With several columns, it is the mean over those that have both kinds of labels.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from foregather.train.metrics.metric import Array, Metric, columns_of, to_array

__all__ = ["AVERAGE_PRECISION", "ROC_AUC", "RankedLabels", "average_precision", "roc_auc"]


class RankedLabels:
    """All scores, and labels of 0, 1 or -1 (missing).

    Args:
        each: the metric of one column, whose scores and labels are given.
    """

    def __init__(self, each: Callable[[Array, Array], float]) -> None:
        self._each = each
        self._scores: list[Array] = []
        self._labels: list[Array] = []

    def update(self, scores: Any, labels: Any) -> None:
        """Adds rows: one score each, one for each of two classes, or one for each column."""
        rows, given = to_array(scores), to_array(labels)
        if given.ndim == 1 and rows.ndim == 2:
            wide = rows.astype(np.float64)  # the margin of two classes, without rounding
            rows = wide[:, 1] - wide[:, 0] if rows.shape[1] > 1 else wide[:, 0]
        known = given >= 0  # NaN is not
        given = np.where(known, np.where(known, given, 0) > 0.5, -1).astype(np.int8)
        self._scores.append(columns_of(rows).copy())
        self._labels.append(columns_of(given))

    def _joined(self) -> tuple[Array, Array]:
        if not self._scores:
            return np.zeros((0, 0), np.float32), np.zeros((0, 0), np.int8)
        return np.concatenate(self._scores), np.concatenate(self._labels)

    def state(self) -> dict[str, Any]:
        """All scores and labels."""
        scores, labels = self._joined()
        return {"scores": torch.from_numpy(scores), "labels": torch.from_numpy(labels)}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Adds the scores and labels of another."""
        if len(state["scores"]):
            self._scores.append(to_array(state["scores"]))
            self._labels.append(to_array(state["labels"]))

    def value(self) -> float:
        """The metric; NaN if no column has labels of both kinds."""
        scores, labels = self._joined()
        found = [self._each(*pair) for pair in zip(scores.T, labels.T, strict=True)]
        there = [one for one in found if not math.isnan(one)]
        return math.fsum(there) / len(there) if there else math.nan


def _counted(scores: Array, labels: Array) -> tuple[Array, Array] | None:
    """Ones and rows at each score, ascending; None if a kind of labels is not there."""
    known = labels >= 0
    steps, group, sizes = np.unique(scores[known], return_inverse=True, return_counts=True)
    ones = np.bincount(group[labels[known] == 1], minlength=len(steps))
    total = int(ones.sum())
    return (ones, sizes) if 0 < total < int(sizes.sum()) else None


def roc_auc(scores: Array, labels: Array) -> float:
    """The share of pairs (a label of 1, one of 0) in which the first scores higher.

    Pairs with equal scores count half; NaN if a kind of labels is not there.
    """
    if (found := _counted(scores, labels)) is None:
        return math.nan
    ones, sizes = found
    zeros = sizes - ones
    below = np.cumsum(zeros) - zeros
    twice = sum((ones * (2 * below + zeros)).tolist())  # halves count once, so this is exact
    return float(twice / (2 * int(ones.sum()) * int(zeros.sum())))


def average_precision(scores: Array, labels: Array) -> float:
    """The mean over labels of 1 of the precision at their score.

    NaN if a kind of labels is not there.
    """
    if (found := _counted(scores, labels)) is None:
        return math.nan
    ones, rows = (one[::-1] for one in found)
    precision = np.cumsum(ones) / np.cumsum(rows)
    return math.fsum((ones * precision).tolist()) / int(ones.sum())


def _one_kind(labels: Array) -> str:
    """Why nothing can be ranked."""
    columns = columns_of(labels)
    ones, zeros = (columns > 0.5).sum(0), ((columns >= 0) & (columns <= 0.5)).sum(0)
    if ((ones > 0) & (zeros > 0)).any():
        return ""
    if columns.shape[1] > 1:
        return "no column of labels has both 0 and 1, so nothing can be ranked"
    return f"all labels are {int(ones[0] > 0)}, so nothing can be ranked"


_TASKS = ("classification", "multilabel", "link")

ROC_AUC = Metric(
    "roc_auc",
    "area under the ROC curve, for two classes or the mean over columns of 0 and 1",
    _TASKS,
    True,
    lambda: RankedLabels(roc_auc),
    _one_kind,
)
AVERAGE_PRECISION = Metric(
    "average_precision",
    "area under the precision-recall curve, likewise",
    _TASKS,
    True,
    lambda: RankedLabels(average_precision),
    _one_kind,
)
