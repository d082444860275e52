"""shelf: memory of batches that are gone, used again for the next ones.

The first touch of new memory costs several times what filling it costs, so a steady loop should
touch none. An array is lent; its block comes back when the array itself is gone, and a tensor or
view of it keeps it alive, so that nothing a user still holds is ever written to. Arrays are lent
one by one, not batch by batch: who keeps the labels of a batch does not keep its features.
"""

import math
import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Shelf"]

Array = npt.NDArray[Any]

_SMALL = 1 << 20  # bytes; the allocator serves these well
_MOST = 32  # free blocks kept; what comes back beyond is released


class Shelf:
    """Lends arrays; for one thread that takes, while any thread may give back."""

    def __init__(self) -> None:
        self._back: deque[Array] = deque()  # appended to by finalizers, in whatever thread
        self._free: list[Array] = []

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
        """An array with any content, from a block that is free or from new memory."""
        kind = np.dtype(dtype)
        need = math.prod(shape) * kind.itemsize
        if need < _SMALL:
            return np.empty(shape, kind)
        block = self._take(need)
        lent = block[:need].view(kind).reshape(shape)
        # the finalizer holds the block, the block never holds the array that was lent
        weakref.finalize(lent, self._back.append, block).atexit = False
        return lent

    @property
    def nbytes(self) -> int:
        """Bytes that wait to be used again."""
        self._sort_in()
        return sum(block.nbytes for block in self._free)

    def _sort_in(self) -> None:
        while self._back:
            block = self._back.popleft()
            if len(self._free) < _MOST:
                self._free.append(block)

    def _take(self, need: int) -> Array:
        self._sort_in()
        sizes = [block.nbytes for block in self._free]
        fits = [size for size in sizes if need <= size <= 2 * need]
        if fits:
            return self._free.pop(sizes.index(min(fits)))
        # Sizes vary from batch to batch: a block that is a little too small makes room for one
        # with a reserve, so that the shelf grows to the largest batch and no further.
        close = [size for size in sizes if need // 2 <= size < need]
        if close:
            del self._free[sizes.index(max(close))]
        return np.empty(need + need // 8, np.uint8)
