"""scoring: scores against labels: accuracy or ROC-AUC, and what guessing would reach.

Both are exact: the AUC is the share of pairs (one of each class) that are ranked rightly, ties
counting half. Nodes without a label are not counted.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from foregather.train.metrics import count_known, count_right, share

__all__ = ["baseline", "rate", "roc_auc"]

Array = npt.NDArray[Any]


def rate(metric: str, scores: Array, labels: Array) -> float:
    """The score of some nodes by a metric; NaN where nothing can be compared.

    Args:
        metric: "accuracy" or "auc" (two classes).
        scores: one row per node.
        labels: one per node, -1 where there is none.
    """
    if metric == "auc":
        rows = scores.astype(np.float64)
        return roc_auc(rows[:, 1] - rows[:, 0], labels)
    whole = labels.astype(np.int64) if labels.ndim == 1 else labels
    given = torch.from_numpy(np.ascontiguousarray(whole))
    return share(count_right(torch.from_numpy(scores), given), count_known(given))


def roc_auc(scores: Array, labels: Array) -> float:
    """The share of pairs (a node of class 1, one of class 0) in which the first scores higher.

    Pairs with equal scores count half; NaN if a class is not there.
    """
    known = labels >= 0
    scores, labels = scores[known], labels[known]
    ones = int((labels == 1).sum())
    zeros = len(labels) - ones
    if not ones or not zeros:
        return math.nan
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)  # twice the mean rank of a group is first + last, a whole number
    twice = 2 * last - sizes + 1
    total = int(twice[group[labels == 1]].sum())
    return (total - ones * (ones + 1)) / (2 * ones * zeros)


def baseline(metric: str, train: Array, labels: Array) -> float:
    """What the best constant answer reaches: the majority class of `train`, or 0.5 for AUC.

    With several columns of labels, the majority of each column.
    """
    if metric == "auc":
        return 0.5
    if train.ndim == 2:
        known = train >= 0
        ones = (np.where(known, train, 0) > 0.5).sum(0)
        guess = np.where(2 * ones > known.sum(0), 1.0, -1.0)
        rows = np.broadcast_to(guess, labels.shape)
        return rate(metric, np.ascontiguousarray(rows), labels)
    counts = np.bincount(train[train >= 0].astype(np.int64))
    known = labels >= 0
    return share(float((labels[known] == counts.argmax()).sum()), float(known.sum()))
