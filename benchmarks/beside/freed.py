"""freed: the same work with memory that goes back to the system, and with memory that is kept.

glibc gives tensors above 32 MiB back as soon as they are freed, so the next step touches its memory
for the first time again. `foregather.keep_freed_memory` changes that for the whole process, and a
user of PyG can have the same by an environment variable or another allocator. So both are measured
for both sides, in turns in one process.
"""

import ctypes

from .rounds import Turn, Work

__all__ = ["GIVEN_BACK", "KEPT", "both_ways"]

KEPT, GIVEN_BACK = "memory kept", "memory given back"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt
_LIMITS = {  # of what comes from the system one by one, and of what is kept; by default up to these
    KEPT: ((1 << 31) - 1, (1 << 31) - 1),
    GIVEN_BACK: (32 << 20, 64 << 20),
}


def both_ways(works: dict[str, Work]) -> dict[str, Work]:
    """Each work twice."""
    return {f"{name}, {way}": _under(way, work) for name, work in works.items() for way in _LIMITS}


def _under(way: str, work: Work) -> Work:
    def turn(number: int) -> Turn:
        library = ctypes.CDLL(None)
        single, held = _LIMITS[way]
        library.mallopt(_MMAP_THRESHOLD, single)
        library.mallopt(_TRIM_THRESHOLD, held)
        library.malloc_trim(0)  # what the turn before kept
        return work(number)

    return turn
