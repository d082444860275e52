"""column_sums: sums over columns whose rows lie with several ranks.

They are in the whole numbers of `_core.FixedPoint`, as in the kernels: those add up to the same sum
in any order and on any number of ranks.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.sampling.rows import pointer

__all__ = ["add_by_batch", "add_by_column"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
_HALF = 31  # bits of a number that is added in two halves, each of which a double holds exactly


def add_by_column(columns: Array, units: Int) -> tuple[Array, Int]:
    """Distinct columns, ascending, and the sum of the units of each."""
    distinct, place = np.unique(columns, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, units)
    return distinct, sums


def add_by_batch(ptr: Int, columns: Array, units: Int, threads: int) -> tuple[Int, Array, Int]:
    """Adds whole numbers by column, for each minibatch by itself, in the kernel of one rank.

    The kernel scales doubles to whole numbers and adds these. Halves of 31 bits are doubles that
    it scales by a power of two of at least 1, so that nothing is rounded; the power is taken back
    from the sums.

    Args:
        ptr: where the entries of each minibatch begin.
        columns: their columns.
        units: their numbers, from 0 to 2^62 - 1; sums are below 2^62, too.
        threads: threads to use.

    Returns:
        How many distinct columns each minibatch has, those columns, ascending, and their sums.
    """
    batches, sums = len(ptr) - 1, np.zeros(0, np.int64)
    counts, unit = np.empty(batches, np.int64), np.empty(batches, np.float64)
    ids, part = np.empty_like(columns), np.empty(len(columns), np.int64)
    for half in (units >> _HALF, units & ((1 << _HALF) - 1)):
        _core.sum_columns(ptr, columns, half.astype(np.float64), ids, part, counts, unit, threads)
        starts = pointer(counts)
        take = np.arange(starts[-1]) + np.repeat(ptr[:-1] - starts[:-1], counts)
        scale = np.repeat(-np.frexp(unit)[1] + 1, counts)  # a unit is 2^-scale
        added = part[take] >> scale
        sums = added if not len(sums) else (sums << _HALF) + added
    return counts, ids[take], sums
