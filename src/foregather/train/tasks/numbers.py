"""numbers: regression of one or more numbers per node.

A model gives each number standardised: distance from the mean of the training labels, in their
standard deviations, so that labels of any unit are learned at the usual learning rates. Losses are
in these units; scores are turned back (`finish`) before anybody sees them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from foregather.train.metrics.metric import Array, Metric, columns_of
from foregather.train.tasks.task import Baseline

__all__ = ["Loss", "Regression", "to_numbers"]

Loss = Literal["l2", "l1", "huber"]
_LOSSES: dict[str, Callable[..., Tensor]] = {
    "l2": functional.mse_loss,
    "l1": functional.l1_loss,
    "huber": functional.huber_loss,
}


def to_numbers(labels: Array) -> Array:
    """Labels as float64, NaN where one is missing: among whole numbers, -1."""
    if labels.dtype.kind in "iu":
        return np.where(labels == -1, np.nan, labels.astype(np.float64))
    return labels.astype(np.float64)


@dataclass(frozen=True)
class Regression:
    """Numbers, NaN where one is missing.

    Attributes:
        mean: of each column, over the training split.
        scale: its standard deviation there; 1 where it has none.
        by: l2, l1 or huber, of standardised numbers.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    by: Loss = "l2"
    name: str = "regression"
    metric: str = "rmse"

    @property
    def width(self) -> int:
        """One column for each number."""
        return len(self.mean)

    def describe(self) -> str:
        """With the numbers per node."""
        what = "one number" if self.width == 1 else f"{self.width} numbers"
        return f"regression ({what} per node, {self.by} loss)"

    def facts(self) -> dict[str, Any]:
        """Also what numbers are standardised by."""
        found = {"name": self.name, "width": self.width, "loss": self.by}
        return {**found, "mean": list(self.mean), "scale": list(self.scale)}

    def fits(self, labels: Array) -> bool:
        """As many numbers per node."""
        return (labels.shape[1] if labels.ndim == 2 else 1) == self.width

    def known(self, labels: Array) -> npt.NDArray[np.bool_]:
        """Nodes with at least one number."""
        there = ~np.isnan(to_numbers(labels))
        return np.asarray(there if there.ndim == 1 else there.any(axis=1))

    def labels(self, labels: Array) -> Array:
        """As float64."""
        return to_numbers(labels)

    def _away(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and standardised labels where there are any."""
        known, target = self._targets(scores, labels)
        return scores[known], target[known]

    def _targets(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Which numbers are known, and all of them standardised."""
        given = labels[:, None] if labels.ndim == 1 else labels
        known = ~torch.isnan(given) if given.is_floating_point() else given != -1
        mean, scale = (
            torch.tensor(one, dtype=torch.float64, device=scores.device)
            for one in (self.mean, self.scale)
        )
        return known, ((given.double() - mean) / scale).to(scores.dtype)

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean over known entries."""
        found, target = self._away(scores, labels)
        return _LOSSES[self.by](found, target) if len(found) else scores.sum() * 0.0

    def loss_sum(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The sum over known entries."""
        found, target = self._away(scores, labels)
        return _LOSSES[self.by](found, target, reduction="sum")

    def loss_each(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean of each node over its known entries."""
        known, target = self._targets(scores, labels)
        aim = torch.where(known, target, scores.detach())  # no distance where nothing is known
        found = _LOSSES[self.by](scores, aim, reduction="none")
        return found.sum(1) / known.sum(1).clamp(min=1)

    def finish(self, scores: Any) -> Any:
        """In the unit of the labels, as float32."""
        if isinstance(scores, Tensor):
            scale = torch.tensor(self.scale, dtype=torch.float64, device=scores.device)
            mean = torch.tensor(self.mean, dtype=torch.float64, device=scores.device)
            return (scores.double() * scale + mean).float()
        rows = scores.astype(np.float64) * np.array(self.scale) + np.array(self.mean)
        return rows.astype(np.float32)

    def baseline(self, metric: Metric, train: Array) -> Baseline:
        """The mean of the training labels, or their median where distances are not squared."""
        numbers = columns_of(to_numbers(train))
        if metric.name == "mae":
            return Baseline("the median", _by_column(np.median, numbers))
        return Baseline("the mean", _by_column(np.mean, numbers))


def _by_column(what: Any, numbers: Array) -> Array:
    columns = [column[~np.isnan(column)] for column in numbers.T]
    return np.array([what(one) if len(one) else 0.0 for one in columns])
