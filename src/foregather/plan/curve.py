"""curve: reads against memory, and how to split one budget between several feature files.

A miss curve holds what the same batches cost with caches of several sizes. Belady's misses are
convex in the memory, so giving the next piece of a budget to the file where it saves most is the
best split.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foregather import _core
from foregather.errors import InputError
from foregather.observe.calibration import Calibration
from foregather.plan.cost import ASSUMED_DISK, PlanCost, plan_cost
from foregather.plan.planner import MAX_REQUEST, PlanSummary, summarize, to_rows

__all__ = ["CurvePoint", "Need", "miss_curve", "split_budget"]

_POINTS = 8


@dataclass(frozen=True)
class CurvePoint:
    """What some bulks cost with a cache of `num_slots` rows (`memory` bytes)."""

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
        bulks: sampled bulks, in order; each is planned with the next one in view.
        geometry: where the rows lie, and the block size.
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


@dataclass(frozen=True)
class Need:
    """One feature file and the rows its bulks ask for."""

    geometry: _core.Geometry
    bulks: Sequence[Sequence[Any]]


def split_budget(
    needs: Mapping[str, Need], budget: int, disk: Calibration | None = None
) -> dict[str, int]:
    """Slots for each feature file, such that the next byte would save about the same time in each.

    Every file's miss curve is sampled at 8 sizes up to the budget; pieces go, one by one, to the
    file where they save most seconds a byte. The sum of slots * row bytes is at most the budget.

    Raises:
        InputError: the budget is negative.
    """
    if budget < 0:
        raise InputError(f"a budget of {budget} bytes was given; expected 0 or more")
    curves: dict[str, list[tuple[int, float]]] = {}
    for name, need in needs.items():
        most = min(need.geometry.num_rows, budget // need.geometry.row_bytes)
        sizes = sorted({most * k // _POINTS for k in range(_POINTS + 1)})
        points = miss_curve(need.bulks, need.geometry, sizes, disk)
        curves[name] = _convex([(p.num_slots, p.cost.seconds) for p in points])
    slots, left = dict.fromkeys(needs, 0), budget
    while True:
        gains = []
        for name, curve in curves.items():
            row_bytes = needs[name].geometry.row_bytes
            at = next((k for k, point in enumerate(curve) if point[0] > slots[name]), None)
            if at is None or left < row_bytes:
                continue
            size, saved = curve[at][0] - curve[at - 1][0], curve[at - 1][1] - curve[at][1]
            gains.append((saved / (size * row_bytes), name, curve[at][0] - slots[name]))
        if not gains or max(gains)[0] <= 0:
            return slots
        _, name, wanted = max(gains)
        given = min(wanted, left // needs[name].geometry.row_bytes)
        slots[name] += given
        left -= given * needs[name].geometry.row_bytes


def _convex(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The lower convex hull: where a piece saves less than a later one, they are one piece."""
    hull: list[tuple[int, float]] = []
    for x, y in points:
        while len(hull) >= 2:
            (x0, y0), (x1, y1) = hull[-2], hull[-1]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return hull
