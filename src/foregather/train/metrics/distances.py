"""distances: MAE, RMSE and R2 of numbers, from sums without rounding.

Sums of float64 depend on their order; these are kept as whole numbers, so the value has the same
bits however rows were divided into batches and ranks. With several columns, each has its own value,
and the metric is their mean. NaN is a missing label.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from foregather.errors import NumericError
from foregather.train.metrics.metric import Array, Metric, columns_of, to_array

__all__ = ["MAE", "R2", "RMSE", "Distances", "exact_sum"]

_BITS = 1128  # every float64 is a whole number of 2**-1128, with room for 53 bits below the least
_HALF = 27


def exact_sum(values: Array) -> int:
    """The sum of float64 without rounding, as a multiple of 2**-1128.

    Raises:
        NumericError: one of them is not finite.
    """
    flat = np.asarray(values, np.float64).reshape(-1)
    if not np.isfinite(flat).all():
        raise NumericError(
            "a distance of a score from its label, or its square, is beyond float64; check the "
            "labels, and try a smaller learning rate"
        )
    part, power = np.frexp(flat)
    whole = np.ldexp(part, 53).astype(np.int64)
    total = 0
    for one in np.unique(power).tolist():
        here = whole[power == one]  # halves, so that 2**36 of them do not overflow
        high, low = here >> _HALF, here & ((1 << _HALF) - 1)
        total += ((int(high.sum()) << _HALF) + int(low.sum())) << (one - 53 + _BITS)
    return total


class Distances:
    """By column: how many labels, and exact sums of what a metric needs.

    Args:
        each: the metric of one column, from its number of labels and the sums over them of
            distance, squared distance, label and squared label.
    """

    def __init__(self, each: Callable[[int, list[Fraction]], float]) -> None:
        self._each = each
        self.columns: list[list[int]] = []

    def update(self, scores: Any, labels: Any) -> None:
        """Adds rows of scores and their labels."""
        given = columns_of(to_array(labels).astype(np.float64))
        rows = to_array(scores).astype(np.float64).reshape(given.shape)
        found = []
        for column in range(given.shape[1]):
            known = ~np.isnan(given[:, column])
            label = given[known, column]
            with np.errstate(over="ignore"):  # `exact_sum` refuses infinity
                away = np.abs(rows[known, column] - label)
                sums = (away, np.square(away), label, np.square(label))
            found.append([int(known.sum()), *map(exact_sum, sums)])
        self._add(found)

    def _add(self, columns: list[list[int]]) -> None:
        if not self.columns:
            self.columns = [[0] * 5 for _ in columns]
        for mine, other in zip(self.columns, columns, strict=True):
            mine[:] = [a + b for a, b in zip(mine, other, strict=True)]

    def state(self) -> dict[str, Any]:
        """Counts and sums by column, as texts: they have more digits than JSON readers keep."""
        return {"columns": [[hex(one) for one in column] for column in self.columns]}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Adds the sums of another."""
        if state["columns"]:
            self._add([[int(one, 16) for one in column] for column in state["columns"]])

    def value(self) -> float:
        """The mean over columns; NaN where no column has a value."""
        found = [
            self._each(count, [Fraction(one, 1 << _BITS) for one in sums])
            for count, *sums in self.columns
            if count
        ]
        there = [one for one in found if not math.isnan(one)]
        return math.fsum(there) / len(there) if there else math.nan


def _mae(count: int, sums: list[Fraction]) -> float:
    return float(sums[0] / count)


def _rmse(count: int, sums: list[Fraction]) -> float:
    return math.sqrt(sums[1] / count)


def _r2(count: int, sums: list[Fraction]) -> float:
    _, squares, total, total_squares = sums
    spread = total_squares - total * total / count
    return float(1 - squares / spread) if spread > 0 else math.nan


def _one_value(labels: Array) -> str:
    columns = columns_of(labels)
    for column in columns.T:
        known = column[~np.isnan(column)]
        if len(known) and known.min() < known.max():
            return ""
    return "all its labels are equal, so there is no variance to explain"


MAE = Metric(
    "mae",
    "mean absolute error, in the unit of the labels",
    ("regression",),
    False,
    lambda: Distances(_mae),
)
RMSE = Metric(
    "rmse",
    "root of the mean squared error, in the unit of the labels",
    ("regression",),
    False,
    lambda: Distances(_rmse),
)
R2 = Metric(
    "r2",
    "share of the labels' variance that is explained; 0 for their mean",
    ("regression",),
    True,
    lambda: Distances(_r2),
    _one_value,
)
