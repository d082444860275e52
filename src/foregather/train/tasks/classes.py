"""classes: classification, with one class per node or several at the same time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from foregather.train.metrics.labels import loss_of
from foregather.train.metrics.metric import Array, Metric
from foregather.train.tasks.task import Baseline

__all__ = ["Classification", "Multilabel"]


@dataclass(frozen=True)
class Classification:
    """One class per node, -1 where it is missing; learned by cross entropy."""

    width: int
    name: str = "classification"
    metric: str = "accuracy"

    def describe(self) -> str:
        """With the number of classes."""
        return f"{self.name} ({self.width} classes)"

    def facts(self) -> dict[str, Any]:
        """Name and classes."""
        return {"name": self.name, "width": self.width}

    def fits(self, labels: Array) -> bool:
        """One whole number per node."""
        return labels.ndim == 1 and labels.dtype.kind in "biu"

    def known(self, labels: Array) -> npt.NDArray[np.bool_]:
        """Nodes with a class."""
        return np.asarray(labels >= 0)

    def labels(self, labels: Array) -> Array:
        """As whole numbers."""
        return labels.astype(np.int64)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean cross entropy."""
        return loss_of(scores, labels)

    def loss_sum(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Summed cross entropy."""
        return functional.cross_entropy(scores, labels.long(), reduction="sum", ignore_index=-1)

    def loss_each(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy of each node."""
        return functional.cross_entropy(scores, labels.long(), reduction="none", ignore_index=-1)

    def finish(self, scores: Any) -> Any:
        """Scores are logits, as the model gives them."""
        return scores

    def baseline(self, metric: Metric, train: Array) -> Baseline:
        """The majority class."""
        counts = np.bincount(train[train >= 0].astype(np.int64), minlength=self.width)
        row = np.zeros(len(counts))
        row[counts.argmax()] = 1.0
        ranked = metric.name in ("roc_auc", "average_precision")
        return Baseline("chance" if ranked else "majority class", row)


@dataclass(frozen=True)
class Multilabel:
    """Columns of 0 and 1, -1 or NaN where one is missing; learned by binary cross entropy."""

    width: int
    name: str = "multilabel"
    metric: str = "micro_f1"

    def describe(self) -> str:
        """With the number of labels."""
        return f"multi-label classification ({self.width} labels)"

    def facts(self) -> dict[str, Any]:
        """Name and columns."""
        return {"name": self.name, "width": self.width}

    def fits(self, labels: Array) -> bool:
        """As many columns."""
        return labels.ndim == 2 and labels.shape[1] == self.width

    def known(self, labels: Array) -> npt.NDArray[np.bool_]:
        """Nodes with at least one label."""
        return np.asarray((labels >= 0).any(axis=1))

    def labels(self, labels: Array) -> Array:
        """As they are."""
        return labels

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean binary cross entropy over known entries."""
        return loss_of(scores, labels)

    def loss_sum(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Summed binary cross entropy over known entries."""
        known = labels >= 0
        target = torch.where(known, labels, torch.zeros_like(labels)).to(scores.dtype)
        return functional.binary_cross_entropy_with_logits(
            scores, target, known.to(scores.dtype), reduction="sum"
        )

    def loss_each(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Mean binary cross entropy of each node over its known entries."""
        known = labels >= 0
        target = torch.where(known, labels, torch.zeros_like(labels)).to(scores.dtype)
        found = functional.binary_cross_entropy_with_logits(
            scores, target, known.to(scores.dtype), reduction="none"
        )
        return found.sum(1) / known.sum(1).clamp(min=1)

    def finish(self, scores: Any) -> Any:
        """Scores are logits, as the model gives them."""
        return scores

    def baseline(self, metric: Metric, train: Array) -> Baseline:
        """The labels that, given to every node, are best by the metric on the training split."""
        known = train >= 0
        ones = (known & (np.where(known, train, 0) > 0.5)).sum(0)
        given = known.sum(0)
        if metric.name in ("roc_auc", "average_precision"):
            return Baseline("chance", np.zeros(self.width))
        if metric.name == "macro_f1":
            chosen = ones > 0  # a column that is never guessed counts 0
        elif metric.name == "micro_f1":
            chosen = _best_columns(ones, given)
        else:
            chosen = 2 * ones > given
        return Baseline("the best constant labels", np.where(chosen, 1.0, -1.0))


def _best_columns(ones: Array, given: Array) -> npt.NDArray[np.bool_]:
    """The columns whose guess everywhere gives the best micro F1.

    F1 = 2 TP / (guessed + true) is raised by a column whose share of ones is above F1 / 2, so the
    best set is the first few by that share.
    """
    order = np.argsort(-ones / np.maximum(given, 1), kind="stable")
    right, guessed = np.cumsum(ones[order]), np.cumsum(given[order])
    best = int(np.argmax(2 * right / np.maximum(guessed + ones.sum(), 1)))
    chosen = np.zeros(len(ones), np.bool_)
    chosen[order[: best + 1]] = True
    return chosen
