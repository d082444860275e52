"""message_pack: several arrays in one message: their lengths, then their bytes.

The lengths are int64; the arrays follow one after the other without padding, so they are copied
out where they are read.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.dist.transport.wire import as_bytes
from foregather.errors import InputError

__all__ = ["pack", "unpack"]

Array = npt.NDArray[Any]


def pack(*arrays: Array) -> npt.NDArray[np.uint8]:
    """One message."""
    lengths = np.array([len(array) for array in arrays], np.int64)
    return np.concatenate([as_bytes(lengths), *(as_bytes(array) for array in arrays)])


def unpack(message: npt.NDArray[np.uint8], *dtypes: npt.DTypeLike) -> list[Array]:
    """The arrays of a message.

    Raises:
        InputError: the message does not have the length it says.
    """
    at = 8 * len(dtypes)
    if len(message) < at:
        raise InputError("a message between ranks is shorter than it says")
    lengths = np.frombuffer(message[:at].tobytes(), np.int64)
    made = []
    for length, kind in zip(lengths.tolist(), dtypes, strict=True):
        dtype = np.dtype(kind)
        end = at + length * dtype.itemsize
        if length < 0 or end > len(message):
            raise InputError("a message between ranks is shorter than it says")
        made.append(np.frombuffer(message[at:end].tobytes(), dtype))
        at = end
    if at != len(message):
        raise InputError("a message between ranks is longer than it says")
    return made
