"""fixed_point: integer sums over columns whose rows are held by several ranks.

As FixedPoint in sampling_verbs.hpp: a value is a whole number of units, at least one unless it is
0; the unit follows from the largest value and the number of entries. Whole numbers add up to the
same sum in any order and on any number of ranks.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["FixedPoint", "add_by_column"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FixedPoint:
    """Units for `entries` values of which `largest` is the largest."""

    largest: float
    entries: int

    @property
    def exponent(self) -> int:
        """A unit is 2 to the power of -exponent."""
        above = math.frexp(self.largest)[1] if self.largest > 0 else 0
        return 61 - int(self.entries).bit_length() - above

    @property
    def unit(self) -> float:
        """The value of one unit."""
        return math.ldexp(1.0, -self.exponent)

    def units(self, values: npt.NDArray[np.float64]) -> Int:
        """Values as whole numbers of units."""
        whole = (np.ldexp(values, self.exponent) + 0.5).astype(np.int64)
        return np.where(values > 0, np.maximum(whole, 1), 0)


def add_by_column(columns: Array, units: Int) -> tuple[Array, Int]:
    """Distinct columns, ascending, and the sum of the units of each."""
    distinct, place = np.unique(columns, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, units)
    return distinct, sums
