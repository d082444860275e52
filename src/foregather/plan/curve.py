"""curve: the miss curve: the cost of the same batches with caches of several sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foregather import _core
from foregather.observe.calibration import Calibration
from foregather.plan.cost import ASSUMED_DISK, PlanCost, plan_cost
from foregather.plan.planner import MAX_REQUEST, PlanSummary, summarize, to_rows

__all__ = ["CurvePoint", "miss_curve"]


@dataclass(frozen=True)
class CurvePoint:
    """The cost of some bulks with a cache of `num_slots` rows (`memory` bytes)."""

    num_slots: int
    memory: int
    summary: PlanSummary
    cost: PlanCost


def miss_curve(
    bulks: Sequence[Sequence[Any]],
    geometry: _core.Geometry,
    slots: Sequence[int],
    disk: Calibration | None = None,
    *,
    merge_gap: int = 0,
) -> list[CurvePoint]:
    """Plans the bulks once for each cache size.

    Args:
        bulks: sampled bulks, in order; each is planned with the next one as look-ahead.
        geometry: the layout of the rows, and the block size.
        slots: cache sizes in rows.
        disk: the disk's calibration; None uses default figures.
        merge_gap: as in `Planner`.
    """
    rows = [to_rows(bulk, geometry.num_rows) for bulk in bulks]
    longest = max(MAX_REQUEST // geometry.block_bytes, 1) * geometry.block_bytes
    points = []
    for size in slots:
        planner = _core.Planner(geometry, size, merge_gap, longest)
        summary, cost = PlanSummary(*[0] * 13), PlanCost(0, 0, 0.0)
        for k, bulk in enumerate(rows):
            plan = planner.plan(bulk, rows[k + 1] if k + 1 < len(rows) else [])
            summary += summarize(plan)
            cost += plan_cost([plan], disk or ASSUMED_DISK)
        points.append(CurvePoint(size, size * geometry.row_bytes, summary, cost))
    return points
