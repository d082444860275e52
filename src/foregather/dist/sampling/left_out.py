"""left_out: what minibatches leave out of rows that lie with other ranks.

The places of the edges are asked of their owners once per bulk, by their two ends. With these and
the degrees, a rank draws by itself from rows that leave something out: positions are picked among
what is left, as in memory, and only the sources at these positions are asked for. Rows that leave
out nothing are sampled by their owners as ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.sampling.layers import Frontier
from foregather.dist.sampling.partition import Partition
from foregather.dist.sampling.row_requests import Entries
from foregather.dist.transport.rank_grid import Channel
from foregather.dist.transport.varint import Numbers
from foregather.dist.transport.wire import Bytes
from foregather.errors import InputError
from foregather.sampling.links.excluded import Excluded
from foregather.sampling.rows import pointer

__all__ = ["WHERE", "LeftOut", "ask_sources", "find_left_out"]

Array = npt.NDArray[Any]
Bool = npt.NDArray[np.bool_]
Int = npt.NDArray[np.int64]

#: What the neighbour lists are called in messages.
WHERE = "a topology that is partitioned over ranks"


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The rows of a bulk from which something is left out, ascending by minibatch and node.

    Attributes:
        num_nodes: nodes of the graph.
        key: int64: minibatch * num_nodes + node.
        start: int64: where the row begins in the whole graph.
        degree: int64: its entries, those left out included.
        ptr: int64 [rows + 1]: row i leaves out gap[ptr[i] : ptr[i + 1]].
        gap: int64: positions in the whole graph, ascending.
    """

    num_nodes: int
    key: Int
    start: Int
    degree: Int
    ptr: Int
    gap: Int

    def match(self, front: Frontier) -> Int:
        """Which of these rows each row of the frontier is; -1: none of them."""
        batch = np.repeat(np.arange(len(front.keys)), np.diff(front.batch_ptr))
        key = batch * self.num_nodes + front.rows.astype(np.int64)
        found = np.searchsorted(self.key, key)
        there = found < len(self.key)
        there[there] = self.key[found[there]] == key[there]
        return np.where(there, found, -1)

    def left(self, rows: Int) -> Int:
        """Entries of these rows without what is left out."""
        count: Int = self.degree[rows] - np.diff(self.ptr)[rows]
        return count

    def step_over(self, rows: Int, place: Int) -> Int:
        """Positions in the whole graph of entries that are number `place` of what rows leave."""
        if not len(rows):
            return place
        # gap k of a row is passed if it is at most `place` plus the k gaps before it
        row = np.repeat(np.arange(len(self.key)), np.diff(self.ptr))
        order = np.arange(len(self.gap)) - self.ptr[row]
        wide = int(self.degree.max()) + 1
        passed = np.searchsorted(
            row * wide + (self.gap - self.start[row] - order), rows * wide + place, side="right"
        )
        edge: Int = self.start[rows] + place + passed - self.ptr[rows]
        return edge

    def keeps(self, front: Frontier, entries: Entries) -> Bool:
        """Which entries of whole rows stay."""
        found = np.repeat(self.match(front), np.diff(entries.ptr))
        row = np.repeat(np.arange(len(self.key)), np.diff(self.ptr))
        most = int(entries.edge.max(initial=0)) + 1
        gone = np.isin(found * most + entries.edge, row * most + self.gap)
        return ~gone | (found < 0)


def find_left_out(channel: Channel, partition: Partition, exclude: Sequence[Excluded]) -> LeftOut:
    """Asks the owners of rows where the edges are; a collective call of the column.

    Args:
        channel: the links.
        partition: what this rank owns.
        exclude: of the minibatches of this rank, one after another.

    Raises:
        InputError: edges or trees are named, or nodes that do not exist.
    """
    all_of = Excluded.stack(exclude, WHERE)
    ptr, target, source = all_of.by_ends(partition.num_nodes, len(all_of), WHERE)
    batch = np.repeat(np.arange(len(all_of)), np.diff(ptr))
    pairs, back = np.unique(np.stack([target, source]), axis=1, return_inverse=True)
    back = back.reshape(-1)
    start, degree, low, count = _ask_places(channel, partition, *pairs)
    # every edge of every entry, each once
    many = count[back]
    ptr = pointer(many)
    step = np.arange(ptr[-1]) - np.repeat(ptr[:-1], many)
    key = np.repeat(batch * partition.num_nodes + target, many)
    gap = np.repeat((start + low)[back], many) + step
    order = np.lexsort((gap, key))
    key, gap, of = key[order], gap[order], np.repeat(back, many)[order]
    new = np.ones(len(key), np.bool_)
    new[1:] = (key[1:] != key[:-1]) | (gap[1:] != gap[:-1])
    key, gap, of = key[new], gap[new], of[new]
    rows, first, counts = np.unique(key, return_index=True, return_counts=True)
    own = of[first]
    return LeftOut(partition.num_nodes, rows, start[own], degree[own], pointer(counts), gap)


