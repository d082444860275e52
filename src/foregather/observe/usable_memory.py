"""usable_memory: how much memory this process may plan with: `memory="auto"`."""

import ctypes
import gc
import os

from foregather.observe.machine import memory_limit

__all__ = ["trim_memory", "usable_memory"]

_SHARE = 0.8  # share of the free memory; the rest is for the model, torch and the system


def usable_memory() -> int:
    """Returns most of the free memory in bytes, within the limits of the process's cgroups."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free = _kilobytes("/proc/meminfo", "MemAvailable:", free)
    limit = memory_limit()
    if limit is not None:  # memory this process already holds counts there and is not free
        free = min(free, max(0, limit - _kilobytes("/proc/self/status", "RssAnon:", 0)))
    return int(_SHARE * free)


def _kilobytes(path: str, name: str, other: int) -> int:
    """Returns a line of a system file, in bytes."""
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return other


def trim_memory() -> None:
    """Returns freed memory to the system instead of leaving it with the C library.

    Otherwise memory freed by one part of a run would count in addition to the budget of the next:
    tens of megabytes after a sweep. Reference cycles are collected first.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)
