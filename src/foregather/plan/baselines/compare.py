"""compare: runs every policy on the same trace at several cache sizes, as rows of a table.

Reads are counted from real plans; seconds are the cost model's. A caller with an executor can run
each plan as it is made; its measurement is stored with the prediction.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foregather import _core
from foregather.observe.calibration import Calibration
from foregather.plan.baselines.policies import POLICIES, Setting, run_policy
from foregather.plan.cost import ASSUMED_DISK, PlanCost, plan_cost
from foregather.plan.planner import PlanSummary, Rows, summarize

__all__ = ["Compared", "compare", "trace_bound"]

#: Carries out a plan and returns what it measured.
Execute = Callable[[_core.Plan, Sequence[Rows]], PlanCost]


@dataclass(frozen=True)
class Compared:
    """One policy at one cache size.

    Attributes:
        policy: its name.
        memory: cache bytes.
        summary: counts of all plans together.
        cost: predicted requests, bytes and seconds.
        plan_seconds: time spent planning.
        measured: what an executor measured, or None.
    """

    policy: str
    memory: int
    summary: PlanSummary
    cost: PlanCost
    plan_seconds: float
    measured: PlanCost | None = None


def compare(
    trace: Sequence[Sequence[Rows]],
    setting: Setting,
    slots: Iterable[int],
    policies: Sequence[str] | None = None,
    disk: Calibration | None = None,
    execute: Execute | None = None,
) -> list[Compared]:
    """Plans the trace with each policy and each cache size, in that order.

    Args:
        trace: bulks of batches of row ids.
        setting: the common input of all policies; its `num_slots` is replaced.
        slots: cache sizes in rows.
        policies: names of `POLICIES`; None for all.
        disk: the disk's calibration; None uses default figures.
        execute: carries out every plan, in order; None only counts.
    """
    found = []
    for size in slots:
        for name in policies or POLICIES:
            given = replace(setting, num_slots=size, bounds=False)
            found.append(_one(name, trace, given, disk or ASSUMED_DISK, execute))
    return found


def _one(
    name: str,
    trace: Sequence[Sequence[Rows]],
    setting: Setting,
    disk: Calibration,
    execute: Execute | None,
) -> Compared:
    summary, cost, spent = PlanSummary(*[0] * 13), PlanCost(0, 0, 0.0), 0.0
    measured = PlanCost(0, 0, 0.0) if execute else None
    plans = run_policy(name, trace, setting)
    for bulk in trace:
        start = time.perf_counter()
        plan = next(plans)
        spent += time.perf_counter() - start
        summary += summarize(plan)
        cost += plan_cost([plan], disk)
        if execute is not None and measured is not None:
            measured += execute(plan, bulk)
    memory = setting.num_slots * setting.geometry.row_bytes
    return Compared(name, memory, summary, cost, spent, measured)


def trace_bound(
    trace: Sequence[Sequence[Rows]], geometry: _core.Geometry, num_slots: int
) -> tuple[int, int]:
    """(rows, blocks): the fewest reads for the whole trace from an empty cache."""
    batches = [batch for bulk in trace for batch in bulk]
    return _core.lower_bounds(geometry, batches, num_slots, np.empty(0, np.uint32))
