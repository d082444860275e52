"""What the kernel counts of this process's disk traffic, without page faults of a busy machine."""

import resource
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Result = TypeVar("Result")
TRIES = 40


def counted() -> tuple[int, int]:
    """Bytes that this process read from disks and wrote to them so far."""
    if not Path("/proc/self/io").exists():
        pytest.skip("no /proc/self/io here")
    lines = Path("/proc/self/io").read_text().splitlines()
    facts = dict(line.split(": ") for line in lines)
    return int(facts["read_bytes"]), int(facts["write_bytes"])


def undisturbed(work: Callable[[], Result]) -> tuple[Result, int, int]:
    """Does some work again until no page of code or of a mapped file was read meanwhile.

    The kernel counts such pages too, and on a machine that is short of memory they come at any
    moment.

    Returns:
        What the work returned, and the bytes that were read and written for it.
    """
    for _ in range(TRIES):
        faults, (read, written) = _faults(), counted()
        result = work()
        now = counted()
        if _faults() == faults:
            if now[0] == read:
                pytest.skip("this file system reports no disk reads (in memory, network, overlay)")
            return result, now[0] - read, now[1] - written
    pytest.skip(f"pages were read from disk in each of {TRIES} tries: memory is too short here")


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
