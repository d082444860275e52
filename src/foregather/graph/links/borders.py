"""borders: which keys are at given places of a sorted list that is never sorted, nor held.

Keys are read several times in pieces, and counted by ever more of their leading bits: four passes
and a few megabytes, whatever their number.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from foregather import _core

__all__ = ["as_keys", "keys_at", "pair_keys"]

Keys = npt.NDArray[np.uint64]
Int = npt.NDArray[np.int64]

_BITS = 16
_SIGN = np.uint64(1 << 63)


def pair_keys(first: Int, second: Int, seed: int) -> Keys:
    """A random number for each pair of nodes: a pure function of the seed and the two ids."""
    made = np.empty(len(first), np.uint64)
    _core.pair_keys(np.ascontiguousarray(first), np.ascontiguousarray(second), seed, made)
    return made


def as_keys(times: Int) -> Keys:
    """Times as keys of the same order."""
    return np.asarray(times.view(np.uint64) ^ _SIGN, np.uint64)


def keys_at(read: Callable[[], Iterable[Keys]], places: Sequence[int]) -> Iterator[int]:
    """The keys at these places of the sorted list.

    Args:
        read: reads all keys, in pieces and any order; it is called four times.
        places: from 0 to below their number.
    """
    found = [0] * len(places)  # leading bits of each key
    left = list(places)  # its place among the keys with those bits
    for done in range(0, 64, _BITS):
        counts = [np.zeros(1 << _BITS, np.int64) for _ in places]
        for keys in read():
            lead = keys >> np.uint64(64 - done) if done else np.zeros_like(keys)
            digit = (keys >> np.uint64(64 - done - _BITS)) & np.uint64((1 << _BITS) - 1)
            for one, prefix in zip(counts, found, strict=True):
                mine = digit[lead == np.uint64(prefix)].astype(np.int64)
                one += np.bincount(mine, minlength=1 << _BITS)
        for number, one in enumerate(counts):
            ends = np.cumsum(one)
            digit_found = int(np.searchsorted(ends, left[number], side="right"))
            left[number] -= int(ends[digit_found - 1]) if digit_found else 0
            found[number] = (found[number] << _BITS) | digit_found
    return iter(found)
