"""call_planner: plans single calls, where no future is known: rows asked for again are kept.

The rule is SIEVE's; what is missing is read in sorted, merged, aligned blocks.
"""

from typing import Any, NamedTuple

import numpy.typing as npt

from foregather import _core

__all__ = ["SLOT_BYTES", "CallPlan", "CallPlanner"]

Array = npt.NDArray[Any]

#: Bytes of the planner's tables for a slot.
SLOT_BYTES: int = _core.CallPlanner.SLOT_BYTES


class CallPlan(NamedTuple):
    """The plan of a call.

    Attributes:
        core: one step, of the distinct rows.
        inverse: where each row of the call is among those; None where they are the rows, in order.
    """

    core: _core.Plan
    inverse: Array | None


class CallPlanner:
    """Plans call after call for one feature file and one cache.

    Args:
        geometry: where the rows lie.
        num_slots: feature rows the cache holds.
        merge_gap: two blocks are read in one request if at most these bytes lie between them.
        max_request: the longest request, but for rows that are wider.
    """

    def __init__(
        self, geometry: _core.Geometry, num_slots: int, merge_gap: int, max_request: int
    ) -> None:
        self._core = _core.CallPlanner(geometry, num_slots, merge_gap, max_request)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the tables."""
        return self._core.memory_bytes

    def plan(self, rows: Array) -> CallPlan:
        """The plan of a call for these rows.

        Raises:
            InputError: a row is out of range; the planner is as before.
        """
        return CallPlan(*self._core.plan(rows))