def ask_sources(channel: Channel, partition: Partition, rows: Array, edge: Int) -> Array:
    """Returns the sources of edges, given the rows they are in; a collective call of the column."""
    distinct, back = np.unique(edge, return_inverse=True)
    owner = np.empty(len(distinct), np.int64)
    owner[back.reshape(-1)] = _owners(partition, rows)

    def request(own: Int) -> Bytes:
        return _core.encode_varints(np.diff(own, prepend=0))

    def answer(block: Partition, asked: Bytes) -> Bytes:
        places = np.cumsum(_core.decode_varints(asked)) - block.indptr[0]
        if len(places) and not 0 <= places.min() <= places.max() < len(block.indices):
            raise InputError("a request asks for edges that their owner does not have")
        return _core.encode_varints(block.indices[places].astype(np.int64))

    found = np.empty(len(distinct), np.int64)
    for own, reply in _ask(channel, partition, distinct, owner, request, answer):
        numbers = Numbers(reply)
        found[own] = numbers.take(int(own.sum()))
        numbers.end()
    if len(found) and int(found.max()) >= partition.num_nodes:
        raise InputError("a reply holds an id that is not a node")
    sources: Array = found.astype(partition.indices.dtype)[back.reshape(-1)]
    return sources


def _ask_places(
    channel: Channel, partition: Partition, target: Int, source: Int
) -> tuple[Int, Int, Int, Int]:
    """Of pairs sorted by target: start and degree of the row, and where in it the edges are."""
    numbered = np.arange(len(target))

    def request(own: Int) -> Bytes:
        steps = np.diff(target[own], prepend=0)
        return _core.encode_varints(np.concatenate([steps, source[own]]))

    def answer(block: Partition, asked: Bytes) -> Bytes:
        numbers = _core.decode_varints(asked)
        if len(numbers) % 2:
            raise InputError("a message between ranks is shorter than it says")
        numbers = numbers.reshape(2, -1)
        rows = np.cumsum(numbers[0]) - block.first_row
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(block.indptr) - 1:
            raise InputError("a request asks for a row that its owner does not have")
        begin, end = block.indptr[rows], block.indptr[rows + 1]
        low = _bound(block, begin, end, numbers[1], last=False)
        high = _bound(block, begin, end, numbers[1], last=True)
        return _core.encode_varints(np.concatenate([begin, end - begin, low - begin, high - low]))

    made = np.zeros((4, len(target)), np.int64)
    owner = _owners(partition, target)
    for own, reply in _ask(channel, partition, numbered, owner, request, answer):
        numbers = Numbers(reply)
        made[:, own] = numbers.take(4 * int(own.sum())).reshape(4, -1)
        numbers.end()
    start, degree, low, count = made
    return start, degree, low, count


def _bound(block: Partition, low: Int, high: Int, value: Int, last: bool) -> Int:
    """Where a value would be put before (`last`: behind) its equals in rows that ascend."""
    low, high = low.copy(), high.copy()
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) // 2
        found = block.indices[middle - block.indptr[0]].astype(np.int64)
        right = found <= value[open_] if last else found < value[open_]
        low[open_[right]] = middle[right] + 1
        high[open_[~right]] = middle[~right]


def _owners(partition: Partition, rows: Array) -> Int:
    starts = partition.row_starts
    owner: Int = np.searchsorted(starts, rows.astype(np.int64), side="right") - 1
    return owner


def _ask(
    channel: Channel, partition: Partition, things: Int, owner: Int, request: Any, answer: Any
) -> list[tuple[Bool, Bytes]]:
    """For each owner of some of the things: which they are, and its reply; own ones are read."""
    wire = channel.column
    whose = [owner == place for place in range(wire.size)]
    messages = [request(things[own]) for own in whose]
    mine = messages[wire.place]
    messages[wire.place] = np.empty(0, np.uint8)
    replies = wire.ask(messages, answer, partition)
    if len(mine):
        replies[wire.place] = answer(partition, mine)
    return [(own, reply) for own, reply in zip(whose, replies, strict=True) if own.any()]
