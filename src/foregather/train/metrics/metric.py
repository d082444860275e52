"""metric: what a score is: its name, the tasks it fits, its direction, and how it adds up.

A metric is computed by an accumulator: batches are added in any order, ranks exchange states, and
the value is that of all rows at once, never a mean of means.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Accumulator", "Array", "Metric", "columns_of", "to_array"]

Array = npt.NDArray[Any]


class Accumulator(Protocol):
    """Adds up what a metric needs to know of scores and labels."""

    def update(self, scores: Any, labels: Any) -> None:
        """Adds rows of scores (tensors or arrays) and their labels; missing labels do not count."""

    def state(self) -> dict[str, Any]:
        """What was added, as tensors, whole numbers and lists: for checkpoints and other ranks."""

    def merge(self, state: Mapping[str, Any]) -> None:
        """Adds what another accumulator of the same metric has seen."""

    def value(self) -> float:
        """The metric of all rows added; NaN where nothing can be compared."""


def _always(labels: Array) -> str:
    """Labels that are there can be compared."""
    return ""


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        name: as in settings and in every output.
        about: one line for people.
        tasks: names of the tasks whose scores it compares.
        higher_is_better: its direction.
        start: makes an empty accumulator.
        unfit: why it has no value for these labels, as the end of a sentence; empty if it has one.
    """

    name: str
    about: str
    tasks: tuple[str, ...]
    higher_is_better: bool
    start: Callable[[], Accumulator]
    unfit: Callable[[Array], str] = _always

    def of(self, scores: Any, labels: Any) -> float:
        """The metric of rows that are there at once."""
        found = self.start()
        found.update(scores, labels)
        return found.value()

    def is_better(self, new: float, old: float) -> bool:
        """Whether a value is better than another."""
        return new > old if self.higher_is_better else new < old


def columns_of(values: Array) -> Array:
    """One column for labels [n], as they are for [n, C]; also where there are no rows."""
    return values[:, None] if values.ndim == 1 else values


def to_array(values: Any) -> Array:
    """Rows as an array of this process: tensors of any device, arrays and lists."""
    if isinstance(values, Tensor):
        rows = values.detach()
        wide = rows.float() if rows.dtype in (torch.bfloat16, torch.float16) else rows
        found: Array = wide.cpu().numpy()
        return found
    return np.asarray(values)
