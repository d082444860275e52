"""loop: supplies the batches of one loop over a Loader, and lets loops take turns.

Every loop owns its producer, its plans and its steps; none of them is ever seen by another loop.
Loops that share a budget (of a Loader with `memory=`, of loaders `beside` it, of ranks) take turns:
one producer works at a time. A loop that requests a batch out of turn stops the other's producer
and restarts its own where it left off; batches are a pure function of their number, so they do not
change. That costs the cache and prefetched batches, so it is meant for a loop inside another (an
evaluation in mid-epoch), not for two concurrent ones.
"""

import os
import sys
import threading
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue
from typing import Any, NoReturn, Protocol

from foregather.errors import InputError

_ASK = 0.05  # seconds between checks, in case an interrupt swallowed the wake-up

__all__ = ["Producer", "Supply", "RankProducer", "Turns", "refuse_item", "refuse_workers"]


class Producer(Protocol):
    """Makes batches ahead; a `Prefetcher`, or `RankProducer`."""

    def start(self) -> None:
        """Starts; `close` or `end` must follow, even if this was interrupted."""

    def take(self) -> Any:
        """Returns the next batch, or None at the end."""

    def close(self) -> None:
        """Stops it, from any thread; may be called again."""

    def end(self) -> None:
        """Stops it and waits until it has ended."""


class Baton:
    """A lock held by a value, which no interrupt can leave locked or release.

    `drop` with the value may be called at any time, even twice, and even without holding it. It is
    re-entrant within a thread, because a signal handler may loop as well.
    """

    def __init__(self) -> None:
        self._owner: dict[str, tuple[int, int, object]] = {}  # setdefault is atomic in C
        self._free: SimpleQueue[None] = SimpleQueue()  # wakes waiting threads

    def hold(self, value: object) -> None:
        """Waits until nobody else holds it."""
        process, thread = os.getpid(), threading.get_ident()
        while True:
            owner = self._owner.setdefault("is", (process, thread, value))
            if owner[:2] == (process, thread):
                return
            if owner[0] != process:  # a fork does not have the thread that would drop it
                self._owner.clear()
                continue
            try:
                self._free.get(timeout=_ASK)
            except Empty:
                continue

    def drop(self, value: object) -> None:
        """Releases it if it is held by this value."""
        owner = self._owner.get("is")
        if owner is not None and owner[2] is value:
            self._owner.pop("is", None)
            self._free.put(None)


class Turns:
    """Decides which of the loops that share a budget makes batches.

    Args:
        one_thread: refuse a loop in another thread while there is one (ranks, whose order of loops
            must be the same everywhere).
    """

    def __init__(self, one_thread: bool = False) -> None:
        #: Held while waiting for a batch, so that every turn yields one; never by a producer, nor
        #: when a loop ends: that may happen in a producer's thread, through garbage collection.
        self.baton = Baton()
        self.holder: Supply | None = None
        self.one_thread = one_thread

    def stop(self) -> None:
        """Stops the active producer; its loop starts another when it requests a batch."""
        held = object()
        try:
            try:
                self.baton.hold(held)
                self._end_holder()
            finally:
                self.baton.drop(held)
        finally:
            self.baton.drop(held)  # again, if it was interrupted

    def pass_to(self, supply: "Supply") -> None:
        """Stops the producer of another loop; the caller holds the baton.

        Raises:
            InputError: that loop belongs to another thread, which is not allowed.
        """
        other = self.holder
        if other is not None and self.one_thread and other.busy_elsewhere():
            raise InputError(
                f"this Loader over ranks is being looped over in another thread (batch "
                f"{other.number}), and ranks must take batches in the same order; end that loop "
                "first, or loop in one thread"
            )
        self._end_holder()
        self.holder = supply

    def _end_holder(self) -> None:
        if self.holder is not None and self.holder.producer is not None:
            self.holder.producer.end()
            self.holder.producer = None


class Supply:
    """The batches of one loop.

    Args:
        make: creates a producer of the batches from a number on, not yet started.
        first: the number of the first batch.
        turns: None for a loop that shares nothing.
    """

    def __init__(
        self, make: Callable[[int], Producer], first: int, turns: Turns | None = None
    ) -> None:
        self._make, self._turns = make, turns
        self.number = first
        self.producer: Producer | None = None
        self._thread = threading.current_thread()
        self._ended = False

    def take(self) -> Any:
        """Returns the next batch, or None at the end."""
        batch = self._running().take() if self._turns is None else self._take_in_turn(self._turns)
        self.number += 1
        return batch

    def _take_in_turn(self, turns: Turns) -> Any:
        held = object()
        try:
            try:
                turns.baton.hold(held)
                return self._take_held(turns)
            finally:
                turns.baton.drop(held)
        finally:
            turns.baton.drop(held)  # again, if it was interrupted

    def _take_held(self, turns: Turns) -> Any:
        while True:
            if turns.holder is not self:
                turns.pass_to(self)
            producer = self._running()
            batch = producer.take()
            if batch is not None or producer is self.producer:
                return batch  # otherwise a signal handler ended it meanwhile

    def _running(self) -> Producer:
        if self.producer is None:
            self.producer = self._make(
                self.number
            )  # registered before it runs, so that it can be ended
            self.producer.start()
        return self.producer

    def busy_elsewhere(self) -> bool:
        """Whether an unfinished loop belongs to another thread that is alive."""
        here = threading.current_thread()
        return not self._ended and self._thread is not here and self._thread.is_alive()

    def close(self) -> None:
        """Ends the producer; may be called again, from any thread."""
        producer = self.producer
        if producer is not None:
            producer.close()  # kept: the next turn waits for it if this one did not
        self._ended = True


class RankProducer:
    """Wraps a generator of batches made with other ranks as a producer."""

    def __init__(self, batches: Generator[Any, None, None]) -> None:
        self._batches = batches

    def start(self) -> None:
        """Does nothing: it starts with the first batch."""

    def take(self) -> Any:
        """Returns the next batch, or None at the end."""
        return next(self._batches, None)

    def close(self) -> None:
        """Stops it, after doing what other ranks depend on."""
        self._batches.close()

    def end(self) -> None:
        """The same."""
        self._batches.close()


def refuse_item(loader: object) -> NoReturn:
    """Raises InputError for a Loader that is indexed, as a torch DataLoader does."""
    raise InputError(
        f"a {type(loader).__name__} is iterable and has no items, so it cannot be the dataset of a "
        "torch DataLoader; loop over it directly: it makes batches in its own threads"
    )


def refuse_workers() -> None:
    """Raises InputError in one of several torch DataLoader workers.

    Each would yield every batch.
    """
    torch_data = sys.modules.get("torch.utils.data")
    worker = None if torch_data is None else torch_data.get_worker_info()
    if worker is not None and worker.num_workers > 1:
        raise InputError(
            f"a Loader is looped over in each of {worker.num_workers} workers of a torch "
            "DataLoader, each of which would yield every batch; loop over the Loader directly, "
            "which makes batches in its own threads"
        )
