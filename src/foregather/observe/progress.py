"""Progress: one bar with an ETA for every long piece of work.

Bars go to stderr and appear only when stderr is a terminal. In pipes and logs, work that takes long
writes a plain line now and then. Inside `quiet()` there is neither.
"""

import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

__all__ = ["Progress", "bars", "peak_memory", "quiet", "write_above"]

_FIRST, _NEXT = 10.0, 30.0  # seconds until the first line in a pipe, and from one to the next

_quiet: ContextVar[bool] = ContextVar("foregather_quiet", default=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No bars inside this block."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


@functools.cache
def bars() -> Any:
    """The progress bar class: tqdm's, with a process-local lock and without a monitor thread.

    tqdm's own lock is shared with forked processes: one that is killed while holding it blocks all
    others forever.
    """
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0

    def unlock() -> None:
        Bar.set_lock(threading.RLock())

    unlock()
    os.register_at_fork(after_in_child=unlock)
    return Bar


def write_above(text: str) -> None:
    """Writes a line to stderr, above any bars."""
    bars().write(text, file=sys.stderr)


class Progress:
    """A bar over `total` units ("edges", "rows", "B"); `total=None` when it is unknown."""

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        disable = True if _quiet.get() or os.environ.get("FOREGATHER_QUIET") else None
        self._bar = bars()(
            total=total, desc=what, unit=unit, unit_scale=True, disable=disable, leave=False
        )
        self._what, self._total, self._unit, self._done = what, total, unit, 0
        self._plain = disable is None and self._bar.disable  # a pipe or a file
        self._began = time.monotonic()
        self._due = self._began + _FIRST

    def advance(self, amount: int) -> None:
        """Counts `amount` more units as done."""
        self._bar.update(amount)
        self._done += amount
        if self._plain and (now := time.monotonic()) >= self._due:
            self._due = now + _NEXT
            write_above(self._line(now - self._began))

    def _line(self, seconds: float) -> str:
        """How far it is, as a line of a log."""
        share = f"{self._done / self._total:.0%}, " if self._total else ""
        of = f" of {self._total:,}" if self._total else ""
        return f"{self._what}: {share}{self._done:,}{of} {self._unit} after {seconds:.0f} s"

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()


def peak_memory() -> int:
    """Peak resident bytes of this process so far (file pages mapped in count too).

    Not ru_maxrss, which starts at the parent's value at the fork.
    """
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
