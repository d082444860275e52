"""columns: arrays that callers give for nodes, edges and links, in the form that they are held in.

Numbers are kept as they are, to the bit; only times and weights have one form each. Times are whole
numbers on one axis for the whole graph; which unit they have is the caller's business.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.arrays import to_array
from foregather.graph.on_disk.holdable import DTYPES

__all__ = ["NO_TIME", "check_times", "to_rows", "to_times"]

Array = npt.NDArray[Any]

#: NaT as an integer; no time is this number.
NO_TIME = np.iinfo(np.int64).min
_MOST_DIMENSIONS = 8


def to_rows(value: Any, count: int, name: str, each: str) -> Array:
    """Returns numbers with `count` rows, contiguous and in native byte order.

    Raises:
        InputError: not numbers of at most 64 bits, or another number of rows.
    """
    array = to_array(value, name)
    if array.dtype.name not in DTYPES:
        raise InputError(
            f"{name} holds {array.dtype}, expected numbers of at most 64 bits; cast them, for "
            "example to float32"
        )
    if array.ndim == 0 or array.shape[0] != count or array.ndim > _MOST_DIMENSIONS:
        raise InputError(
            f"{name} has shape {list(array.shape)}, expected {count} rows, one per {each}"
        )
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def to_times(value: Any, count: int, name: str, each: str) -> npt.NDArray[np.int64]:
    """Returns times as int64; datetime64 becomes whole seconds since 1970.

    Raises:
        InputError: floats, fractions of a second, NaT, or another number of them.
    """
    given = getattr(value, "dtype", None)
    if isinstance(given, np.dtype) and given.kind in "mM":
        array = _seconds(np.asarray(value), name)
    else:
        array = to_array(value, name)
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{name} holds {array.dtype}, expected whole numbers: a time is int64, for example "
            "seconds since 1970, and a missing one has no place among them"
        )
    if array.shape not in ((count,), (count, 1)):
        raise InputError(
            f"{name} has shape {list(array.shape)}, expected [{count}], one per {each}"
        )
    array = array.reshape(-1)
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise InputError(f"{name} holds {int(array.max())}, which int64 does not")
    times = np.ascontiguousarray(array, dtype=np.int64)
    check_times(times, name)
    return times


def check_times(times: npt.NDArray[np.int64], name: str, start: int = 0) -> None:
    """Refuses NaT among times.

    Raises:
        InputError: names its position, counted from `start`.
    """
    if times.size and int(times.min()) == NO_TIME:
        raise InputError(
            f"{name} holds NaT (no time) at position {start + int(times.argmin())}; leave such "
            "rows out, or give them a time"
        )


def _seconds(array: Array, name: str) -> npt.NDArray[np.int64]:
    if np.isnat(array).any():
        raise InputError(
            f"{name} holds NaT (no time) at position {int(np.isnat(array).argmax())}; leave such "
            "rows out, or give them a time"
        )
    if array.dtype.kind == "m":
        raise InputError(f"{name} holds {array.dtype}, a length of time, expected points in time")
    whole = array.astype("datetime64[s]")
    if (whole != array).any():
        raise InputError(
            f"{name} holds {array.dtype} with fractions of a second; convert all times of the "
            "graph to int64 in one unit"
        )
    return whole.astype(np.int64)
