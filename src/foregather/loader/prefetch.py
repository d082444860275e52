"""prefetch: runs a producer in a background thread, a bounded number of items ahead.

However the consumer ends (done, break, exception, KeyboardInterrupt, garbage collection, end of the
interpreter), the thread ends too. An exception of the producer is raised in the consumer with its
own traceback, and its end is always announced.

An interrupt may arrive between any two lines of the consumer's thread. So that thread holds no
lock; a producer thread whose start was interrupted finds at its first step that it may not begin;
and ending a prefetcher can be repeated, since it only sets flags and waits for flags.

When the interpreter shuts down, only daemon threads are left to request more. They sleep until the
process is gone: reporting the end of the data would be wrong, and a new producer would run into the
shutdown (torch aborts there).
"""

import atexit
import os
import threading
from collections.abc import Callable, Generator, Iterator
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, Generic, TypeVar

from foregather import _core
from foregather.errors import ForegatherError, StorageError
from foregather.loader.pace import Pace

__all__ = ["THREAD_NAME", "ListPrefetcher", "Prefetcher", "ahead"]

Item = TypeVar("Item")

THREAD_NAME = "foregather-prefetch"
_ASK = 0.05  # seconds between checks of a flag, in case an interrupt swallowed the wake-up
_open: "set[Prefetcher[Any]]" = set()
_over = threading.Event()  # the interpreter is shutting down


class Prefetcher(Generic[Item]):
    """The queue between the two threads.

    Args:
        source: makes the items, none of them None; advanced and closed in the producer's thread.
        capacity: items made ahead.
        cancel: called in any thread when it ends early, to abort the current item.
    """

    def __init__(
        self, source: Iterator[Item], capacity: int, cancel: Callable[[], None] | None = None
    ) -> None:
        self._source: Iterator[Item] | None = source
        self._cancel = cancel
        self._ready: SimpleQueue[tuple[Item] | None] = SimpleQueue()  # None: end of items
        self._room: SimpleQueue[None] = SimpleQueue()  # one per item that may be made
        for _ in range(capacity):
            self._room.put(None)
        self._stop = False  # the consumer has ended
        self._fate: dict[str, str] = {}  # "begun" or "refused", whichever comes first; atomic in C
        self._done = False  # the producer has ended
        self._wake: SimpleQueue[None] = SimpleQueue()  # wakes threads waiting for that
        self._error: BaseException | None = None
        self._process = os.getpid()
        self._starter = threading.get_ident()
        self._thread = threading.Thread(target=self._produce, daemon=True)

    def start(self) -> None:
        """Starts the producer; `end` must follow, even if this was interrupted.

        Raises:
            StorageError: the system cannot start a thread.
        """
        _open.add(self)
        try:
            self._thread.start()
        except RuntimeError as error:
            if isinstance(
                error.__context__, KeyboardInterrupt
            ):  # interrupted while waiting for the thread
                raise error.__context__ from None
            raise StorageError(f"a thread for the loader was refused: {error}") from error
        if _over.is_set():  # perhaps too late for _close_all to have seen it
            self.end()
            _rest_at_the_end()

    # ---- the producer's side -----------------------------------------------------------------

    def _produce(self) -> None:
        if self._fate.setdefault("is", "begun") != "begun":
            return
        # Not before: an interrupt in Thread.start can leave a Thread in the interpreter's list that
        # never ran, and never will.
        threading.current_thread().name = THREAD_NAME
        try:
            self._make_all()
        except BaseException as error:  # the consumer must see every error
            self._error = error
        finally:
            _open.discard(self)
            if self._stop:
                self._drop(True)
            self._ready.put(None)
            self._done = True
            self._wake.put(None)

    def _make_all(self) -> None:
        source, self._source = self._source, None
        assert source is not None
        try:
            while True:
                self._room.get()
                item = None if self._stop else next(source, None)
                if item is None:
                    return
                self._ready.put((item,))
                del item
        finally:
            if isinstance(source, Generator):
                source.close()  # here, where no interrupt arrives

    # ---- the consumer's side -----------------------------------------------------------------

    def take(self) -> Item | None:
        """The next item, or None at the end."""
        if os.getpid() != self._process:  # a fork has one thread only
            raise ForegatherError(
                "the loader's thread is not in this process; start a new loop here"
            )
        got = self._ready.get()
        if got is not None:
            self._make_room()
            return got[0]
        self._ready.put(None)  # for later calls
        _rest_at_the_end()
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        return None

    def _make_room(self) -> None:
        """An item was taken, so another may be made."""
        self._room.put(None)

    def close(self) -> None:
        """Ends the producer after its current item; waits for it in the thread that started it.

        Any other thread may be here through garbage collection, in the middle of something that the
        producer waits for, so it does not wait.
        """
        if self._tell() and threading.get_ident() == self._starter:
            self._wait()

    def end(self) -> None:
        """Like `close`, but waits in any thread."""
        if self._tell():
            self._wait()

    def _tell(self) -> bool:
        """Tells the producer to stop; returns whether there is something to wait for."""
        self._stop = True
        begun = self._fate.setdefault("is", "refused") == "begun"
        self._room.put(None)
        self._drop(begun)
        if not begun:
            self._source = None
            _open.discard(self)
        elif self._cancel is not None and not self._done:
            self._cancel()
        return begun and os.getpid() == self._process

    def _drop(self, begun: bool) -> None:
        """Drops items that are no longer needed."""
        while not self._ready.empty():
            try:
                self._ready.get_nowait()
            except Empty:  # the other thread was here as well
                break
        if begun:
            self._ready.put(None)

    def _wait(self) -> None:
        while not self._done:
            try:
                self._wake.get(timeout=_ASK)
            except Empty:
                continue
        self._error = None
        self._thread.join()  # it has nothing left to do


