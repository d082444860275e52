"""labels_right: accuracy and F1, from counts by class that add up over batches and ranks.

Labels [n] are classes, and the guess is the highest score (of equals, the first). Labels [n, C] are
0 or 1 in each column, and the guess is 1 where the score is above 0; scores [n] with labels [n] are
one such column. Negative numbers and NaN are missing labels.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from foregather.train.metrics.metric import Array, Metric, columns_of, to_array

__all__ = ["ACCURACY", "MACRO_F1", "MICRO_F1", "LabelCounts"]

Counts = npt.NDArray[np.int64]


class LabelCounts:
    """Counts by class: rightly guessed, guessed, true, and labels that are known.

    Args:
        finish: from the counts to the value.
    """

    def __init__(self, finish: Callable[["LabelCounts"], float]) -> None:
        self._finish = finish
        self.counts: Counts = np.zeros((4, 0), np.int64)
        self.columns = False

    def update(self, scores: Any, labels: Any) -> None:
        """Adds rows of scores and their labels."""
        rows, given = to_array(scores), to_array(labels)
        self.columns = self.columns or rows.ndim == 1 or given.ndim == 2
        count = _in_columns if self.columns else _in_classes
        self._add(count(columns_of(rows), given))

    def _add(self, counts: Counts) -> None:
        width = max(counts.shape[1], self.counts.shape[1])
        total = np.zeros((4, width), np.int64)
        for part in (self.counts, counts):
            total[:, : part.shape[1]] += part
        self.counts = total

    def state(self) -> dict[str, Any]:
        """The counts."""
        return {"counts": torch.from_numpy(self.counts.copy()), "columns": self.columns}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Adds the counts of another."""
        self.columns = self.columns or bool(state["columns"])
        self._add(to_array(state["counts"]))

    def value(self) -> float:
        """The metric; NaN without a known label."""
        return self._finish(self) if self.counts[3].any() else math.nan


def _in_classes(scores: Array, labels: Array) -> Counts:
    known = labels >= 0
    true, guess = labels[known].astype(np.int64), scores[known].argmax(1)
    width = max(scores.shape[1], int(true.max(initial=-1)) + 1)
    named = (guess[guess == true], guess, true, true)
    return np.stack([np.bincount(one, minlength=width) for one in named])


def _in_columns(scores: Array, labels: Array) -> Counts:
    labels = columns_of(labels)
    known = labels >= 0  # NaN is not
    true, guess = known & (labels > 0.5), known & (scores > 0)
    return np.stack([one.sum(0, dtype=np.int64) for one in (guess & true, guess, true, known)])


def _accuracy(found: LabelCounts) -> float:
    right, guessed, true, known = (int(row.sum()) for row in found.counts)
    if found.columns:
        right = known - guessed - true + 2 * right
    return right / known


def _micro(found: LabelCounts) -> float:
    right, guessed, true, _ = (int(row.sum()) for row in found.counts)
    return 2 * right / (guessed + true) if guessed + true else 0.0


def _macro(found: LabelCounts) -> float:
    right, guessed, true, known = found.counts.tolist()
    each = [2 * r / (g + t) if g + t else 0.0 for r, g, t in zip(right, guessed, true, strict=True)]
    # A class that nobody has and nobody guessed is not there; a column of labels is.
    there = [
        k > 0 if found.columns else g + t > 0 for g, t, k in zip(guessed, true, known, strict=True)
    ]
    shown = [one for one, is_there in zip(each, there, strict=True) if is_there]
    return math.fsum(shown) / len(shown)


_TASKS = ("classification", "multilabel")

ACCURACY = Metric(
    "accuracy",
    "share of labels that are right; of several columns, of all their entries",
    _TASKS,
    True,
    lambda: LabelCounts(_accuracy),
)
MACRO_F1 = Metric(
    "macro_f1",
    "mean over classes of F1, so that rare classes count as much as frequent ones",
    _TASKS,
    True,
    lambda: LabelCounts(_macro),
)
MICRO_F1 = Metric(
    "micro_f1",
    "F1 of all labels together; with one label per node it is the accuracy",
    _TASKS,
    True,
    lambda: LabelCounts(_micro),
)
