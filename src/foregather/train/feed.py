"""feed: runs a producer in a background thread, a bounded number of items ahead of its consumer.

However the consumer ends (done, break, exception, KeyboardInterrupt, garbage collection, end of the
interpreter), the thread ends too and is joined. An exception of the producer is raised in the
consumer with its own traceback. Nothing waits without asking whether the other side still lives.

When the interpreter ends, only daemon threads are left to ask for more. They get nothing and sleep
until the process is gone: to say that there is nothing left would be a lie, and a new producer
would run into the end of the interpreter (torch aborts there).
"""

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Generator, Iterator
from typing import Any, Generic, TypeVar

from foregather import _core
from foregather.errors import ForegatherError

__all__ = ["THREAD_NAME", "ahead"]

Item = TypeVar("Item")

THREAD_NAME = "foregather-feed"
_ASK = 1.0  # seconds between questions whether the producer still lives
_open: "weakref.WeakSet[_Feed[Any]]" = weakref.WeakSet()
_over = threading.Event()  # the interpreter ends
# Its registry is walked at exit, before what was registered earlier: arrays that are still being
# lent would change it meanwhile. So it registers first, and feeds are closed before the walk.
weakref.finalize(_over, lambda: None).atexit = False


class _Feed(Generic[Item]):
    """The queue between the two threads; neither side refers to the other."""

    def __init__(self, source: Iterator[Item], capacity: int) -> None:
        self._ready: deque[Item] = deque()
        self._capacity = capacity
        self._changed = threading.Condition()
        self._done = False  # the producer has ended
        self._stop = False  # the consumer has ended
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._produce, args=(source,), name=THREAD_NAME, daemon=True
        )
        _open.add(self)
        self._thread.start()
        if _over.is_set():  # perhaps too late for _close_all to have seen it
            self.close()
            _rest_at_the_end()

    def _produce(self, source: Iterator[Item]) -> None:
        try:
            while self._has_room():
                item = next(source, None)
                if item is None:
                    break
                with self._changed:
                    self._ready.append(item)
                    self._changed.notify_all()
                del item
        except BaseException as error:  # whatever it is, the consumer has to see it
            self._error = error
        finally:
            with self._changed:
                self._done = True
                self._changed.notify_all()

    def _has_room(self) -> bool:
        """Waits for room, before the next item is made; False once the consumer has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._stop or len(self._ready) < self._capacity)
            return not self._stop

    def take(self) -> Item | None:
        """The next item, or None at the end."""
        with self._changed:
            while not self._ready and not self._done:
                self._changed.wait(_ASK)
                if not self._thread.is_alive() and not self._done:  # a fork has one thread only
                    raise ForegatherError(
                        "the loader's thread is not in this process; start a new loop here"
                    )
            if self._ready:
                item = self._ready.popleft()
                self._changed.notify_all()
                return item
        _rest_at_the_end()
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        return None

    def close(self) -> None:
        """Ends the producer after the item it is making, and waits for it."""
        with self._changed:
            self._stop = True
            self._ready.clear()
            self._changed.notify_all()
        # a collection can run in any thread; one that did not start yet will find that it may not
        if self._thread is not threading.current_thread() and self._thread.ident is not None:
            self._thread.join()


def ahead(source: Iterator[Item], capacity: int) -> Generator[Item, None, None]:
    """Yields the items of `source` (none of them None), made up to `capacity` ahead in a thread."""
    feed = _Feed(source, capacity)
    try:
        while (item := feed.take()) is not None:
            yield item
            del item  # the consumer's copy is the only one while the next is awaited
    finally:
        feed.close()


def _rest_at_the_end() -> None:
    """Does not return in a daemon thread once the interpreter ends; those of feeds are joined."""
    thread = threading.current_thread()
    if not _over.is_set() or thread.name == THREAD_NAME:
        return
    if thread is threading.main_thread():
        raise ForegatherError("the interpreter is ending; loop over a loader before that")
    threading.Event().wait()


@atexit.register
def _close_all() -> None:
    _over.set()
    for feed in list(_open):
        feed.close()
    if threading.active_count() > 1:  # daemon threads of the program, which may go on until the end
        _core.expect_leaks()
