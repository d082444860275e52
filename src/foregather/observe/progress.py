"""Progress: one bar with an ETA for every long piece of work.

Bars go to stderr, appear only when stderr is a terminal (so logs and pipes stay clean), and are
silenced altogether inside `quiet()`.
"""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

__all__ = ["Progress", "peak_memory", "quiet"]

_quiet: ContextVar[bool] = ContextVar("foregather_quiet", default=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No bars inside this block."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


class Progress:
    """A bar over `total` units ("edges", "rows", "B"); `total=None` when it is unknown."""

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        from tqdm import tqdm

        disable = True if _quiet.get() or os.environ.get("FOREGATHER_QUIET") else None
        self._bar = tqdm(
            total=total, desc=what, unit=unit, unit_scale=True, disable=disable, leave=False
        )

    def advance(self, amount: int) -> None:
        """Counts `amount` more units as done."""
        self._bar.update(amount)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()


def peak_memory() -> int:
    """Peak resident bytes of this process so far (file pages mapped in count too).

    Not ru_maxrss: that one starts at what the parent process had when it forked.
    """
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
