"""column_owners: FastGCN's choice where each rank knows the weights p of its own columns only.

p is a sum over all rows of the graph. At the start each rank adds up its rows, column range by
column range, and sends the sums to the range's owner: whole numbers, so the order does not matter.
A choice depends on keys and p alone, not on the frontier, so the choices for all layers of a bulk
are made in one exchange: each owner offers the s + 1 smallest keys of its columns, and the s
smallest of all offers win.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.fixed_point import FixedPoint, add_by_column
from foregather.dist.grid import Channel
from foregather.dist.partition import Partition
from foregather.dist.program import layer_keys
from foregather.dist.wire import as_bytes
from foregather.errors import InputError
from foregather.sampling.rows import Columns, pointer

__all__ = ["ColumnOwners"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
STEP = 4 << 20  # edges looked at together


class ColumnOwners:
    """p of this rank's columns, and the choices of a bulk.

    Args:
        channel: the links.
        partition: this rank's rows; the same range of columns is its own, too.
    """

    def __init__(self, channel: Channel, partition: Partition) -> None:
        self.channel, self.partition = channel, partition
        self._chosen: list[tuple[Columns, Float]] = []
        wire = channel.column
        wire.watch.where = "weights of FastGCN"
        largest = float(np.max([0.0, *(v.max() for _, v in _squares(partition) if len(v))]))
        if not np.isfinite(largest):
            raise InputError("edge_weight holds a number that is not finite")
        known = wire.share(
            as_bytes(np.array([largest, len(partition.indices)], np.float64)), "columns: scale"
        )
        table = np.stack([part.view(np.float64) for part in known])
        fixed = FixedPoint(float(table[:, 0].max()), partition.num_edges)
        sums = self._add(fixed)
        totals = wire.share(as_bytes(np.array([sums.sum()])), "columns: total")
        self.total = float(sum(int(part.view(np.int64)[0]) for part in totals)) * fixed.unit
        self.weights = sums.astype(np.float64) * fixed.unit
        first = partition.first_row
        self.ids = np.arange(first, first + len(sums)).astype(partition.indices.dtype)

    def _add(self, fixed: FixedPoint) -> Int:
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

    def choose(
        self, sizes: Sequence[int], batches: Sequence[int], seed: int, epoch: int
    ) -> None:
        """Chooses the columns of every layer of these minibatches."""
        wire, layers = self.channel.column, len(sizes)
        keys = np.concatenate([layer_keys(seed, epoch, batches, n) for n in range(layers)])
        asked = wire.share(as_bytes(keys), "columns: keys")
        offers = [self._offer(part.view(np.uint64), sizes) for part in asked]
        got = wire.exchange(offers, "columns: offers")
        each = [list(self._unpack(part, len(keys))) for part in got]
        self._chosen = []
        k = len(batches)
        for layer, size in enumerate(sizes):
            ids, weights = [], []
            for b in range(layer * k, (layer + 1) * k):
                ids.append(np.concatenate([parts[b][0] for parts in each]))
                weights.append(np.concatenate([parts[b][1] for parts in each]))
            own_keys = keys[layer * k : (layer + 1) * k]
            self._chosen.append(self._merge(ids, weights, own_keys, size))

    def chosen(self, layer: int) -> tuple[Columns, Float]:
        """What `choose` chose for a layer, and tau of each minibatch."""
        return self._chosen[layer]

    def _offer(self, keys: npt.NDArray[np.uint64], sizes: Sequence[int]) -> npt.NDArray[np.uint8]:
        """For each key: how many, ids and weights of the columns with the smallest keys."""
        parts: list[npt.NDArray[np.uint8]] = []
        ptr = np.array([0, len(self.ids)])
        positive = int((self.weights > 0).sum())
        each = len(keys) // max(1, len(sizes))
        for place in range(len(keys)):
            size = sizes[place // each]
            count = positive if size < 0 else min(positive, size + 1)
            picks, tau = np.empty(count, np.int64), np.empty(1)
            ends = np.array([0, count])
            one = keys[place : place + 1]
            _core.sample_columns(
                ptr, self.ids, self.weights, one, -1 if size < 0 else size + 1, ends, picks, tau, 1
            )
            parts += [as_bytes(np.array([count])), as_bytes(self.ids[picks])]
            parts.append(as_bytes(self.weights[picks]))
        return np.concatenate([np.empty(0, np.uint8), *parts])

    def _unpack(self, part: npt.NDArray[np.uint8], keys: int) -> Iterator[tuple[Array, Float]]:
        dtype, at = self.ids.dtype, 0
        for _ in range(keys):
            count = int(part[at : at + 8].view(np.int64)[0])
            middle = at + 8 + count * dtype.itemsize
            end = middle + count * 8
            # Copies: an odd number of 4-byte ids leaves what follows unaligned.
            ids = np.frombuffer(part[at + 8 : middle].tobytes(), dtype)
            yield ids, np.frombuffer(part[middle:end].tobytes(), np.float64)
            at = end

    def _merge(
        self, ids: list[Array], weights: list[Float], keys: npt.NDArray[np.uint64], size: int
    ) -> tuple[Columns, Float]:
        ptr = pointer(np.array([len(part) for part in ids], np.int64))
        flat = np.concatenate([self.ids[:0], *ids])
        heavy = np.concatenate([np.empty(0), *weights])
        ends, tau = np.empty(len(ptr), np.int64), np.empty(len(keys))
        _core.count_picks(ptr, heavy, size, False, ends)
        picks = np.empty(ends[-1], np.int64)
        if len(keys):
            _core.sample_columns(ptr, flat, heavy, keys, size, ends, picks, tau, 1)
        total = np.full(len(keys), self.total)
        return Columns(ends, flat[picks], heavy[picks], total), tau


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
