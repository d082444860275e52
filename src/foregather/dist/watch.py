"""watch: finds out which rank died or stalled when a collective fails, and says so on all ranks.

Each rank posts a beat to the store every half second: a counter, and the step it is in. Nothing is
posted for a collective, so watching costs no time there. When one fails, a rank looks at the beats
twice: who does not beat is dead or stopped; who beats but is behind did not take part. The first
verdict is kept in the store, so that ranks that fail only because others left name the same one.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined] # not in __all__

from foregather.dist.deadline import within
from foregather.errors import ForegatherError, RankError

__all__ = ["Watch"]

BEAT = 0.5  # seconds
_LOOK = 3 * BEAT  # between two looks at the beats
_ANSWER = 3.0  # seconds for the store to answer


class Watch:
    """The beat of this rank and the verdict on others.

    Args:
        rank: this rank.
        size: number of ranks.
        host: where the store is.
        port: its port.
        prefix: of this grid's keys.
        timeout: seconds after which a collective gives up.
    """

    def __init__(
        self, rank: int, size: int, host: str, port: int, prefix: str, timeout: float
    ) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        wait = timedelta(seconds=min(timeout, 10.0))
        # One connection for the thread and one for the rest: a store call blocks its connection.
        self._beating, self.store = (
            PrefixStore(prefix, TCPStore(host, port, None, False, wait, wait_for_workers=False))
            for _ in range(2)
        )
        self._hosts_store = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        self.where = ""  # what the collectives are for: the bulk and layer
        self._steps = 0
        self._step = "start"
        self._deciding = threading.Lock()  # sampling and fetching fail in threads of their own
        self._said = ""  # the verdict, once this rank knows it
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="foregather-watch", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        count = 0
        while True:
            count += 1
            try:
                self._beating.set(f"beat/{self.rank}", json.dumps([count, self._steps, self._step]))
            except RuntimeError:
                return  # the store is gone; the next collective finds out
            if self._stop.wait(BEAT):
                return

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Around a collective.

        Raises:
            RankError: it failed; the message names the rank and the step.
        """
        self._steps += 1
        self._step = name = f"{self.where} {name}".lstrip()
        try:
            yield
        except ForegatherError:
            raise
        except RuntimeError as error:  # gloo: timed out, connection closed
            raise self._verdict(name) from error

    def _verdict(self, name: str) -> RankError:
        try:
            # A store whose process is stopped accepts bytes and never answers.
            verdict = within(_LOOK + _ANSWER, lambda: self._agree(name))
            alive = [r for r in range(self.size) if f"rank {r} (" not in verdict]
            self.linger([f"read/{r}" for r in alive])
        except RuntimeError:
            verdict = (
                f"rank 0, which holds the store, is gone or stopped: noticed by rank {self.rank} "
                f"in step {name!r}; see its log for the cause"
            )
        return RankError(f"rank {self.rank} gives up: {verdict}")

    def _agree(self, name: str) -> str:
        """The verdict of the rank that found one first."""
        with self._deciding:
            if not self._said:
                found = self._find(name)
                if found:
                    self.store.compare_set("verdict", "", found)
                self._said = self.store.get("verdict").decode()
                self.store.set(f"read/{self.rank}", "1")
            return self._said

    def _find(self, name: str) -> str:
        """A verdict of this rank, or nothing if there is one."""
        if self.store.check(["verdict"]):
            return ""
        before = self._look()
        time.sleep(_LOOK)
        if self.store.check(["verdict"]):
            return ""
        after = self._look()
        still = [r for r in range(self.size) if before[r] is None or before[r][0] == after[r][0]]
        at = f"noticed by rank {self.rank} in step {name!r} (its step {self._steps})"
        if still:
            who = ", ".join(
                f"rank {r} (last seen in step {after[r][1]}, {after[r][2]!r})"
                if after[r] is not None
                else f"rank {r} (never seen)"
                for r in still
            )
            return f"{who} died or stopped, {at}; see its log for the cause"
        least = min(beat[1] for beat in after)
        if least < self._steps:
            who = ", ".join(
                f"rank {r} (in step {beat[1]}, {beat[2]!r})"
                for r, beat in enumerate(after)
                if beat[1] == least
            )
            return (
                f"{who} did not take part within {self.timeout:g} s, {at}; all ranks must make the "
                "same calls, or raise the timeout"
            )
        return f"a link between ranks failed, {at}; all ranks still answer"

    def _look(self) -> list[Any]:
        keys = [f"beat/{r}" for r in range(self.size)]
        return [json.loads(self.store.get(k)) if self.store.check([k]) else None for k in keys]

    def linger(self, keys: list[str]) -> None:
        """The rank that holds the store waits until the others have said that they know."""
        if not self._hosts_store:
            return
        end = time.monotonic() + self.timeout
        while time.monotonic() < end and not all(self.store.check([key]) for key in keys):
            time.sleep(0.05)
        time.sleep(BEAT)  # the last reader still has its answer on the way

    def close(self) -> None:
        """Stops the beat."""
        self._stop.set()
        self._thread.join(timeout=2 * BEAT)
