"""column_owners: FastGCN's choice when each rank knows only the weights p of its own columns.

p is a sum over all rows of the graph. At the start each rank adds up its rows, column range by
column range, and sends the sums to the range's owner: whole numbers, so the order does not matter.
A choice depends on keys and p alone, not on the frontier, so the choices for all layers of a bulk
are made together. Columns are drawn by arrivals (fastgcn_draw.hpp), and every owner finds its own
arrivals: it offers those among the first arrivals, usually enough. If they are not enough (few
columns have most of the weight), a second and a third round follow, for those minibatches only.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.sampling.column_sums import add_by_column
from foregather.dist.sampling.layers import layer_keys
from foregather.dist.sampling.partition import Partition
from foregather.dist.transport.message_pack import pack, unpack
from foregather.dist.transport.rank_grid import Channel
from foregather.dist.transport.wire import as_bytes
from foregather.errors import InputError
from foregather.sampling.layerwise import FastGCN
from foregather.sampling.rows import Columns, pointer

__all__ = ["ColumnOwners"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
STEP = 4 << 20  # edges looked at together
_ROUNDS = 3  # few arrivals, all arrivals, the missing ones
_ORDER = (np.uint32, np.uint32, np.float64)  # numbers of arrivals, or keys


class ColumnOwners:
    """p of this rank's columns, and the choices of a bulk.

    Args:
        channel: the links.
        partition: this rank's rows; the same range of columns is its own, too.
    """

    def __init__(self, channel: Channel, partition: Partition) -> None:
        self.channel, self.partition = channel, partition
        self._chosen: list[tuple[Columns, Float]] = []
        self._dtype = partition.indices.dtype
        wire = channel.column
        wire.watch.where = "weights of FastGCN"
        largest = float(np.max([0.0, *(v.max() for _, v in _squares(partition) if len(v))]))
        if not np.isfinite(largest):
            raise InputError("edge_weight holds a number that is not finite")
        known = wire.share(
            as_bytes(np.array([largest, len(partition.indices)], np.float64)), "columns: scale"
        )
        table = np.stack([part.view(np.float64) for part in known])
        fixed = _core.FixedPoint(float(table[:, 0].max()), partition.num_edges)
        sums = self._add(fixed)
        self.weights = sums.astype(np.float64) * fixed.unit
        self._scale(sums, fixed.unit)

    def _scale(self, sums: Int, unit: float) -> None:
        """Sums over all ranks that the draws need."""
        wire, first = self.channel.column, self.partition.first_row
        positive = int((sums > 0).sum())
        known = wire.share(as_bytes(np.array([sums.sum(), positive])), "columns: total")
        table = np.stack([part.view(np.int64) for part in known])
        self.total = float(int(table[:, 0].sum())) * unit
        self.positive = int(table[:, 1].sum())
        self.above = math.frexp(self._sum_in_order())[1]
        self.block = _core.ArrivalsBlock(self.weights, first, self.above)
        shares = wire.share(as_bytes(np.array([self.block.units], np.uint64)), "columns: total")
        units = [int(part.view(np.uint64)[0]) for part in shares]
        self.units = sum(units)
        self.block.place(sum(units[: wire.place]), self.units)

    def _sum_in_order(self) -> float:
        """The sum of all weights, added in the order of the columns as one rank would."""
        wire, before = self.channel.column, 0.0
        for owner in range(wire.size):  # each adds its own to the sum of the ranks before it
            own = float(np.cumsum(np.concatenate([[before], self.weights]))[-1])
            parts = [np.empty(0, np.uint8)] * wire.size
            if owner == wire.place:
                parts = [as_bytes(np.array([own]))] * wire.size
            before = float(wire.exchange(parts, "columns: total")[owner].view(np.float64)[0])
        return before

    def _add(self, fixed: _core.FixedPoint) -> Int:
        """Sums of this rank's columns over the rows of all ranks."""
        wire, starts = self.channel.column, self.partition.row_starts
        own = np.zeros(0, np.int64)
        for owner in range(wire.size):
            low, high = int(starts[owner]), int(starts[owner + 1])
            partial = np.zeros(high - low, np.int64)
            for columns, squares in _squares(self.partition):
                inside = (columns >= low) & (columns < high)
                distinct, units = add_by_column(columns[inside], fixed.units(squares[inside]))
                partial[distinct.astype(np.int64) - low] += units
            met = np.flatnonzero(partial)
            part = np.concatenate([as_bytes(met), as_bytes(partial[met])])
            parts = [part if i == owner else part[:0] for i in range(wire.size)]
            got = wire.exchange(parts, "columns: sums")
            if owner == wire.place:
                own = np.zeros(high - low, np.int64)
                for piece in got:
                    place, units = piece.view(np.int64).reshape(2, -1)
                    own[place] += units
        return own

    # ---- choices -------------------------------------------------------------------------------

    def choose(self, sampler: FastGCN, batches: Sequence[int], seed: int, epoch: int) -> None:
        """Chooses the columns of every layer of these minibatches."""
        wire, sizes = self.channel.column, sampler.layer_sizes
        keys = [layer_keys(seed, epoch, batches, sampler.key_layer(n)) for n in range(len(sizes))]
        asked = wire.share(
            as_bytes(np.concatenate([np.empty(0, np.uint64), *keys])), "columns: keys"
        )
        wanted = [_Draws(part.view(np.uint64), sizes) for part in asked]
        own = wanted[wire.place]
        draws = [_Draw(self, int(key), size) for key, size in zip(own.keys, own.sizes, strict=True)]
        for number in range(_ROUNDS):
            offers = [self._offer(peer, number) for peer in wanted]
            got = [
                _unpack(part, number, self._dtype)
                for part in wire.exchange(offers, "columns: offers")
            ]
            for place, one in enumerate(own.left):
                draws[one].add([offer[place] for offer in got], number)
            left = [np.array([i for i in own.left if not draws[i].done], np.uint32)] * wire.size
            parts = wire.exchange([as_bytes(part) for part in left], "columns: left")
            for peer, part in zip(wanted, parts, strict=True):
                peer.left = part.view(np.uint32).tolist()
            if not any(peer.left for peer in wanted):
                break
        k, dtype = len(batches), self._dtype
        self._chosen = []
        for layer in range(len(sizes)):
            made = draws[layer * k : (layer + 1) * k]
            columns = Columns(
                pointer(np.array([len(draw.ids) for draw in made], np.int64)),
                np.concatenate([np.empty(0, np.int64), *(draw.ids for draw in made)]).astype(dtype),
                np.concatenate([np.empty(0), *(draw.weights for draw in made)]),
                np.full(k, self.total),
            )
            self._chosen.append((columns, np.array([draw.tau for draw in made], np.float64)))

    def chosen(self, layer: int) -> tuple[Columns, Float]:
        """What `choose` chose for a layer, and tau of each minibatch."""
        return self._chosen[layer]

    def _offer(self, asked: "_Draws", number: int) -> npt.NDArray[np.uint8]:
        """This rank's columns for each draw that is not done: their order, ids and weights."""
        first = self.partition.first_row
        order: list[Array] = [np.empty(0, _ORDER[number])]
        ids: list[Int] = [np.empty(0, np.int64)]
        for i in asked.left:
            key, size = int(asked.keys[i]), asked.sizes[i]
            begin, end = _span(size, number)
            if size < 0 or size >= self.positive:
                nodes: Int = first + np.flatnonzero(self.weights > 0)
                numbers: Array = np.zeros(len(nodes))
            elif number < 2:
                numbers, nodes = self.block.arrive(key, begin, end)
            else:
                numbers, nodes = self.block.rest(key, end, size + 1)
            order.append(numbers.astype(_ORDER[number]))
            ids.append(nodes)
        counts = np.array([len(part) for part in ids[1:]], np.int64)
        nodes = np.concatenate(ids)
        weights = self.weights[nodes - first]
        return pack(counts, np.concatenate(order), nodes.astype(self._dtype), weights)


