"""link_goal: the task of links as the training loop sees it: the loss, the metric, no labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional

from foregather.nn.links.losses import link_loss
from foregather.nn.links.model import BatchLinks
from foregather.train.links.link_settings import LinkSettings
from foregather.train.metrics.by_name import find_metric
from foregather.train.metrics.metric import Accumulator, Array, Metric
from foregather.train.tasks.goal import Goal
from foregather.train.tasks.task import Baseline

__all__ = ["LinkGoal", "LinkScores", "Linking", "choose_link_metric"]


@dataclass(frozen=True)
class LinkScores:
    """What a model gave for a batch of links.

    Attributes:
        positive: scores of links, or of all pairs where they have labels [n].
        negative: of the negatives of each [n, k].
        links: the links.
        penalty: what is added to the loss, or None.
    """

    positive: Tensor
    negative: Tensor
    links: BatchLinks
    penalty: Tensor | None = None


@dataclass(frozen=True)
class Linking:
    """Link prediction; `width` are the columns of rows that are compared."""

    width: int
    settings: LinkSettings
    name: str = "link"
    metric: str = "mrr"

    def describe(self) -> str:
        """With how links are scored and learned."""
        return f"link prediction (decoder {self.settings.decoder}, loss {self.settings.loss})"

    def facts(self) -> dict[str, Any]:
        """Name and columns."""
        return {"name": self.name, "width": self.width}

    def fits(self, labels: Array) -> bool:
        """Labels of nodes are not compared."""
        return False

    def known(self, labels: Array) -> npt.NDArray[np.bool_]:
        """Labels of nodes are not compared."""
        return np.zeros(len(labels), np.bool_)

    def labels(self, labels: Array) -> Array:
        """As they are."""
        return labels

    def loss(self, scores: Any, labels: Tensor) -> Tensor:
        """The mean loss of a batch of `LinkScores`."""
        found: LinkScores = scores
        if found.links.label is not None:
            target = (found.links.label > 0).to(found.positive.dtype)
            made = functional.binary_cross_entropy_with_logits(found.positive, target)
        else:
            wanted = self.settings
            made = link_loss(wanted.loss, found.positive, found.negative, wanted.margin)
        return made if found.penalty is None else made + found.penalty

    def loss_sum(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Links are not learned on the full graph."""
        raise NotImplementedError

    def loss_each(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Links are not weighted."""
        raise NotImplementedError

    def finish(self, scores: Any) -> Any:
        """As the model gives them."""
        return scores

    def baseline(self, metric: Metric, train: Array) -> Baseline:
        """Popularity is of targets, so it is no constant row; see `popularity`."""
        raise NotImplementedError


@dataclass(frozen=True)
class LinkGoal(Goal):
    """Link prediction, rated by a metric against candidates."""

    def add(self, to: Accumulator, scores: Any, labels: Any) -> None:
        """Nothing: negatives of training are no candidates."""


def choose_link_metric(name: str) -> Metric:
    """The metric of this name; auto is mrr.

    Raises:
        InputError: it is unknown, or not for links.
    """
    return find_metric("mrr" if name == "auto" else name, "link")
