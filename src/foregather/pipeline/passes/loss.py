"""loss: sums the training loss over rows; the caller divides it by all training nodes."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from foregather.errors import InputError

__all__ = ["Loss", "default_loss", "own_loss"]

Loss = Callable[[Tensor, Tensor], Tensor]


def default_loss(labels: Tensor) -> Loss:
    """Chooses a sum over rows: cross-entropy (classes), logistic (multi-label) or squares."""
    if labels.is_floating_point():
        return _squares
    return _classes if labels.ndim == 1 else _multi_label


def own_loss(loss: Loss) -> Loss:
    """A user's loss: whole numbers reach it as int64, and a mean over rows is refused.

    A mean would be divided by the number of training nodes once more, and train almost nothing. It
    is tried with a few rows of the first call: given twice, their sum is twice as large.
    """
    tried = False

    def call(scores: Tensor, labels: Tensor) -> Tensor:
        nonlocal tried
        if not labels.is_floating_point():
            labels = labels.long()
        if not tried and scores.shape[0]:
            tried = True
            _refuse_mean(loss, scores.detach()[:8], labels[:8])
        return loss(scores, labels)

    return call


def _refuse_mean(loss: Loss, scores: Tensor, labels: Tensor) -> None:
    with torch.no_grad():
        once = float(loss(scores, labels))
        twice = float(loss(torch.cat([scores, scores]), torch.cat([labels, labels])))
    if once and abs(twice - once) <= 1e-4 * abs(once):
        raise InputError(
            f"loss gives {once:.6g} for {scores.shape[0]} rows and the same for these rows twice, "
            "so it is a mean; expected a sum over rows, which is divided by all training nodes: "
            "use reduction='sum'"
        )


def _classes(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores, labels.long(), reduction="sum", ignore_index=-1)


def _multi_label(scores: Tensor, labels: Tensor) -> Tensor:
    known = (labels >= 0).to(scores.dtype)
    target = labels.clamp(min=0).to(scores.dtype)
    return functional.binary_cross_entropy_with_logits(scores, target, known, reduction="sum")


def _squares(scores: Tensor, labels: Tensor) -> Tensor:
    known = ~labels.isnan()
    difference = scores.reshape(labels.shape)[known] - labels.to(scores.dtype)[known]
    return difference.square().sum()
