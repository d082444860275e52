"""unreadable: files whose reads fail as a disk makes them fail, in the core's own reader."""

import errno
from typing import Any

import pytest

from foregather import _core

__all__ = ["fail_reads"]


def fail_reads(
    monkeypatch: pytest.MonkeyPatch, name: str, after: int = 0, code: int = errno.EIO
) -> list[int]:
    """Reads of a file fail from the one after `after` on; the count of reads is returned."""
    read, count = _core.read_range, [0]
    faults = _core.testing.Faults()
    faults.fail(0, 1 << 62, code, -1)

    def read_range(descriptor: int, called: str, position: int, into: Any, sums: Any) -> Any:
        if called != name:
            return read(descriptor, called, position, into, sums)
        count[0] += 1
        met = faults if count[0] > after else None
        return _core.testing.read_range(descriptor, called, position, into, sums, faults=met)

    monkeypatch.setattr(_core, "read_range", read_range)
    return count
