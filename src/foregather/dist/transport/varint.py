"""varint: the numbers of a message between ranks, 7 bits per byte, taken one after the other."""

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError

__all__ = ["Numbers"]

Bytes = npt.NDArray[np.uint8]
Int = npt.NDArray[np.int64]


class Numbers:
    """The numbers of a message.

    Args:
        message: the bytes, as `_core.encode_varints` made them.

    Raises:
        InputError: the message ends inside a number, or holds one that is too large.
    """

    def __init__(self, message: Bytes) -> None:
        self._values: Int = _core.decode_varints(message)
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
