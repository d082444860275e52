"""thinning: a part of a trace that costs as much, for its size, as the whole.

To compare ways of reading, a large bulk need not be planned in full a dozen times. What happens in
one stretch of the file depends on other stretches only through the cache, which they share. So of
every few stretches one is taken, with its share of the cache, and costs are multiplied. Stretches
are evenly spaced, so that an order of the rows is met in all its parts, and as long as their number
allows, but at least as the longest request, since none is merged over their ends. Only comparisons
are thinned, never a plan that is carried out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foregather import _core
from foregather.plan.planner import MAX_REQUEST, Rows

__all__ = ["ENOUGH", "Thinned", "thinned"]

#: Rows that suffice for a comparison.
ENOUGH = 1 << 18
_LEAST = 16  # stretches that are taken at least


@dataclass(frozen=True)
class Thinned:
    """A part of a trace.

    Attributes:
        bulks: what is left of each batch.
        every: one of so many stretches of the file was taken; 1 where all were.
        factor: what costs are to be multiplied by: all rows / those taken.
    """

    bulks: list[list[Rows]]
    every: int
    factor: float

    def slots(self, num_slots: int) -> int:
        """The share of a cache."""
        return num_slots // self.every


def thinned(
    bulks: Sequence[Sequence[Rows]], geometry: _core.Geometry, enough: int | None = None
) -> Thinned:
    """Takes evenly spaced stretches of the file, if the trace has far more than `enough` rows."""
    total = sum(len(batch) for bulk in bulks for batch in bulk)
    longest = geometry.file_bytes // MAX_REQUEST  # the file in such requests
    every = max(1, min(total // (enough or ENOUGH), longest // _LEAST))
    if every == 1:
        return Thinned([list(bulk) for bulk in bulks], 1, 1.0)

    length = longest // (_LEAST * every) * MAX_REQUEST

    def part(batch: Rows) -> Rows:
        begin = batch.astype(np.int64) * geometry.row_bytes + geometry.payload
        return np.ascontiguousarray(batch[begin // length % every == every // 2])

    kept = [[part(batch) for batch in bulk] for bulk in bulks]
    left = sum(len(batch) for bulk in kept for batch in bulk)
    if left == 0:
        return Thinned([list(bulk) for bulk in bulks], 1, 1.0)
    return Thinned(kept, every, total / left)
