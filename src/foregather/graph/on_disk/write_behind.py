"""write_behind: runs writes on one thread, in order, while the caller makes the next chunk.

At most `DEPTH` jobs are queued, so memory stays bounded. The first job that fails stops all later
ones, and its error is raised in the caller at the next call. Leaving the block always ends the
thread: after an error or an interrupt, queued jobs are dropped.
"""

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DEPTH", "Ring", "WriteBehind"]

DEPTH = 1  # queued jobs; one more may be running


class WriteBehind:
    """A thread for writes; use as a context manager, inside the one that owns the files.

    It uses `SimpleQueue`, which is implemented in C: a signal handler that raises inside a Python
    `Queue` may leave an item without waking the waiting thread, which then hangs.
    """

    def __init__(self) -> None:
        #: Jobs; a queue as an item is notified when all jobs before it are done; None ends the
        #: thread.
        self._jobs: queue.SimpleQueue[Callable[[], object] | queue.SimpleQueue[None] | None]
        self._jobs = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()  # one item per free place
        for _ in range(DEPTH):
            self._room.put(None)
        self._thread = threading.Thread(target=self._work, name="write-behind", daemon=True)
        self._error: BaseException | None = None
        self._dropping = False

    def __enter__(self) -> "WriteBehind":
        return self  # the thread starts with the first job: here an interrupt would leak it

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._dropping = self._dropping or kind is not None
            self._jobs.put(None)
            if self._thread.ident is not None:
                self._thread.join()
        finally:
            self._jobs.put(None)  # again if interrupted
        if kind is None:
            self._check()

    def _work(self) -> None:
        # Jobs are taken even after a failure, so that a caller in `submit` is never left waiting.
        while (job := self._jobs.get()) is not None:
            if isinstance(job, queue.SimpleQueue):
                job.put(None)
                continue
            self._room.put(None)
            try:
                if not self._dropping:
                    job()
            except BaseException as error:  # raised in the caller by _check
                self._error = error
                self._dropping = True
            del job

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def submit(self, job: Callable[[], object]) -> None:
        """Queues a job; waits while `DEPTH` jobs are queued already."""
        self._check()
        if self._thread.ident is None:
            self._thread.start()
        self._room.get()
        self._jobs.put(job)

    def drain(self) -> None:
        """Waits until every job is done."""
        if self._thread.ident is None:
            return
        done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._jobs.put(done)
        done.get()
        self._check()


class Ring:
    """Buffers used in turn: one is filled while the others are queued or being written.

    When `submit` of job k returns, at most jobs k - DEPTH to k are unfinished, so with DEPTH + 2
    buffers the next one is free.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._buffers = [np.empty(0, dtype) for _ in range(DEPTH + 2)]
        self._next = 0

    def take(self, count: int) -> npt.NDArray[Any]:
        """The next buffer, `count` elements long; its contents are arbitrary."""
        at = self._next
        self._next = (at + 1) % len(self._buffers)
        if self._buffers[at].size < count:
            dtype = self._buffers[at].dtype
            self._buffers[at] = np.empty(0, dtype)  # freed before the larger one is made
            self._buffers[at] = np.empty(count, dtype)
        return self._buffers[at][:count]
