"""row_sums: adds up rows of a feature matrix by target, without a copy of the rows.

A sum is formed in float32 (float64 for float64 rows), one entry after the other in the order given:
the same bits as gathering the rows first and adding them up with the kernel of
`foregather.nn.aggregate`, for any number of threads.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.gather.memory import gather, gathered_dtype
from foregather.graph.features import Features

__all__ = ["can_sum", "list_starts", "sum_features", "sum_matrix", "summed_dtype"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]

_PIECE = (
    1 << 13
)  # rows that are made from stored ones at a time, so that they stay in the CPU's cache


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
            "use a sampler with hops, such as Neighbor, or leaves='rows'"
        )
    starts: Int = np.searchsorted(target, np.arange(targets + 1))
    return starts


def sum_matrix(
    rows: Array, source: Array, starts: Int, weight: Array | None, out: Array, threads: int = 0
) -> None:
    """Writes to out[t] the sum of weight[e] * rows[source[e]] for e in starts[t]..starts[t + 1].

    Args:
        rows: [any, width], float16, float32 or float64, contiguous.
        source: rows to add, by target.
        starts: from `list_starts`.
        weight: float32, one a source; None for 1.
        out: [targets, width] of `summed_dtype`.
        threads: 0 uses all.
    """
    out[...] = 0
    target = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    for low in range(0, len(source), _PIECE):
        some = rows[source[low : low + _PIECE]].astype(out.dtype)
        if weight is not None:
            some *= weight[low : low + _PIECE, None]
        np.add.at(out, target[low : low + _PIECE], some)


def sum_features(
    features: Features,
    ids: Array,
    starts: Int,
    weight: Array | None,
    out: Array,
    threads: int = 0,
) -> None:
    """The same from a feature matrix in memory or memory-mapped, `ids` being its rows.

    Rows that are not stored as they are summed (int8 with a scale, a strided view, another byte
    order) are gathered for a few targets at a time.
    """
    data = features.data
    if features.scale is None and data.flags.c_contiguous and data.dtype.isnative:
        return sum_matrix(data, ids, starts, weight, out, threads)
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + _PIECE, "right")) - 1
        last = min(max(last, first + 1), len(starts) - 1)
        span = slice(int(starts[first]), int(starts[last]))
        rows = gather(features, ids[span], threads=threads).numpy()
        part = None if weight is None else weight[span]
        places = np.arange(len(rows))
        sum_matrix(
            rows, places, starts[first : last + 1] - span.start, part, out[first:last], threads
        )
        first = last
