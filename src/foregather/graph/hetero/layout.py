"""layout: sorts the edges of a relation into rows, by source or in an order that is given.

The result is one definite array: equal edges keep their order, whatever the number of threads.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.arrays import id_dtype

__all__ = ["by_time", "endpoints", "lay_out", "targets_of"]

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]


def endpoints(pairs: Array, num_sources: int, num_targets: int) -> tuple[Array, Array]:
    """The two rows of an edge_index in the dtype that both have room in, every id checked.

    Raises:
        InputError: an id is no node of its type; names the edge.
    """
    dtype = id_dtype(max(num_sources, num_targets))
    found = []
    for row, nodes, end in zip(
        pairs, (num_sources, num_targets), ("source", "target"), strict=True
    ):
        ids = np.ascontiguousarray(row)
        if ids.dtype != np.uint32:
            ids = np.ascontiguousarray(ids, dtype=np.int64)
        bad = _core.check_ids(ids, nodes)
        if bad >= 0:
            raise InputError(
                f"edge {bad} has {end} {int(row[bad])}, but its {end} type has {nodes} nodes (ids "
                "are 0 to N-1)"
            )
        found.append(ids.astype(dtype, copy=False))
    return found[0], found[1]


def lay_out(
    source: Array,
    target: Array,
    num_sources: int,
    num_targets: int,
    taken: Positions | None = None,
    threads: int = 0,
) -> tuple[npt.NDArray[np.int64], Array, Positions]:
    """Sorts edges into rows by target.

    Args:
        source: checked ids.
        target: checked ids, of the same dtype.
        num_sources: nodes of the source type.
        num_targets: nodes of the target type.
        taken: the order in which edges are taken, which rows then keep; None sorts rows by source.
        threads: 0 uses all cores.

    Returns:
        indptr, indices and the position in the input of each edge.
    """
    if taken is not None:
        source, target = source[taken], target[taken]
    indptr = np.empty(num_targets + 1, np.int64)
    indices = np.empty(source.size, source.dtype)
    order = np.empty(source.size, np.int64)
    most = max(num_sources, num_targets, 1)
    _core.build_csc(source, target, most, indptr, indices, order, threads, taken is None)
    if taken is not None:
        order = taken[order]
    return indptr, indices.astype(id_dtype(num_sources), copy=False), order


def by_time(source: Array, times: npt.NDArray[np.int64]) -> Positions:
    """Positions of edges in the order of (time, source); equal ones keep their order."""
    if times.size == 0:
        return np.empty(0, np.int64)
    first, last = int(times.min()), int(times.max())
    bits = int(source.max()).bit_length()
    if (last - first).bit_length() + bits > 63:
        return np.lexsort((source, times))
    key = times - first  # one sort of one key takes half the time of two
    key <<= bits
    key |= source.astype(np.int64)
    return np.argsort(key, kind="stable")


def targets_of(indptr: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> Array:
    """The target of each edge."""
    return np.repeat(np.arange(indptr.size - 1, dtype=dtype), np.diff(indptr))
