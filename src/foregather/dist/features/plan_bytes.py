"""plan_bytes: what the planner of an exchange takes, for the division of a budget."""

from typing import Any

from foregather import _core

__all__ = ["plan_bytes"]

_BULK = 7 << 20  # for the accesses of bulks, whose number is not known when memory is divided


def plan_bytes(geometry: Any, num_slots: int) -> int:
    """Bytes of a planner's tables and of what it needs while it plans a bulk."""
    return int(_core.planner_bytes(geometry, num_slots, 0, 0)) + _BULK