class _Draws:
    """The draws a rank requested: keys and sizes, layer by layer, and which are unfinished."""

    def __init__(self, keys: npt.NDArray[np.uint64], sizes: Sequence[int]) -> None:
        self.keys = keys
        self.sizes = [int(size) for size in np.repeat(sizes, len(keys) // max(1, len(sizes)))]
        self.left = list(range(len(keys)))


class _Draw:
    """One draw of columns, from the offers of all owners."""

    def __init__(self, owners: ColumnOwners, key: int, size: int) -> None:
        self.owners, self.key, self.size = owners, key, size
        self.ids, self.weights = np.empty(0, np.int64), np.empty(0)
        self.tau, self.done = math.inf, False

    def add(self, offers: list[tuple[Array, Int, Float]], number: int) -> None:
        """Adds the offers of one round, one per owner; `done` says whether more are needed."""
        order, ids, weights = (np.concatenate(parts) for parts in zip(*offers, strict=True))
        owners, size = self.owners, self.size
        if size < 0 or size >= owners.positive:
            return self._finish(ids, weights, math.inf)
        place = np.lexsort((ids, order))
        have, order = len(self.ids), order[place]
        ids, weights = (
            np.concatenate([self.ids, ids[place]]),
            np.concatenate([self.weights, weights[place]]),
        )
        if number == 2:
            end = _span(size, number)[1]
            self._finish(
                ids[:size], weights[:size], self._time(end - 1) + float(order[size - have])
            )
        elif len(ids) > size:
            self._finish(ids[:size], weights[:size], self._time(int(order[size - have])))
        else:
            self.ids, self.weights = ids, weights

    def _time(self, number: int) -> float:
        return _core.arrival_time(self.key, number, self.owners.above, self.owners.units)

    def _finish(self, ids: Int, weights: Float, tau: float) -> None:
        order = np.argsort(ids)
        self.ids, self.weights, self.tau, self.done = ids[order], weights[order], tau, True


def _span(size: int, number: int) -> tuple[int, int]:
    """Which arrivals a round looks at."""
    few = min(_core.most_arrivals(size), 2 * (size + 8))
    return [(0, few), (few, _core.most_arrivals(size)), (0, _core.most_arrivals(size))][number]


def _unpack(part: npt.NDArray[np.uint8], number: int, dtype: Any) -> list[tuple[Array, Int, Float]]:
    counts, order, ids, weights = unpack(part, np.int64, _ORDER[number], dtype, np.float64)
    cuts = np.cumsum(counts)[:-1]
    pieces = (np.split(array, cuts) for array in (order, ids.astype(np.int64), weights))
    return list(zip(*pieces, strict=True)) if len(counts) else []


def _squares(partition: Partition) -> Iterator[tuple[Array, Float]]:
    """Columns and squared values of this rank's entries, a chunk of rows at a time."""
    indptr, first, row = partition.indptr, int(partition.indptr[0]), 0
    while row < len(indptr) - 1:
        last = int(np.searchsorted(indptr, indptr[row] + STEP, side="right")) - 1
        last = min(max(last, row + 1), len(indptr) - 1)
        span = slice(int(indptr[row]) - first, int(indptr[last]) - first)
        if partition.edge_weight is not None:
            values = partition.edge_weight[span].astype(np.float64)
        else:
            degree = np.diff(indptr[row : last + 1])
            values = np.repeat(1.0 / np.maximum(degree, 1), degree)
        yield partition.indices[span], values * values
        row = last