class ListPrefetcher(Prefetcher[Any], Generic[Item]):
    """A prefetcher of lists, none of them empty, whose items are taken one by one.

    Two threads meet once a list, which costs more than making a small item. What comes before a
    list and is small is made before there is room for the list, which a call makes.

    Args:
        source: yields functions that make a list each.
        capacity: lists made ahead. 0: each is made by the thread that takes it, when it is asked
            for, and only what comes before one list is ready.
        small: asked once, after the first list: if true, there is room for another.
        pace: told how long each side works and waits; None if nobody wants to know.
    """

    def __init__(
        self,
        source: Iterator[Callable[[], list[Item]]],
        capacity: int,
        small: Callable[[], bool] | None = None,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(source, max(1, capacity))
        self._lazy, self._small, self._pace = capacity == 0, small, pace
        self._list: list[Item] = []  # taken, not yet asked for; the last one is next

    def _make_all(self) -> None:
        source, self._source = self._source, None
        assert source is not None
        try:
            while True:
                if self._lazy:
                    self._room.get()
                begun = perf_counter()
                make = None if self._stop else next(source, None)
                if make is None:
                    return
                worked = perf_counter() - begun
                if not self._lazy:
                    self._room.get()
                    if self._stop:
                        return
                begun = perf_counter()
                self._ready.put((make if self._lazy else make(),))
                del make
                if self._pace is not None:
                    self._pace.made(worked + perf_counter() - begun)
                if (small := self._small) is not None:
                    self._small = None
                    if small():
                        self._room.put(None)
        finally:
            if isinstance(source, Generator):
                source.close()  # here, where no interrupt arrives

    def take(self) -> Item | None:
        """The next item, or None at the end."""
        if not self._list or os.getpid() != self._process:
            begun = perf_counter()
            made = super().take()
            if self._pace is not None:
                self._pace.waited(perf_counter() - begun)
            if made is None:
                return None
            items: list[Item] = made() if self._lazy else made
            del made  # what it was made of
            items.reverse()
            self._list = items
            if self._lazy:
                self._room.put(None)
        return self._list.pop()

    def _make_room(self) -> None:
        """As in `Prefetcher`; what the taker makes is made first, so that two are never held."""
        if not self._lazy:
            super()._make_room()

    def close(self) -> None:
        """Like `Prefetcher.close`; items that were not asked for are dropped."""
        self._list = []
        super().close()


def ahead(source: Iterator[Item], capacity: int) -> Generator[Item, None, None]:
    """Yields the items of `source` (none of them None), made up to `capacity` ahead in a thread."""
    prefetcher = Prefetcher(source, capacity)
    try:
        try:
            prefetcher.start()
            while (item := prefetcher.take()) is not None:
                yield item
                del item  # keep no reference while waiting for the next item
        finally:
            prefetcher.close()
    finally:
        prefetcher.close()  # again, if it was interrupted


def _rest_at_the_end() -> None:
    """Never returns in a daemon thread once the interpreter shuts down.

    Threads of prefetchers are joined.
    """
    thread = threading.current_thread()
    if not _over.is_set() or thread.name == THREAD_NAME:
        return
    if thread is threading.main_thread():
        raise ForegatherError("the interpreter is ending; loop over a loader before that")
    threading.Event().wait()


@atexit.register
def _close_all() -> None:
    _over.set()
    for prefetcher in list(_open):
        prefetcher.end()
    if threading.active_count() > 1:  # daemon threads of the program, which may run until the end
        _core.expect_leaks()
