"""losses: from the scores of links and of negatives to a loss, by name."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from foregather.errors import InputError

__all__ = ["LOSSES", "link_loss"]


def _bce(positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    found = functional.softplus(-positive).sum() + functional.softplus(negative).sum()
    return found / max(1, positive.numel() + negative.numel())


def _bpr(positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    return functional.softplus(negative - positive.unsqueeze(1)).mean()


def _margin(positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    return (margin - positive.unsqueeze(1) + negative).relu().mean()


def _softmax(positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    rows = torch.cat([positive.unsqueeze(1), negative], dim=1)
    return functional.cross_entropy(rows, rows.new_zeros(len(rows), dtype=torch.long))


#: Losses by name, of scores of links [n] and of the negatives of each [n, k].
LOSSES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "bce": _bce,
    "bpr": _bpr,
    "margin": _margin,
    "softmax": _softmax,
}


def link_loss(kind: str, positive: Tensor, negative: Tensor, margin: float = 1.0) -> Tensor:
    """The loss of a batch of links.

    Args:
        kind: bce (every score by itself), or those that compare a link with its own negatives:
            bpr, margin, softmax (the link among its negatives).
        positive: scores of links [n].
        negative: scores of the negatives of each link [n, k]; for bce, of any shape.
        margin: by how much a link should score higher, for margin.

    Raises:
        InputError: there is no such loss, or negatives do not belong to links.
    """
    if kind not in LOSSES:
        raise InputError(f"the loss is {kind!r}, expected {', '.join(LOSSES)}")
    if kind != "bce" and (negative.ndim != 2 or len(negative) != len(positive)):
        raise InputError(
            f"the loss {kind} compares each link with its own negatives, [{len(positive)}, k], but "
            f"they are {list(negative.shape)}"
        )
    return LOSSES[kind](positive, negative, margin)
