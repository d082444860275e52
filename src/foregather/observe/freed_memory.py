"""freed_memory: what torch frees stays with the process for the tensors that come next.

glibc takes tensors above 32 MiB from the system one by one and gives each back when it is freed, so
every step touches all of its memory for the first time again: page by page, each cleared by the
kernel. In a step of wide layers that is a third of the time. Results do not depend on it.
"""

import ctypes
import os

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt
_MOST = (1 << 31) - 1  # what it takes; larger tensors still come from the system
_OWN = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")  # the user chose, or brought an allocator


def keep_freed_memory() -> bool:
    """Lets the C library keep what is freed, and use it again, until the process ends.

    The process then holds what it held at most, and somewhat more for the holes between tensors
    (1.4 times in a run of our own), so it is not for processes with a memory budget. The variables
    `MALLOC_...`, `GLIBC_TUNABLES` and `LD_PRELOAD` win.

    Returns:
        Whether it was set: it is not with another C library than glibc.
    """
    if any(name.startswith(_OWN) for name in os.environ):
        return False
    choose = getattr(ctypes.CDLL(None), "mallopt", None)
    if choose is None:
        return False
    return bool(choose(_MMAP_THRESHOLD, _MOST)) and bool(choose(_TRIM_THRESHOLD, _MOST))
