"""check: checks a relation, so that kernels can walk it unchecked.

Arrays are read piece by piece. Beside a piece, memory holds a byte per edge where the relation has
edge ids.
"""

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError
from foregather.graph.chunks import edge_pieces, row_pieces
from foregather.graph.hetero.columns import NO_TIME
from foregather.graph.hetero.names import EdgeType, show_edge_type
from foregather.graph.hetero.relation import Relation
from foregather.graph.mapped import fetch

__all__ = ["check_relation"]

_AGAIN = "it is damaged, make the graph again"
Times = npt.NDArray[np.int64]


def check_relation(
    relation: Relation,
    edge_type: EdgeType,
    num_sources: int,
    source_time: Times | None,
    threads: int = 0,
) -> None:
    """Checks borders of rows, ids, order, times and edge ids.

    Args:
        relation: in memory or mapped.
        edge_type: its name.
        num_sources: nodes of the source type.
        source_time: times of those nodes, in memory; needed where the edges have copies of them.
        threads: 0 uses all cores.

    Raises:
        FormatError: names the relation, the array and the position of the first problem.
    """
    where = f"relation {show_edge_type(edge_type)}"
    previous = 0
    for start, borders in row_pieces(relation.indptr):
        bad = _core.check_indptr(borders, previous)
        if bad >= 0:
            raise FormatError(f"{where}: indptr falls at position {start + bad}; {_AGAIN}")
        previous = int(borders[-1])
    for piece in edge_pieces(relation):
        bad = _core.check_ids(piece.indices, num_sources, threads)
        if bad >= 0:
            raise FormatError(
                f"{where}: indices holds node {int(piece.indices[bad])} at position "
                f"{piece.start + bad}, but node type {edge_type[0]!r} has {num_sources} nodes (ids "
                f"are 0 to N-1); {_AGAIN}"
            )
        if relation.order == "source":
            bad = _core.check_rows(piece.indptr, piece.indices, piece.start)
            if bad >= 0:
                raise FormatError(
                    f"{where}: rows do not ascend by source at position {piece.start + bad}; "
                    f"{_AGAIN}"
                )
        if relation.time is not None:
            end = piece.start + len(piece.indices)
            time = fetch(relation.time[piece.start : end])
            _check_times(relation, piece.indices, piece.start, time, source_time, where)
            if relation.order == "time":
                _check_order(piece.indptr, piece.indices, piece.start, time, where)
    _check_edge_ids(relation, where)


def _check_times(
    relation: Relation,
    indices: npt.NDArray[np.uint32] | npt.NDArray[np.int64],
    start: int,
    time: Times,
    source_time: Times | None,
    where: str,
) -> None:
    if time.size and int(time.min()) == NO_TIME:
        raise FormatError(
            f"{where}: time holds NaT (no time) at position {start + int(time.argmin())}; {_AGAIN}"
        )
    if relation.time_level == "node":
        assert source_time is not None
        wrong = source_time[indices] != time
        if wrong.any():
            raise FormatError(
                f"{where}: time at position {start + int(wrong.argmax())} is not that of the "
                f"source node; {_AGAIN}"
            )


def _check_order(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.uint32] | npt.NDArray[np.int64],
    start: int,
    time: Times,
    where: str,
) -> None:
    """Refuses an edge that is before the one before it in its row, by (time, source)."""
    falls = (time[1:] < time[:-1]) | ((time[1:] == time[:-1]) & (indices[1:] < indices[:-1]))
    begins = indptr - start - 1  # a row may begin with any edge
    falls[begins[(begins >= 0) & (begins < falls.size)]] = False
    if falls.any():
        raise FormatError(
            f"{where}: rows do not ascend by time at position {start + 1 + int(falls.argmax())}; "
            f"{_AGAIN}"
        )


def _check_edge_ids(relation: Relation, where: str) -> None:
    if relation.edge_ids is None:
        return
    seen = np.zeros(relation.num_edges, np.bool_)
    for _, ids in row_pieces(relation.edge_ids):
        if _core.check_ids(ids, seen.size) < 0:
            seen[ids] = True
    if not seen.all():
        raise FormatError(
            f"{where}: edge_ids does not hold each position from 0 to {seen.size - 1} once; "
            f"{_AGAIN}"
        )
