"""varint: whole numbers in as few bytes as they need: 7 bits a byte, as the core has them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError

__all__ = ["Numbers", "encode"]

Bytes = npt.NDArray[np.uint8]
Int = npt.NDArray[np.int64]
_BITS, _MOST_BYTES = 7, 9  # int64 from 0 on: 63 bits


def encode(values: npt.NDArray[Any]) -> Bytes:
    """The bytes of numbers from 0 on, one after the other."""
    left = np.asarray(values, np.int64)
    lengths = np.ones(len(left), np.int64)
    for more in range(1, _MOST_BYTES):
        lengths += left >= 1 << (_BITS * more)
    begin = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for place in range(int(lengths.max(initial=0))):
        here = lengths > place
        follows = (lengths[here] > place + 1).astype(np.int64) << _BITS
        out[begin[here] + place] = (left[here] >> (_BITS * place)) & 127 | follows
    return out


class Numbers:
    """The numbers of a message, taken one after the other.

    Args:
        message: the bytes.

    Raises:
        InputError: the message ends inside a number, or holds one that is too large.
    """

    def __init__(self, message: Bytes) -> None:
        ends = np.flatnonzero(message < 128)
        lengths = np.diff(ends, prepend=-1)
        inside = len(message) and (not len(ends) or ends[-1] != len(message) - 1)
        if inside or lengths.max(initial=0) > _MOST_BYTES:
            raise InputError("a message between ranks ends inside a number or is damaged")
        begin = ends + 1 - lengths
        shift = _BITS * (np.arange(len(message)) - np.repeat(begin, lengths))
        parts = (message & 127).astype(np.int64) << shift
        self._values = np.add.reduceat(parts, begin) if len(ends) else np.empty(0, np.int64)
        self._at = 0

    def take(self, count: int) -> Int:
        """The next numbers.

        Raises:
            InputError: there are fewer.
        """
        if not 0 <= count <= len(self._values) - self._at:
            raise InputError("a message between ranks is shorter than it says")
        self._at += count
        return self._values[self._at - count : self._at]

    def end(self) -> None:
        """Raises InputError unless all were taken."""
        if self._at != len(self._values):
            raise InputError("a message between ranks is longer than it says")
