"""check: checks a relation once, so that kernels can walk it unchecked."""

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError
from foregather.graph.hetero.columns import NO_TIME
from foregather.graph.hetero.names import EdgeType, show_edge_type
from foregather.graph.hetero.relation import Relation

__all__ = ["check_relation"]

_STEP = 4 << 20


def check_relation(
    relation: Relation,
    edge_type: EdgeType,
    num_sources: int,
    source_time: npt.NDArray[np.int64] | None,
    threads: int = 0,
) -> None:
    """Checks borders of rows, ids, order, times and edge ids of a relation in memory.

    Raises:
        FormatError: names the relation, the array and the position of the first problem.
    """
    where = f"relation {show_edge_type(edge_type)}"
    bad = _core.check_indptr(relation.indptr, 0)
    if bad >= 0:
        raise FormatError(f"{where}: indptr decreases at position {bad}; {_AGAIN}")
    bad = _core.check_ids(relation.indices, num_sources, threads)
    if bad >= 0:
        raise FormatError(
            f"{where}: indices holds node {int(relation.indices[bad])} at position {bad}, but node "
            f"type {edge_type[0]!r} has {num_sources} nodes (ids are 0 to N-1); {_AGAIN}"
        )
    if relation.order == "source":
        bad = _core.check_rows(relation.indptr, relation.indices, 0)
    else:
        bad = _check_times(relation, where, source_time)
    if bad >= 0:
        raise FormatError(
            f"{where}: rows do not ascend by {relation.order} at position {bad}; {_AGAIN}"
        )
    if relation.time is not None and relation.time.size and int(relation.time.min()) == NO_TIME:
        raise FormatError(
            f"{where}: time holds NaT (no time) at position {int(relation.time.argmin())}; {_AGAIN}"
        )
    _check_edge_ids(relation, where)


_AGAIN = "it is damaged, make the graph again"


def _check_times(relation: Relation, where: str, source_time: npt.NDArray[np.int64] | None) -> int:
    """The first edge that is earlier than the one before it in its row, or -1."""
    time, indices = relation.time, relation.indices
    assert time is not None
    if relation.time_level == "node":
        assert source_time is not None
        for start in range(0, time.size, _STEP):
            part = slice(start, start + _STEP)
            wrong = np.flatnonzero(source_time[indices[part]] != time[part])
            if wrong.size:
                raise FormatError(
                    f"{where}: time at position {start + int(wrong[0])} is not that of the source "
                    f"node; {_AGAIN}"
                )
    begins = relation.indptr[:-1][np.diff(relation.indptr) > 0]
    for start in range(0, time.size - 1, _STEP):
        now = slice(start, min(start + _STEP, time.size - 1))
        after = slice(now.start + 1, now.stop + 1)
        falls = (time[after] < time[now]) | (
            (time[after] == time[now]) & (indices[after] < indices[now])
        )
        low, high = np.searchsorted(begins, [after.start, after.stop])
        falls[begins[low:high] - after.start] = False
        if falls.any():
            return after.start + int(falls.argmax())
    return -1


def _check_edge_ids(relation: Relation, where: str) -> None:
    ids = relation.edge_ids
    if ids is None:
        return
    seen = np.zeros(ids.size, np.bool_)
    if _core.check_ids(ids, ids.size) < 0:
        seen[ids] = True
    if not seen.all():
        raise FormatError(
            f"{where}: edge_ids does not hold each position from 0 to {ids.size - 1} once; {_AGAIN}"
        )
