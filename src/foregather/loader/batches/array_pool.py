"""array_pool: reuses the memory of released batches for the next ones.

The first touch of new memory costs many times as much as filling it: every page is cleared, and on
a virtual machine the host has to find it first. So a steady loop should touch none, and a first
epoch little; all loaders share one pool, as long as there is one. The pool lends arrays; a block
returns when its array is freed, and a tensor or view keeps the array alive, so that nothing a user
still holds is ever written to. Arrays are lent individually, not per batch: keeping the labels of a
batch does not keep its features.

An array may be freed by a torch destructor, in a daemon thread, while the interpreter shuts down.
Then no Python code may run: the interpreter would end the thread there, inside C++ code that cannot
unwind, and the process would abort. So the callback is a C function.
"""

import math
import threading
import time
import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ArrayPool", "shared_pool"]

Array = npt.NDArray[Any]

_SMALL = 1 << 20  # bytes; the allocator handles these well
_MOST = 32  # free blocks kept; further ones are released
_LARGE = 16 << 20  # bytes; a first touch takes longer than the wait for a block
_WAITS, _PAUSE = 10, 0.0002  # seconds


class _Loan(weakref.ref[Array]):
    """Tracks when a lent array is freed; refers to its block, which never refers to the array."""

    __slots__ = ("block",)
    block: Array


class ArrayPool:
    """Lends arrays; if two threads take at once, one gets new memory."""

    def __init__(self) -> None:
        self._back: deque[weakref.ref[Array]] = deque()  # of freed arrays, by any thread
        self._lent: dict[int, _Loan] = {}  # by id, as the hash of a reference is the array's
        self._free: list[Array] = []
        self._taking = threading.Lock()  # of the last two; never waited for

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """Returns an uninitialised array, from a free block or from new memory."""
        kind = np.dtype(dtype)
        need = math.prod(shape) * kind.itemsize
        if need >= _LARGE:
            self._wait_for_one(need)
        if need < _SMALL or not self._taking.acquire(blocking=False):
            return np.empty(shape, kind)
        try:
            block = self._take(need)
            lent = block[:need].view(kind).reshape(shape)
            loan = _Loan(lent, self._back.append)
            loan.block = block
            self._lent[id(loan)] = loan
            return lent
        finally:
            self._taking.release()

    @property
    def nbytes(self) -> int:
        """Bytes waiting to be reused."""
        with self._taking:
            self._sort_in()
        return sum(block.nbytes for block in self._free)

    def clear(self) -> None:
        """Frees the waiting blocks; lent ones return to an empty pool."""
        with self._taking:
            self._sort_in()
            self._free.clear()

    def _wait_for_one(self, need: int) -> None:
        """Waits a moment if no block is free but some are lent.

        A consumer that asks for a batch still holds the one before, and drops it when it gets the
        next, just after this thread was told to make another.
        """
        for _ in range(_WAITS if self._lent else 0):
            if self._back or any(need <= block.nbytes <= 2 * need for block in [*self._free]):
                return
            time.sleep(_PAUSE)

    def _sort_in(self) -> None:
        while self._back:
            loan = self._lent.pop(id(self._back.popleft()))
            if len(self._free) < _MOST:
                self._free.append(loan.block)

    def _take(self, need: int) -> Array:
        self._sort_in()
        sizes = [block.nbytes for block in self._free]
        fits = [size for size in sizes if need <= size <= 2 * need]
        if fits:
            return self._free.pop(sizes.index(min(fits)))
        # Sizes vary from batch to batch: a slightly too small block is replaced by one with a
        # reserve, so that the pool grows to the largest batch and no further.
        close = [size for size in sizes if need // 2 <= size < need]
        if close:
            del self._free[sizes.index(max(close))]
        return np.empty(need + need // 8, np.uint8)


_shared: "weakref.ref[ArrayPool] | None" = None


def shared_pool() -> ArrayPool:
    """The pool of all loaders; a new one if nobody holds it any more."""
    global _shared
    pool = None if _shared is None else _shared()
    if pool is None:
        pool = ArrayPool()
        _shared = weakref.ref(pool)
    return pool
