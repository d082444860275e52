"""array_pool: memory of batches that are gone, used again for the next ones.

The first touch of new memory costs several times what filling it costs, so a steady loop should
touch none. An array is lent; its block comes back when the array itself is gone, and a tensor or
view of it keeps it alive, so that nothing a user still holds is ever written to. Arrays are lent
one by one, not batch by batch: who keeps the labels of a batch does not keep its features.

An array may go in a destructor of torch, in a daemon thread, while the interpreter ends. Then no
line of Python may run for it: the interpreter would end the thread there, inside C++ that cannot
let that pass, and the process would abort. So what is called then is a function in C.
"""

import math
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ArrayPool"]

Array = npt.NDArray[Any]

_SMALL = 1 << 20  # bytes; the allocator serves these well
_MOST = 32  # free blocks kept; what comes back beyond is released


class _Loan(weakref.ref[Array]):
    """Knows when a lent array is gone; holds its block, which never holds the array."""

    __slots__ = ("block",)
    block: Array


class ArrayPool:
    """Lends arrays; where two threads take at once, one gets new memory."""

    def __init__(self) -> None:
        self._back: deque[weakref.ref[Array]] = deque()  # of arrays that are gone, by any thread
        self._lent: dict[int, _Loan] = {}  # by id, as the hash of a reference is the array's
        self._free: list[Array] = []
        self._taking = threading.Lock()  # of the last two; never waited for

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """An array with any content, from a block that is free or from new memory."""
        kind = np.dtype(dtype)
        need = math.prod(shape) * kind.itemsize
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
        """Bytes that wait to be used again."""
        with self._taking:
            self._sort_in()
        return sum(block.nbytes for block in self._free)

    def clear(self) -> None:
        """Gives back the blocks that wait; those that are lent come to an empty pool."""
        with self._taking:
            self._sort_in()
            self._free.clear()

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
        # Sizes vary from batch to batch: a block that is a little too small makes room for one
        # with a reserve, so that the pool grows to the largest batch and no further.
        close = [size for size in sizes if need // 2 <= size < need]
        if close:
            del self._free[sizes.index(max(close))]
        return np.empty(need + need // 8, np.uint8)
