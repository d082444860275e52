"""pace: how many threads make batches, chosen by who waits for whom.

Beside a model that computes on the same cores, threads that make batches sooner than they are asked
for only take time from it. So where a loop does not wait and the producer mostly does, the producer
goes on with half of its threads; where a loop then waits, with all of them again, for good. Batches
do not depend on it.
"""

from collections.abc import Callable
from time import perf_counter

__all__ = ["Pace"]

_WARM, _LOOK = 4, 12  # lists of batches that are not counted at first, and then counted at a time
_WAITS, _IDLE = 0.02, 0.4  # shares of the time: a loop that waits less, a producer that works less
_LATE = 0.05  # a loop that waits more


class Pace:
    """The threads of one source.

    Args:
        most: threads that may be used.
        clock: seconds.

    Attributes:
        threads: those to use now.
        settled: whether they stay as they are.
    """

    def __init__(self, most: int, clock: Callable[[], float] = perf_counter) -> None:
        self.most = self.threads = most
        self.settled = most < 2
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """A loop begins: what comes first is not counted."""
        self._left, self._counts = _WARM, False
        self._since = self._clock()
        self._waited = self._worked = 0.0

    def waited(self, seconds: float) -> None:
        """The loop waited so long for a list; called in its thread."""
        self._waited += seconds

    def made(self, seconds: float) -> None:
        """The producer worked so long on a list; called in its thread."""
        self._worked += seconds
        self._left -= 1
        if self._left or self.settled:
            return
        if self._counts:
            self._judge(self._clock() - self._since)
        self._left, self._counts = _LOOK, True
        self._since = self._clock()
        self._waited = self._worked = 0.0

    def _judge(self, elapsed: float) -> None:
        if self.threads < self.most:
            if self._waited > _LATE * elapsed:
                self.threads, self.settled = self.most, True
        elif self._waited < _WAITS * elapsed and self._worked < _IDLE * elapsed:
            self.threads = self.most // 2

    def explain(self) -> str:
        """One clause for people; empty where all threads are used and were."""
        if self.threads < self.most:
            return (
                f"batches are made by {self.threads} of {self.most} threads, as the loop does not "
                "wait for them"
            )
        if self.settled and self.most > 1:
            return f"batches are made by all {self.most} threads, as the loop waited for fewer"
        return ""
