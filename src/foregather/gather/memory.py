"""memory: gathers feature rows from memory (or a memory map) into one tensor.

The result equals `features[ids]` bit for bit: the stored dtype, or float32 for int8 with a
scale. Only if the caller passes a float32 `out` are float16 rows converted, exactly.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import to_ids
from foregather.graph.features import Features

if TYPE_CHECKING:
    import torch

__all__ = ["gather", "gathered_dtype"]

Array = npt.NDArray[Any]


def gathered_dtype(features: Features) -> np.dtype[Any]:
    """The dtype of gathered rows: the stored one in native byte order, float32 with a scale."""
    return np.dtype(np.float32) if features.scale is not None else features.dtype.newbyteorder("=")


def gather(
    features: Features,
    ids: Any,
    out: "torch.Tensor | None" = None,
    threads: int = 0,
    *,
    pin: bool = False,
) -> "torch.Tensor":
    """Copies rows into a tensor [len(ids), width].

    Args:
        features: rows in memory or memory-mapped.
        ids: the rows, in order; duplicates are allowed. Arrays of uint32 or int64 are used without
            a copy.
        out: the destination, contiguous on the CPU: [len(ids), width] of the gathered dtype, or
            float32 for float16 rows. None makes a new tensor.
        threads: 0 uses all; the result is the same for any number.
        pin: allocate the new tensor in page-locked memory if CUDA is available; otherwise ignored.

    Raises:
        InputError: an id is out of range, or `out` does not fit.
    """
    rows = row_ids(ids, features.num_rows)
    if out is None:
        out = _empty(rows.size, features, pin)
    elif tuple(out.shape) != (rows.size, features.width) or not out.is_contiguous():
        raise InputError(
            f"out has shape {list(out.shape)}, expected a contiguous tensor of shape "
            f"[{rows.size}, {features.width}]"
        )
    into: Array = out.numpy()
    dtype = gathered_dtype(features)
    if into.dtype != dtype and not (dtype == np.float16 and into.dtype == np.float32):
        raise InputError(f"out is {into.dtype}, expected {dtype}")
    if features.data.flags.c_contiguous and features.data.dtype.isnative:
        _core.gather_rows(features.data, features.rows_of(rows), into, features.scale, threads)
    else:  # a strided view, or foreign byte order: left to NumPy
        into[...] = features[rows]
    return out


def row_ids(ids: Any, count: int) -> Array:
    """Returns ids as the core needs them.

    Unchanged if it can read them, otherwise checked and converted.
    """
    if (
        isinstance(ids, np.ndarray)
        and ids.dtype in (np.uint32, np.int64)
        and ids.ndim == 1
        and ids.flags.c_contiguous
    ):
        return ids  # the core checks the range
    return to_ids(ids, count, "ids", "rows")


def _empty(count: int, features: Features, pin: bool) -> "torch.Tensor":
    import torch

    dtype = torch.from_numpy(np.empty(0, gathered_dtype(features))).dtype
    pinned = pin and torch.cuda.is_available()
    return torch.empty((count, features.width), dtype=dtype, pin_memory=pinned)
