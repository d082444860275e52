"""trace: records a timeline of all threads for Perfetto, and seconds by stage for summaries.

Code marks its work with `with span("sample"):`. Without an open `Trace` that costs one variable
lookup. Totals are kept for the whole run, single events only up to a limit, so memory is bounded.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

from foregather.files import write_safely
from foregather.targets import check_target

__all__ = ["MOST_EVENTS", "Trace", "span"]

MOST_EVENTS = 50_000  # about 5 MB of JSON
_NOTHING = nullcontext()
_open: "Trace | None" = None

#: (name, start, seconds, thread)
Event = tuple[str, float, float, int]


class Trace:
    """Collects spans of all threads while it is entered; only one can be active.

    Args:
        ranges: a context manager entered for each span by name, such as
            `torch.profiler.record_function`.
        most: maximum number of events; later ones only count in the totals.
    """

    def __init__(
        self,
        ranges: Callable[[str], AbstractContextManager[Any]] | None = None,
        most: int = MOST_EVENTS,
    ) -> None:
        self.ranges = ranges
        self._most = most
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._threads: dict[int, str] = {}
        self._totals: dict[str, float] = {}
        self._origin = time.perf_counter()

    def __enter__(self) -> "Trace":
        global _open
        _open = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _open
        _open = None

    def add(self, name: str, started: float, seconds: float) -> None:
        """Adds a finished span of the calling thread; `started` is from `time.perf_counter`."""
        thread = threading.get_ident()
        with self._lock:
            self._totals[name] = self._totals.get(name, 0.0) + seconds
            if len(self._events) < self._most:
                self._threads.setdefault(thread, threading.current_thread().name)
                self._events.append((name, started - self._origin, seconds, thread))

    def totals(self) -> dict[str, float]:
        """Seconds by name so far.

        Threads run concurrently, so the sum may exceed the elapsed time.
        """
        with self._lock:
            return dict(self._totals)

    def events(self) -> list[Event]:
        """The recorded events, by start."""
        with self._lock:
            return sorted(self._events, key=lambda event: event[1])

    def thread_names(self) -> dict[int, str]:
        """Names of the threads in the events."""
        return dict(self._threads)

    def write(self, path: Path) -> None:
        """Writes the events in the JSON that Perfetto and chrome://tracing open.

        Raises:
            StorageError: the file is inside a graph folder, or the disk is full or not writable; an
                existing file is kept.
        """
        check_target(path, part_of_run=True)
        numbers = {thread: k for k, thread in enumerate(self._threads)}
        made: list[dict[str, Any]] = [
            {
                "name": "thread_name",
                "ph": "M",
                "pid": os.getpid(),
                "tid": numbers[thread],
                "args": {"name": name},
            }
            for thread, name in self._threads.items()
        ]
        made += [
            {
                "name": name,
                "cat": "foregather",
                "ph": "X",
                "ts": round(start * 1e6, 1),
                "dur": round(seconds * 1e6, 1),
                "pid": os.getpid(),
                "tid": numbers[thread],
            }
            for name, start, seconds, thread in self.events()
        ]
        text = json.dumps({"traceEvents": made, "displayTimeUnit": "ms"})
        write_safely(path, text.encode())


class _Span:
    __slots__ = ("_name", "_range", "_started", "_trace")

    def __init__(self, trace: Trace, name: str) -> None:
        self._trace, self._name = trace, name
        self._range = None if trace.ranges is None else trace.ranges(name)
        self._started = 0.0

    def __enter__(self) -> None:
        if self._range is not None:
            self._range.__enter__()
        self._started = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._trace.add(self._name, self._started, time.perf_counter() - self._started)
        if self._range is not None:
            self._range.__exit__(kind, error, trace)


def span(name: str) -> AbstractContextManager[None]:
    """Marks a piece of work with its name: sample, plan, gather, assemble, wait, forward, ..."""
    return _NOTHING if _open is None else _Span(_open, name)
