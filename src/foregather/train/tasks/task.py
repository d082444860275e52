"""task: what a run learns, as the training loop sees it."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from foregather.train.metrics.metric import Array, Metric

__all__ = ["Baseline", "Task"]


@dataclass(frozen=True)
class Baseline:
    """The best answer that looks at no node.

    Attributes:
        name: what it answers, such as "majority class".
        row: the scores that it gives to every node.
    """

    name: str
    row: Array

    def of(self, metric: Metric, labels: Array) -> float:
        """What it reaches on labels, as `Task.labels` returns them."""
        rows = np.broadcast_to(self.row, (len(labels), len(self.row)))
        return metric.of(rows, labels)


class Task(Protocol):
    """A task of nodes.

    Attributes:
        name: as in settings.
        width: columns of scores that a model must give.
        metric: the name of the usual metric.
    """

    @property
    def name(self) -> str:
        """As in settings."""

    @property
    def width(self) -> int:
        """Columns of scores that a model must give."""

    @property
    def metric(self) -> str:
        """The name of the usual metric."""

    def describe(self) -> str:
        """What is learned, for people: "classification (7 classes)"."""

    def facts(self) -> dict[str, Any]:
        """What `tasks.find.task_from` needs to make this task again, as JSON."""

    def fits(self, labels: Array) -> bool:
        """Whether labels of another graph can be compared with scores of this task."""

    def known(self, labels: Array) -> npt.NDArray[np.bool_]:
        """Which nodes have a label, or at least one of several."""

    def labels(self, labels: Array) -> Array:
        """Labels as metrics expect them: classes (-1: missing) or numbers (NaN: missing)."""

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of a batch over its known labels; 0 if it has none."""

    def loss_sum(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss summed over rows; full-graph training divides it by all training nodes."""

    def loss_each(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss of each row, over its known labels; 0 where it has none."""

    def finish(self, scores: Any) -> Any:
        """From what a model gives (tensor or array) to scores in the unit of the labels."""

    def baseline(self, metric: Metric, train: Array) -> Baseline:
        """The best constant answer by a metric, seeing only the labels of the training split."""
