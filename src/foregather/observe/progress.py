"""Progress: one bar with an ETA for every long piece of work.

Bars go to stderr and appear only when stderr is a terminal. In pipes and logs, work that takes long
writes a plain line every 30 seconds when it advances; with `lines=True` also while nothing does.
Inside `quiet()` there is neither.
"""

import contextlib
import functools
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

__all__ = ["Progress", "bars", "peak_memory", "quiet", "write_above"]


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
    """A bar over `total` units ("edges", "rows", "B"); `total=None` when it is unknown.

    Args:
        what: what is done.
        total: units of it.
        unit: their name.
        lines: where stderr is no terminal, write a line every `EVERY` seconds even if nothing
            advances.
    """

    def __init__(self, what: str, total: int | None, unit: str, lines: bool = False) -> None:
        disable = True if _quiet.get() or os.environ.get("FOREGATHER_QUIET") else None
        self._bar = bars()(
            total=total, desc=what, unit=unit, unit_scale=True, disable=disable, leave=False
        )
        logs = disable is None and not sys.stderr.isatty()
        self._lines = _Lines(what, total, unit, lines) if logs else None

    def advance(self, amount: int) -> None:
        """Counts `amount` more units as done."""
        self._bar.update(amount)
        if self._lines is not None:
            self._lines.add(amount)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        if self._lines is not None:
            self._lines.stop()


#: Seconds between two lines of a log.
EVERY = 30.0


class _Lines:
    """Writes how far something is, in plain lines.

    Args:
        what: what is done.
        total: units of it.
        unit: their name.
        always: from a thread of its own, as what hangs must not be silent; otherwise when it
            advances.
    """

    def __init__(self, what: str, total: int | None, unit: str, always: bool) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._done = self._told = 0  # units, and those at the last line
        self._begun = time.monotonic()
        self._due = math.inf if always else self._begun + EVERY
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if always:
            self._thread = threading.Thread(target=self._run, name="foregather-lines", daemon=True)
            self._thread.start()

    def add(self, amount: int) -> None:
        """More units are done."""
        self._done += amount
        if (now := time.monotonic()) >= self._due:
            self._due = now + EVERY
            self._write()

    def _run(self) -> None:
        while not self._ended.wait(EVERY):
            self._write()

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed log ends no training
            print(self.line(time.monotonic() - self._begun), file=sys.stderr, flush=True)

    def line(self, seconds: float) -> str:
        """How far it is after this many seconds."""
        done, of = self._done, "" if self._total is None else f"/{self._total:,}"
        parts = [f"{self._what}: {done:,}{of} {self._unit} in {_clock(seconds)}"]
        if done == self._told:
            parts.append(f"none in the last {EVERY:.0f} s")
        if done:
            rate = done / max(seconds, 1e-9)
            parts.append(f"{rate:.3g}/s")
            if self._total is not None:
                parts.append(f"{_clock(max(0, self._total - done) / rate)} left")
        self._told = done
        return ", ".join(parts)

    def stop(self) -> None:
        """No more lines."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def peak_memory() -> int:
    """Peak resident bytes of this process so far (file pages mapped in count too).

    Not ru_maxrss, which starts at the parent's value at the fork.
    """
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
