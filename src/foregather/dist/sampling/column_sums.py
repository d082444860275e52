"""column_sums: sums over columns whose rows lie with several ranks.

They are in the whole numbers of `_core.FixedPoint`, as in the kernels: those add up to the same sum
in any order and on any number of ranks.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["add_by_column"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


def add_by_column(columns: Array, units: Int) -> tuple[Array, Int]:
    """Distinct columns, ascending, and the sum of the units of each."""
    distinct, place = np.unique(columns, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, units)
    return distinct, sums
