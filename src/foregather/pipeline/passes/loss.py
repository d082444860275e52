"""loss: sums the training loss over rows; the caller divides it by all training nodes."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

__all__ = ["Loss", "default_loss"]

Loss = Callable[[Tensor, Tensor], Tensor]


def default_loss(labels: Tensor) -> Loss:
    """Chooses a sum over rows: cross-entropy (classes), logistic (multi-label) or squares."""
    if labels.is_floating_point():
        return _squares
    return _classes if labels.ndim == 1 else _multi_label


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
