"""row_sums: adds up rows of a feature matrix by target, without a copy of the rows.

A sum is formed in float32 (float64 for float64 rows), one entry after the other in the order given:
the same bits as gathering the rows first and adding them up with the kernel of
`foregather.nn.aggregate`, for any number of threads.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.gather.memory import gather
from foregather.graph.features import Features

__all__ = ["can_sum", "list_starts", "sum_features", "sum_matrix", "summed_dtype"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
Places = npt.NDArray[np.uint32]

_PIECE = 1 << 13  # rows that are made from stored ones at a time


def can_sum(dtype: np.dtype[Any]) -> bool:
    """Whether gathered rows of this dtype can be added up."""
    return dtype in (np.float16, np.float32, np.float64)


def summed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of sums of such rows."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def list_starts(target: Array, targets: int) -> Int:
    """Where the entries of each target begin: int64 [targets + 1].

    Raises:
        InputError: targets do not ascend, or one is not among the first `targets`.
    """
    if len(target) and (int(target[-1]) >= targets or (target[1:] < target[:-1]).any()):
        raise InputError(
            f"edges must ascend by target, all below {targets}, for their rows to be added up; "
            "use a sampler that goes layer by layer, such as Neighbor, or leaves='rows'"
        )
    starts: Int = np.searchsorted(target, np.arange(targets + 1, dtype=target.dtype))
    return starts


def sum_matrix(
    rows: Array, place: Places, starts: Int, weight: Array | None, out: Array, threads: int = 0
) -> None:
    """Writes to out[t] the sum of weight[e] * rows[place[e]] for e in starts[t]..starts[t + 1].

    Args:
        rows: [any, width], float16, float32 or float64, contiguous.
        place: rows to add, by target.
        starts: from `list_starts`.
        weight: float32, one a place; None for 1.
        out: [targets, width] of `summed_dtype`.
        threads: 0 uses all.

    Raises:
        InputError: a place is out of range; then nothing was written.
    """
    _core.sum_rows(rows, None, place, starts, weight, None, out, threads)


def sum_features(
    features: Features,
    node: Array,
    place: Places,
    starts: Int,
    weight: Array | None,
    out: Array,
    threads: int = 0,
) -> None:
    """The same from a feature matrix in memory or memory-mapped: its rows node[place[e]].

    A strided view, or rows in another byte order, are gathered for a few targets at a time.
    """
    data = features.data
    if data.flags.c_contiguous and data.dtype.isnative:
        node = features.rows_of(node)
        _core.sum_rows(data, node, place, starts, weight, features.scale, out, threads)
        return
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + _PIECE, "right")) - 1
        last = min(max(last, first + 1), len(starts) - 1)
        span = slice(int(starts[first]), int(starts[last]))
        rows = gather(features, node[place[span]], threads=threads).numpy()
        some = np.arange(len(rows), dtype=np.uint32)
        part = None if weight is None else weight[span]
        begins = starts[first : last + 1] - span.start
        sum_matrix(rows, some, begins, part, out[first:last], threads)
        first = last
