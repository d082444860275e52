"""staleness: measures how stale history is, and how wrong the gradient, against an exact pass.

A reading has the relative error of history for each aggregation (against exact rows with the same
dropout) and the cosine between the gradient that a fast epoch uses and the exact one. A ladder
decides what the mode `bounded` does about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foregather.pipeline.options import Meter
from foregather.pipeline.passes.link import Link
from foregather.pipeline.passes.stage import Stage

__all__ = ["Ladder", "Reading", "compare_gradients", "history_errors"]


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement.

    Attributes:
        epoch: the epoch that was measured.
        error: the largest relative error of history over the aggregations of all stages.
        cosine: between the gradient used and the exact one, over all weights.
        length: norm of the gradient used, divided by that of the exact one.
        errors: relative error of history by layer, for the layers of this stage.
        seconds: what the measurement added to the epoch on this rank.
    """

    epoch: int
    error: float
    cosine: float
    length: float
    errors: dict[int, float]
    seconds: float = 0.0

    def within(self, meter: Meter, share: float = 1.0) -> bool:
        """Whether it is within this share of the bounds; a smaller share is stricter."""
        return self.error <= share * meter.error and 1 - self.cosine <= share * (1 - meter.cosine)

    def __str__(self) -> str:
        return (
            f"history is off by {self.error:.3g}, and the gradient has cosine {self.cosine:.3g} "
            f"with the exact one and {self.length:.3g} of its length"
        )


class Ladder:
    """The kinds of epochs of the mode `bounded`: fast, fast after a sweep, exact."""

    RUNGS = ("fast", "swept", "exact")

    def __init__(self) -> None:
        self.rung = 0

    @property
    def name(self) -> str:
        """The current rung."""
        return self.RUNGS[self.rung]

    @property
    def measured(self) -> str:
        """The rung that is measured: an exact epoch asks whether a swept one would do."""
        return self.RUNGS[min(self.rung, 1)]

    def act(self, reading: Reading, meter: Meter) -> None:
        """Moves up if a bound is exceeded, down if the reading is within half of the bounds."""
        if not reading.within(meter):
            self.rung = min(self.rung + 1, 2)
        elif reading.within(meter, 0.5):
            self.rung = max(self.rung - 1, 0)


def history_errors(
    history: dict[int, Tensor], exact: dict[int, Tensor], stage: Stage
) -> dict[int, float]:
    """Returns the relative error of history by layer: norm of the difference over true norm.

    It covers the rows of all ways; every way of a stage gets the same.
    """
    own, layers = stage.reach.own, sorted(history)
    sums = torch.zeros(2, len(layers), dtype=torch.float64)
    for i, layer in enumerate(layers):
        true = exact[layer][:own]
        sums[0, i] = float(torch.linalg.vector_norm(history[layer][:own] - true)) ** 2
        sums[1, i] = float(torch.linalg.vector_norm(true)) ** 2
    if stage.link.ways > 1:
        sums = stage.link.around(sums, torch.add, "control", stage.link.way_chain)
    return {
        layer: (wrong / norm) ** 0.5 if norm else (0.0 if wrong == 0 else float("inf"))
        for layer, wrong, norm in zip(layers, *sums.tolist(), strict=True)
    }


def compare_gradients(
    epoch: int,
    used: Sequence[Tensor],
    exact: Sequence[Tensor],
    errors: dict[int, float],
    link: Link,
) -> Reading:
    """Returns the reading of all stages together; every stage gets the same."""
    sums = torch.zeros(4, dtype=torch.float64)
    for ours, true in zip(used, exact, strict=True):
        a, b = ours.double().cpu().flatten(), true.double().cpu().flatten()
        sums[:3] += torch.stack([a @ b, a @ a, b @ b])
    sums[3] = max(errors.values(), default=0.0)

    def combine(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x[:3] + y[:3], torch.maximum(x[3:], y[3:])])

    dot, own, true_norm, error = link.agree(sums, combine).tolist()
    both = (own * true_norm) ** 0.5
    cosine = dot / both if both else float(own == true_norm)
    length = (own / true_norm) ** 0.5 if true_norm else float("inf")
    return Reading(epoch, error, cosine, length, errors)
