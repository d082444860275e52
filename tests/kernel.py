"""What the kernel counts of this process's disk traffic, without page faults of a busy machine."""

import resource
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Result = TypeVar("Result")
TRIES = 40
TABLES = 16 * 4096  # bytes of the file system that may be read on the way


def counted() -> tuple[int, int]:
    """Bytes that this process read from disks and wrote to them so far."""
    if not Path("/proc/self/io").exists():
        pytest.skip("no /proc/self/io here")
    lines = Path("/proc/self/io").read_text().splitlines()
    facts = dict(line.split(": ") for line in lines)
    return int(facts["read_bytes"]), int(facts["write_bytes"])


def undisturbed(
    work: Callable[[], Result], expected: Callable[[Result], int] | None = None
) -> tuple[Result, int, int]:
    """Repeats some work until no page of code or of a mapped file was read meanwhile.

    The kernel counts such pages too, and on a machine that is short of memory they come at any
    moment. It also counts, without a fault, blocks of the file system's own tables, which are read
    when files are made: where `expected` says what the work reads, a try that read a few pages
    more is repeated, some times; one that read less is not.

    Returns:
        What the work returned, and the bytes that were read and written for it.
    """
    for number in range(TRIES):
        faults, (read, written) = _faults(), counted()
        result = work()
        now = counted()
        if _faults() == faults:
            if now[0] == read:
                pytest.skip("this file system reports no disk reads (in memory, network, overlay)")
            more = 0 if expected is None else now[0] - read - expected(result)
            if 0 < more <= TABLES and number < TRIES // 4:
                continue
            return result, now[0] - read, now[1] - written
    pytest.skip(f"pages were read from disk in each of {TRIES} tries: memory is too short here")


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
