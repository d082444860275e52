"""pick_requests: a layer whose picks are made by the owners of its rows, see row_picks."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.dist.sampling.layers import Frontier, compact
from foregather.dist.sampling.partition import Partition
from foregather.dist.sampling.row_picks import Picked, PickRule, answer_picks, pick_rows, read_picks
from foregather.dist.sampling.row_requests import Entries, inquiry_of
from foregather.dist.transport.rank_grid import Channel
from foregather.dist.transport.wire import Bytes
from foregather.sampling.labor import Labor
from foregather.sampling.matrix import LayerGraph
from foregather.sampling.rows import pointer

__all__ = ["picked_layer"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


def picked_layer(
    channel: Channel, partition: Partition, front: Frontier, rule: PickRule
) -> LayerGraph:
    """Returns the layer's graph; a collective call of the column."""
    parts = list(_picks(channel, partition, front, rule))
    counts, degree = np.zeros((2, len(front.rows)), np.int64)
    for pairs, picked in parts:
        counts[pairs], degree[pairs] = picked.counts, picked.degree
    ptr = pointer(counts)
    columns, edge = np.empty(ptr[-1], partition.indices.dtype), np.empty(ptr[-1], np.int64)
    value = np.empty(ptr[-1] if rule.values(partition) else 0, np.float32)
    for pairs, picked in parts:
        upto = pointer(picked.counts)
        to = np.arange(upto[-1]) + np.repeat(ptr[:-1][pairs] - upto[:-1], picked.counts)
        columns[to], edge[to] = picked.columns, picked.edge
        if picked.value is not None:
            value[to] = picked.value
    with channel.clock.phase("extraction"):
        made = compact(front, Entries(ptr, columns, edge, None), rule.threads)
    if not isinstance(rule.sampler, Labor):
        return made
    row = np.repeat(np.arange(len(front.rows)), counts)
    values = value.astype(np.float64) if rule.values(partition) else 1.0 / degree[row]
    return replace(made, weight=rule.sampler.weigh(front.layer, row, degree, values))


def _picks(
    channel: Channel, partition: Partition, front: Frontier, rule: PickRule
) -> Iterator[tuple[Int, Picked]]:
    """For each owner: stacked rows of the frontier, and their picks in that order."""
    wire, starts, rows = channel.column, partition.row_starts, front.rows
    inquiry = inquiry_of(partition, rows, front.batch_ptr, front.keys, 1, False, wire.place)
    requests = [inquiry.request(owner) for owner in range(wire.size)]

    def answer(block: Partition, request: Bytes) -> Bytes:
        return answer_picks(block, request, rule)

    replies = wire.ask(requests, answer, partition)
    order = np.argsort(rows, kind="stable")  # by node, then by minibatch
    cut = np.searchsorted(rows[order], starts)
    for owner, reply in enumerate(replies):
        pairs = order[cut[owner] : cut[owner + 1]]
        if not len(pairs):
            continue
        if owner == wire.place:
            own = np.sort(pairs)
            ptr = np.searchsorted(own, front.batch_ptr).astype(np.int64)
            yield own, pick_rows(partition, rule, rows[own], ptr, front.keys)
        else:
            distinct, asked = np.unique(rows[pairs], return_counts=True)
            yield pairs, read_picks(partition, reply, rule, distinct, asked)
