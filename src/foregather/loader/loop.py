"""loop: where the batches of one loop over a Loader come from, and whose turn it is to make them.

Every loop owns its producer, its plans and its steps; none of them is ever seen by another loop.
Loops that share a budget (of a Loader with `memory=`, of loaders `beside` it, of ranks) take turns:
one producer works at a time. A loop that asks for a batch out of its turn ends the producer of the
other one and begins its own again where it was; batches are a pure function of their number, so
they are the same as without. That costs the cache and what was made ahead, so it is for a loop
inside another (an evaluation in mid-epoch), not for two side by side.
"""

import os
import sys
import threading
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue
from typing import Any, NoReturn, Protocol

from foregather.errors import InputError

_ASK = 0.05  # seconds between looks, where what wakes was taken by an interrupt

__all__ = ["Producer", "Supply", "RankProducer", "Turns", "refuse_item", "refuse_workers"]


class Producer(Protocol):
    """Makes batches ahead; a `Feed`, or `RankProducer`."""

    def start(self) -> None:
        """Begins; one of the others must follow, also where this was interrupted."""

    def take(self) -> Any:
        """The next batch, or None at the end."""

    def close(self) -> None:
        """Ends it, from any thread; may be called again."""

    def end(self) -> None:
        """Ends it and waits until it has ended."""


class Baton:
    """A lock that no interrupt can leave locked or take away, as it is held by a value.

    `drop` with the value may be called at any time, also twice, also by who never had it. In the
    thread that has it others hold it too: a signal's handler may loop as well.
    """

    def __init__(self) -> None:
        self._owner: dict[str, tuple[int, int, object]] = {}  # setdefault is one step in C
        self._free: SimpleQueue[None] = SimpleQueue()  # wakes who waits

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
        """Lets it go, if it is held by this value."""
        owner = self._owner.get("is")
        if owner is not None and owner[2] is value:
            self._owner.pop("is", None)
            self._free.put(None)


class Turns:
    """Who makes batches, of all loops that share a budget.

    Args:
        one_thread: refuse a loop in another thread while there is one (ranks, whose order of loops
            must be the same everywhere).
    """

    def __init__(self, one_thread: bool = False) -> None:
        #: Held while a batch is awaited, so that every turn yields one; never by a producer, nor
        #: where a loop ends: that may happen in a producer's thread, by a garbage collection.
        self.baton = Baton()
        self.holder: Supply | None = None
        self.one_thread = one_thread

    def stop(self) -> None:
        """Ends the producer that works; its loop begins another when it asks for a batch."""
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
        """Ends the producer of another loop; the baton is held.

        Raises:
            InputError: that loop belongs to another thread, and may not.
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
        make: a producer of the batches from a number on, not yet started.
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
        """The next batch, or None at the end."""
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
                return batch  # else it was ended meanwhile, by a signal's handler

    def _running(self) -> Producer:
        if self.producer is None:
            self.producer = self._make(self.number)  # known before it runs, so that it can be ended
            self.producer.start()
        return self.producer

    def busy_elsewhere(self) -> bool:
        """Whether a loop that has not ended belongs to another thread, which lives."""
        here = threading.current_thread()
        return not self._ended and self._thread is not here and self._thread.is_alive()

    def close(self) -> None:
        """Ends the producer; may be called again, from any thread."""
        producer = self.producer
        if producer is not None:
            producer.close()  # kept: the next turn waits for it, if this did not
        self._ended = True


class RankProducer:
    """A generator of batches that are made with other ranks, as a producer."""

    def __init__(self, batches: Generator[Any, None, None]) -> None:
        self._batches = batches

    def start(self) -> None:
        """It begins with the first batch."""

    def take(self) -> Any:
        """The next batch, or None at the end."""
        return next(self._batches, None)

    def close(self) -> None:
        """Ends it, with what other ranks count on."""
        self._batches.close()

    def end(self) -> None:
        """The same."""
        self._batches.close()


def refuse_item(loader: object) -> NoReturn:
    """InputError for a Loader that is asked for one of its batches, as a torch DataLoader does."""
    raise InputError(
        f"a {type(loader).__name__} is looped over and has no items, so it cannot be the dataset "
        "of a torch DataLoader; loop over it itself: it makes batches in threads of its own"
    )


def refuse_workers() -> None:
    """InputError in one of several workers of a torch DataLoader: each would yield every batch."""
    torch_data = sys.modules.get("torch.utils.data")
    worker = None if torch_data is None else torch_data.get_worker_info()
    if worker is not None and worker.num_workers > 1:
        raise InputError(
            f"a Loader is looped over in each of {worker.num_workers} workers of a torch "
            "DataLoader, which would yield every batch so many times; loop over the Loader "
            "itself, which makes batches in threads of its own"
        )
