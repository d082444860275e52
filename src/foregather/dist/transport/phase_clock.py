"""phase_clock: seconds of a channel's thread by phase, with those on links apart.

The phases of sampling are those of the matrix program: rows of P (probability), picks, extraction;
what is left of a bulk (seeds, keys, numbering) is the frontier. Those of features are plan and
gather. Phases nest, and a moment counts for the innermost. Seconds on links are from the start of a
collective to its end, so they include the wait for ranks that come later.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from foregather.observe.trace import span

__all__ = ["ON_LINKS", "PHASES", "PhaseClock"]

PHASES = ("frontier", "probability", "picks", "extraction", "plan", "gather")
ON_LINKS = " (links)"  # after the name of a phase


class PhaseClock:
    """Nanoseconds by phase; entered by one thread, read by any."""

    def __init__(self) -> None:
        self._spent = {name: 0 for phase in PHASES for name in (phase, phase + ON_LINKS)}
        self._now = ""
        self._since = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Counts what is inside for a phase of `PHASES`; a span of the trace, too."""
        before = self._switch(name)
        try:
            with span(name):
                yield
        finally:
            self._switch(before)

    @contextmanager
    def on_links(self) -> Iterator[None]:
        """Counts what is inside as seconds on links of the present phase, if there is one."""
        before = self._now
        if not before:
            yield
            return
        self._switch(before.removesuffix(ON_LINKS) + ON_LINKS)
        try:
            with span("links"):
                yield
        finally:
            self._switch(before)

    def _switch(self, name: str) -> str:
        """Goes to another phase; returns the one before."""
        now, before = time.perf_counter_ns(), self._now
        if before:
            self._spent[before] += now - self._since
        self._now, self._since = name, now
        return before

    def snapshot(self) -> Mapping[str, int]:
        """Nanoseconds so far of every phase, and of its links."""
        return dict(self._spent)
