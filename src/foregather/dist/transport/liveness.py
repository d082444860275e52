"""liveness: finds and reports on all ranks which rank died or stalled when a collective fails.

Each rank posts a heartbeat to the store every half second: a counter, and its current step. Nothing
is posted for a collective, so watching adds no cost there. When one fails, a rank checks the
heartbeats twice: a rank without heartbeats is dead or stopped; one that is alive but behind did not
take part. A rank that exits by itself posts the reason. The first verdict is kept in the store, and
every rank reads it with its next beat, so that ranks that fail only because others left name the
same one.
"""

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined] # not in __all__

from foregather.dist.transport.call_timeout import cut_links, within
from foregather.errors import ForegatherError, RankError

__all__ = ["Watch"]

BEAT = 0.5  # seconds
_LOOK = 6 * BEAT  # between two checks of the heartbeats; a busy machine may miss some
_ANSWER = 5.0  # seconds for the store to answer
_SILENT = 10.0  # seconds without a heartbeat after which a rank counts as dead


class Watch:
    """The heartbeat of this rank and the verdict on others.

    Args:
        rank: this rank.
        size: number of ranks.
        host: where the store is.
        port: its port.
        prefix: of this grid's keys.
        timeout: seconds until a collective gives up.
    """

    def __init__(
        self, rank: int, size: int, host: str, port: int, prefix: str, timeout: float
    ) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout
        self._place = (host, port)
        wait = timedelta(seconds=min(timeout, 10.0))
        # One connection for the thread and one for the rest: a store call blocks its connection.
        self._beating, self.store = (
            PrefixStore(prefix, TCPStore(host, port, None, False, wait, wait_for_workers=False))
            for _ in range(2)
        )
        self._agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self._hosts_store = rank == 0 and not self._agent
        self.where = ""  # what the collectives are for: the bulk and layer
        self._steps = 0
        self._step = "start"
        self._deciding = threading.Lock()  # sampling and fetching fail in threads of their own
        self._said = ""  # the verdict, once this rank knows it
        self._pulse: dict[int, tuple[Any, float]] = {}  # heartbeats of others, and since when
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="foregather-watch", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        count = 0
        while True:
            count += 1
            try:
                self._beating.set(f"beat/{self.rank}", json.dumps([count, self._steps, self._step]))
                if not self._said and self._beating.check(["verdict"]):
                    self._said = self._beating.get("verdict").decode()
                    self._beating.set(f"read/{self.rank}", "1")
            except RuntimeError:
                return  # the store is gone; the next collective finds out
            if self._stop.wait(BEAT):
                return

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A context for a collective.

        Raises:
            RankError: it failed; the message names the rank and the step.
        """
        name = self.enter(name)
        try:
            yield
        except ForegatherError:
            raise
        except RuntimeError as error:  # gloo: timed out, connection closed
            raise self.verdict(name, error) from error

    def enter(self, name: str) -> str:
        """Records that this rank entered another step; returns its full name."""
        self._steps += 1
        self._step = f"{self.where} {name}".lstrip()
        return self._step

    def verdict(self, name: str, error: BaseException | None = None) -> RankError:
        """What went wrong between ranks, as found by the first that noticed.

        Args:
            name: the step in which this rank noticed.
            error: what torch raised; quoted if no rank explains it.
        """
        try:
            # A store whose process is stopped accepts bytes and never answers.
            said = within(_LOOK + _ANSWER, lambda: self._agree(name, error), self._cut)
            self.linger([f"read/{r}" for r in range(self.size)])
        except RuntimeError:
            return self.store_lost(name)
        return self._giving_up(said)

    def condemn(self, text: str) -> RankError:
        """Like `verdict` if this rank already knows the cause.

        An earlier verdict takes precedence.
        """

        def post() -> str:
            self.store.compare_set("verdict", "", f"{text}; noticed by rank {self.rank}")
            return self._read()

        try:
            said = within(_ANSWER, post, self._cut)
            self.linger([f"read/{r}" for r in range(self.size)])
        except RuntimeError:
            return self.store_lost(text)
        return self._giving_up(said)

    def store_lost(self, name: str) -> RankError:
        """The error if the store does not answer."""
        host, port = self._place
        holder = f"torchrun's store at {host}:{port}" if self._agent else "rank 0, which holds the"
        return self._giving_up(
            self._said
            or f"{holder}{'' if self._agent else ' store,'} is gone or stopped: noticed by rank "
            f"{self.rank} in step {name!r}; see its log for the cause"
        )

    def _giving_up(self, said: str) -> RankError:
        return RankError(f"rank {self.rank} gives up: {said}")

    def _cut(self) -> None:
        cut_links(*self._place)

    def _agree(self, name: str, error: BaseException | None) -> str:
        """Returns the verdict of the rank that found one first."""
        with self._deciding:
            if not self._said:
                found = self._find(name, error)
                if found:
                    self.store.compare_set("verdict", "", found)
                self._read()
            return self._said

    def _read(self) -> str:
        self._said = self.store.get("verdict").decode()
        self.store.set(f"read/{self.rank}", "1")
        return self._said

    def _find(self, name: str, error: BaseException | None) -> str:
        """Finds a verdict of this rank, or nothing if there already is one."""
        if self.store.check(["verdict"]):
            return ""
        before = self._look()
        time.sleep(_LOOK)
        if self.store.check(["verdict"]):
            return ""
        after = self._look()
        at = f"noticed by rank {self.rank} in step {name!r} (its step {self._steps})"
        left = {r: why for r in range(self.size) if r != self.rank and (why := self.left(r))}
        still = [
            r
            for r in range(self.size)
            if r not in left and (before[r] is None or before[r][0] == after[r][0])
        ]
        if still:
            who = ", ".join(f"rank {r} {_seen(after[r])}" for r in still)
            return f"{who} died or stopped, {at}; see its log for the cause"
        if left:
            who = ", ".join(f"rank {r} {_seen(after[r])} ended: {left[r]}" for r in left)
            return f"{who}; {at}; see its log"
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
        who = ", ".join(f"rank {r} in {beat[2]!r}" for r, beat in enumerate(after))
        quoted = "" if error is None else f"; torch says: {_first_line(error)}"
        return f"a link between ranks failed, {at}; all ranks still answer: {who}{quoted}"

    def _look(self) -> list[Any]:
        keys = [f"beat/{r}" for r in range(self.size)]
        return [json.loads(self.store.get(k)) if self.store.check([k]) else None for k in keys]

    # ---- ranks that leave ----------------------------------------------------------------------

    def leave(self, why: str, fatal: bool = False) -> None:
        """Tells the others that this rank no longer takes part.

        Args:
            why: what ended it.
            fatal: it is an error, and the others cannot continue: it becomes the verdict.
        """

        def post() -> None:
            self.store.set(f"left/{self.rank}", why)
            if fatal:
                text = f"rank {self.rank} {_seen([0, self._steps, self._step])} ended: {why}"
                self.store.compare_set("verdict", "", f"{text}; see its log")
                self.linger([f"read/{r}" for r in range(self.size)])

        with suppress(RuntimeError):  # nobody is there to read it
            within(_ANSWER + (self.timeout if fatal else 0), post)

    def left(self, rank: int) -> str:
        """Why a rank no longer takes part; empty while it does, or if it could not say."""
        key = f"left/{rank}"
        return self.store.get(key).decode() if self.store.check([key]) else ""

    def gone(self, ranks: Sequence[int]) -> str:
        """Names those of these ranks that will never answer; empty if none."""
        for rank in ranks:
            if why := self.left(rank):
                return f"rank {rank} ended: {why}"
            if self._silent(rank) > _SILENT and self._pulse[rank][0] is not None:
                return f"rank {rank} {_seen(self._pulse[rank][0])} died or stopped"
        return ""

    def _silent(self, rank: int) -> float:
        """Seconds since this rank last saw a new heartbeat of another."""
        key, now = f"beat/{rank}", time.monotonic()
        beat = json.loads(self.store.get(key)) if self.store.check([key]) else None
        if rank not in self._pulse or self._pulse[rank][0] != beat:
            self._pulse[rank] = (beat, now)
        return now - self._pulse[rank][1]

    def linger(self, keys: list[str]) -> None:
        """Makes the holder of the store wait until all other live ranks have set their key."""
        if not self._hosts_store:
            return
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:  # a rank sets its key when it has read what it needs
            waited_for = [
                r
                for r, key in enumerate(keys)
                if r != self.rank and not self.store.check([key]) and not self.left(r)
            ]
            if all(self._silent(r) > _LOOK for r in waited_for):
                break
            time.sleep(0.01)

    def close(self, why: str = "it closed its grid") -> None:
        """Stops the heartbeat and tells the others; a second call does nothing."""
        if self._stop.is_set():
            return
        self.leave(why)
        self._stop.set()
        self._thread.join(timeout=2 * BEAT)
        if self._thread.is_alive():  # it waits for a store that does not answer
            self._cut()
            self._thread.join(timeout=_ANSWER)


def _seen(beat: Any) -> str:
    return "(never seen)" if beat is None else f"(last seen in step {beat[1]}, {beat[2]!r})"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
