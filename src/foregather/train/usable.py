"""usable: how much memory this process may plan with, for `memory="auto"`."""

import os

from foregather.observe.machine import memory_limit

__all__ = ["usable_memory"]

_SHARE = 0.8  # of what is free; the rest is for the model, torch and the system


def usable_memory() -> int:
    """Bytes: most of what the machine has free, within the limit of the process's cgroups."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    limit = memory_limit()
    return int(_SHARE * (free if limit is None else min(free, limit)))
