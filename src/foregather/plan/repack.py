"""repack: plans bulks that are first swept into a scratch file, then read from it in order.

A repacked bulk has two plans that give the same batches and leave the same rows in the cache: one
over the scratch file, after the sweep, and one by rows over the feature file, in case there is no
room for a scratch file.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from foregather import _core
from foregather.observe.calibration import Calibration
from foregather.plan.cost import WRITE_BYTES, PlanCost, plan_cost, repack_cost
from foregather.plan.planner import MAX_REQUEST, PAGE, PlanSummary, summarize, to_rows, with_block

__all__ = ["RepackPlanner", "Repacked"]


@dataclass(frozen=True, eq=False)
class Repacked:
    """The plans of one bulk.

    Attributes:
        rows: over the feature file, row by row.
        repack: the sweep, and the plan over the scratch file; None if the bulk misses no row.
        write_bytes: of the buffers through which the sweep writes.
    """

    rows: _core.Plan
    repack: _core.RepackPlan | None
    write_bytes: int = WRITE_BYTES

    def summary(self) -> PlanSummary:
        """Sums both halves: requests and bytes of the sweep and of reading back.

        Block bounds apply only to reads from the feature file, so there is none here.
        """
        if self.repack is None:
            return summarize(self.rows)
        swept, back = self.repack.request_length, summarize(self.repack.scratch)
        total = int(swept.sum())
        return replace(
            back,
            requests=back.requests + len(swept),
            blocks=back.blocks + total // PAGE,
            bytes=back.bytes + total,
            longest=max(back.longest, int(swept.max())),
        )

    def cost(self, disk: Calibration) -> PlanCost:
        """Predicted requests, bytes and seconds, writing included."""
        if self.repack is None:
            return plan_cost([self.rows], disk)
        return repack_cost(self.repack, disk, self.write_bytes)


class RepackPlanner:
    """Plans bulk after bulk for one feature file and one cache, as `Planner` does.

    Args:
        geometry: the layout of the rows.
        num_slots: feature rows the cache holds.
        merge_gap: unneeded bytes that the sweep may read rather than start a new request.
        write_bytes: of the buffers through which the sweep writes; the executor has as many.
        steps: batches of a bulk and its look-ahead at most, as in `Planner`.
    """

    def __init__(
        self,
        geometry: _core.Geometry,
        num_slots: int,
        *,
        merge_gap: int = 0,
        write_bytes: int = WRITE_BYTES,
        steps: int | None = None,
    ) -> None:
        #: The layout of the rows, and how many the cache holds.
        self.geometry, self.num_slots = with_block(geometry, PAGE), num_slots
        self._gap, self._write_bytes = merge_gap, write_bytes
        self._core = _core.Planner(
            self.geometry, num_slots, riders=False, bounds=False, steps=steps or 0
        )

    def plan(self, batches: Iterable[Any], ahead: Iterable[Any] = ()) -> Repacked:
        """Plans a bulk; arguments and errors as in `Planner.plan`."""
        count = self.geometry.num_rows
        rows = self._core.plan(to_rows(batches, count), to_rows(ahead, count))
        missed = rows.copy_row.size > 0
        repack = _core.make_repack(rows, self._gap, MAX_REQUEST) if missed else None
        return Repacked(rows, repack, self._write_bytes)

    def announce(self, plan: Repacked, disk: Calibration) -> tuple[PlanSummary, PlanCost]:
        """What a plan says it will do, and what that is predicted to cost."""
        return plan.summary(), plan.cost(disk)

    def begin_bound(self) -> None:
        """Nothing to do: repacked bulks have no block bound."""
