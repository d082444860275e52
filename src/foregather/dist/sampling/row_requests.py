"""row_requests: fetches the rows of a layer's frontier from their owners: one request, one reply.

For uniform `Neighbor` the owner picks (a pick is a pure function of key, node and degree, so it
does not matter who draws it); a whole row is sent if all of it is needed. Each source is sent at
most once per layer and bulk, however many minibatches of the requester need it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.sampling.partition import Partition
from foregather.dist.transport.rank_grid import Channel
from foregather.dist.transport.wire import Bytes

__all__ = ["Entries", "ask_owners", "inquiry_of"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries of the rows of a stacked frontier.

    Attributes:
        ptr: int64: where the entries of each row begin.
        columns: their sources.
        edge: int64 positions in the whole graph.
        weight: float32 edge weights, or None.
    """

    ptr: Int
    columns: Array
    edge: Int
    weight: npt.NDArray[np.float32] | None


def inquiry_of(
    partition: Partition,
    rows: Array,
    batch_ptr: Int,
    keys: npt.NDArray[np.uint64],
    fanout: int,
    replace: bool,
    place: int,
) -> "_core.RowInquiry32 | _core.RowInquiry64":
    """Makes the requests of a layer, with ids as wide as the graph's."""
    cut = (batch_ptr, partition.row_starts, keys)
    return _core.row_inquiry(rows, *cut, fanout, replace, place)


def ask_owners(
    channel: Channel,
    partition: Partition,
    rows: Array,
    batch_ptr: Int,
    keys: npt.NDArray[np.uint64],
    fanout: int = -1,
    replace: bool = False,
    weighted: bool = False,
    threads: int = 1,
) -> Entries:
    """Returns the entries of these rows; a collective call of the column.

    Args:
        channel: the links.
        partition: what this rank owns.
        rows: stacked frontier: the nodes of batch 0, then of batch 1, ...
        batch_ptr: int64 [k + 1]: batch b has the rows [batch_ptr[b], batch_ptr[b + 1]).
        keys: uint64 [k] layer keys.
        fanout: entries picked per row; -1 is all.
        replace: pick with replacement.
        weighted: also edge weights (whole rows only).
        threads: threads to use.
    """
    wire, weights = channel.column, partition.edge_weight if weighted else None
    inquiry = inquiry_of(partition, rows, batch_ptr, keys, fanout, replace, wire.place)
    requests = [inquiry.request(owner) for owner in range(wire.size)]

    def answer(block: Partition, request: Bytes) -> Bytes:
        given = block.edge_weight if weighted else None
        held = (block.first_row, block.indptr, block.indices, given)
        return _core.answer_rows(request, *held, fanout, replace)

    answers = wire.ask(requests, answer, partition)
    own = (partition.first_row, partition.indptr, partition.indices, weights)
    ptr = np.empty(len(rows) + 1, np.int64)
    inquiry.accept(answers, *own, ptr, threads)
    columns, edge = np.empty(ptr[-1], partition.indices.dtype), np.empty(ptr[-1], np.int64)
    weight = np.empty(ptr[-1] if weights is not None else 0, np.float32)
    inquiry.fill(*own, ptr, columns, edge, weight, threads)
    return Entries(ptr, columns, edge, weight if weights is not None else None)
