"""plan: pure functions that turn a bulk into a plan: which bytes to read, and when."""

from foregather.plan.choice import Choice, choose
from foregather.plan.cost import PlanCost, plan_cost
from foregather.plan.curve import miss_curve
from foregather.plan.planner import Planner, PlanSummary, file_geometry, plan_bulk, summarize

__all__ = [
    "Choice",
    "PlanCost",
    "PlanSummary",
    "Planner",
    "choose",
    "file_geometry",
    "miss_curve",
    "plan_bulk",
    "plan_cost",
    "summarize",
]
