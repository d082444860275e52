"""working_memory: what a budget leaves for the work itself."""

import os

from foregather.errors import BudgetError
from foregather.observe.usable_memory import usable_memory
from foregather.units import format_bytes

__all__ = ["working_memory"]

_LEAST = 96 << 20  # working memory below which buffers would be absurdly small


def working_memory(memory: int, beside: int = 0) -> int:
    """Returns what the budget leaves after the interpreter and loaded libraries.

    A budget above the machine's free memory is reduced to it.

    Args:
        memory: the budget.
        beside: bytes that a library takes for itself.

    Raises:
        BudgetError: the budget is below the least that this needs, which it says.
    """
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    least = resident + _LEAST + beside
    if memory < least:
        raise BudgetError(
            f"--memory is {format_bytes(memory)}, but this needs at least {format_bytes(least)}; "
            "raise it"
        )
    memory = min(memory, max(least, resident + usable_memory()))
    return memory - resident - beside - (_LEAST // 3)  # the rest of _LEAST covers small allocations
