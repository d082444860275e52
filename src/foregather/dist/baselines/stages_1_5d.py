"""stages_1_5d: the published sampler over ranks: a sparsity-aware 1.5D product, then the verbs.

Block row i of Q and of A is held by the c ranks of grid row i. For P = Q·A, rank (i, j) multiplies
only with p/c² blocks of A: in each stage one rank of its column sends the others the rows that
their Q needs. The parts of P are then summed over the grid row, and every rank of the row continues
with norm, sample and extract. It is a baseline for comparison, so it is not handicapped: ids have 4
bytes, values are sent only if the graph has edge weights, rows needed by several minibatches are
sent once, and what a grid row would draw together is drawn by each rank alone (a pure function).
"""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.sampling.column_sums import add_by_batch
from foregather.dist.sampling.layers import Frontier, compact, rows_of, run
from foregather.dist.sampling.partition import Partition
from foregather.dist.sampling.row_requests import Entries
from foregather.dist.transport.message_pack import pack, unpack
from foregather.dist.transport.rank_grid import Channel, RankGrid
from foregather.errors import InputError
from foregather.sampling.bulk import Bulk
from foregather.sampling.layerwise import Ladies
from foregather.sampling.matrix import LayerGraph, MatrixSampler, checked_picks, keeps_verbs
from foregather.sampling.neighbor import Neighbor
from foregather.sampling.rows import Columns, GivenRows, pointer
from foregather.sampling.sampler import Sampler
from foregather.sampling.seeds import Position

__all__ = ["Paper"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


class Paper:
    """The sampler of one rank.

    Args:
        channel: the links.
        partition: this rank's block row of A.
        grid: the ranks.
        threads: threads to use.
    """

    def __init__(
        self, channel: Channel, partition: Partition, grid: RankGrid, threads: int
    ) -> None:
        self.channel, self.partition, self.grid, self.threads = channel, partition, grid, threads
        stages = grid.num_rows // grid.replication
        self.stages = range(grid.column * stages, (grid.column + 1) * stages)
        # Which rank of a grid row multiplies with each block row of A.
        self.turn = np.repeat(np.arange(grid.replication), stages)

    @staticmethod
    def check(sampler: Sampler, grid: RankGrid) -> None:
        """Checks that the paper's mode supports this.

        Raises:
            InputError: it does not.
        """
        c = grid.replication
        if grid.size % (c * c):
            raise InputError(
                f"mode 'paper' with replication {c} needs a number of ranks that {c * c} divides, "
                f"there are {grid.size}; choose another replication"
            )
        known = isinstance(sampler, Neighbor) or (
            isinstance(sampler, Ladies) and keeps_verbs(sampler)
        )
        if not known:
            matrix = isinstance(sampler, MatrixSampler)
            advice = "mode='owner'" if matrix else "topology='replicated'"
            raise InputError(
                f"mode 'paper' supports Neighbor and Ladies, not {type(sampler).__name__}; use "
                f"{advice}"
            )

    def sample(
        self,
        sampler: Sampler,
        where: str,
        nodes: list[Array],
        positions: list[Position],
        batches: list[int],
        seed: int,
        epoch: int,
    ) -> Bulk:
        """Samples the minibatches of the whole grid row; returns those of this rank."""
        assert isinstance(sampler, (Neighbor, Ladies))
        row, watch = self.channel.row, self.grid.watch
        watch.where = where
        dtype = self.partition.indices.dtype
        parts = row.share(
            pack(
                np.array(batches, np.int64),
                np.array([len(ids) for ids in nodes], np.int64),
                np.concatenate([np.empty(0, dtype), *nodes]),
            ),
            "Q: seeds",
        )
        stacked: list[Array] = []
        numbers: list[int] = []
        begin = 0
        for place, part in enumerate(parts):
            theirs, counts, ids = unpack(part, np.int64, np.int64, dtype)
            if place == row.place:
                begin = len(numbers)
            numbers += theirs.tolist()
            stacked += np.split(ids, np.cumsum(counts)[:-1]) if len(counts) else []
        everybody: list[Position] = [None] * len(stacked)
        everybody[begin : begin + len(nodes)] = positions

        def layer(front: Frontier) -> LayerGraph:
            watch.where = f"{where}, layer {front.layer}"
            return self._layer(sampler, front)

        made = run(sampler, layer, dtype, stacked, everybody, numbers, seed, epoch)
        own = made.samples[begin : begin + len(nodes)]
        return Bulk(own, seed, epoch, batches[0] if batches else 0)

    def _layer(self, sampler: Sampler, front: Frontier) -> LayerGraph:
        phase = self.channel.clock.phase
        with phase("probability"):
            partial = self._multiply(front)
            if not front.nodes:  # a grid row without minibatches only sends rows to others
                return compact(front, _nothing(front), self.threads)
            if isinstance(sampler, Neighbor):
                p = self._reduce(front, partial)
        if isinstance(sampler, Neighbor):
            with phase("picks"):
                picks = sampler.sample(p)
            with phase("extraction"):
                return sampler.extract(p, checked_picks(p, picks))
        assert isinstance(sampler, Ladies)
        return self._ladies(sampler, front, *partial)

    # ---- P = Q·A -------------------------------------------------------------------------------

    def _multiply(self, front: Frontier) -> tuple[Int, Entries]:
        """The rows of P that this rank's stages give: their places in the frontier, and entries."""
        starts, first = self.partition.row_starts, self.stages.start
        distinct, place = np.unique(front.rows, return_inverse=True)
        cut = np.searchsorted(distinct, starts)
        got = [self._stage(distinct[cut[q] : cut[q + 1]], q) for q in self.stages]
        low, high = cut[first], cut[self.stages.stop]
        ptr = pointer(np.concatenate([np.empty(0, np.int64), *(entries[0] for entries in got)]))
        begin = np.concatenate([np.empty(0, np.int64), *(entries[1] for entries in got)])
        columns = np.concatenate([front.rows[:0], *(entries[2] for entries in got)])
        weight = np.concatenate([np.empty(0, np.float32), *(entries[3] for entries in got)])
        own = np.flatnonzero((place >= low) & (place < high))
        heavy = weight if self.partition.edge_weight is not None else None
        return own, self._take(ptr, begin, columns, heavy, place[own] - low)

    def _take(
        self,
        ptr: Int,
        begin: Int,
        columns: Array,
        weight: npt.NDArray[np.float32] | None,
        which: Int,
    ) -> Entries:
        """Copies rows, in any order and as often as asked for, to rows one after the other.

        Args:
            ptr: where the entries of each given row begin.
            begin: position of its first edge in the whole graph.
            columns: the entries.
            weight: their weights, if they have any.
            which: the rows to take.
        """
        rows = which.astype(columns.dtype)
        out = np.empty(len(rows) + 1, np.int64)
        _core.count_rows(ptr, rows, out)
        taken, entry = np.empty(out[-1], columns.dtype), np.empty(out[-1], np.int64)
        _core.extract_rows(ptr, columns, rows, out, taken, entry, self.threads)
        heavy = None if weight is None else weight[entry]
        entry += np.repeat((begin - ptr[:-1])[which], np.diff(out))
        return Entries(out, taken, entry, heavy)

    def _stage(self, needed: Array, q: int) -> tuple[Int, Int, Array, Array]:
        """Fetches lengths, starts, columns and weights of rows of block q from its holder."""
        wire = self.channel.column
        dtype = self.partition.indices.dtype
        asked = wire.collect(pack(needed), q, "A: needed rows")
        replies = None
        if asked is not None:
            replies = [self._rows(unpack(part, dtype)[0]) for part in asked]
        got = wire.deal(replies, q, "A: rows")
        lengths, begin, columns, weight = unpack(got, np.uint32, np.int64, dtype, np.float32)
        return lengths.astype(np.int64), begin, columns, weight

    def _rows(self, needed: Array) -> npt.NDArray[np.uint8]:
        block = self.partition
        rows = (needed - block.first_row).astype(needed.dtype)
        base = int(block.indptr[0])
        ptr = np.empty(len(rows) + 1, np.int64)
        relative = block.indptr - base
        _core.count_rows(relative, rows, ptr)
        columns, edge = np.empty(ptr[-1], block.indices.dtype), np.empty(ptr[-1], np.int64)
        _core.extract_rows(relative, block.indices, rows, ptr, columns, edge, self.threads)
        weight = np.empty(0, np.float32) if block.edge_weight is None else block.edge_weight[edge]
        begin = block.indptr[:-1][rows.astype(np.int64)]
        return pack(np.diff(ptr).astype(np.uint32), begin, columns, weight)

    def _reduce(self, front: Frontier, partial: tuple[Int, Entries]) -> GivenRows:
        """All rows of P: the sum over the grid row, where each row has one part that is not 0."""
        dtype, own = front.rows.dtype, partial[1]
        if self.channel.row.size == 1:
            return rows_of(self.partition, front, own, self.threads)
        begin = np.zeros(len(own.ptr) - 1, np.int64)
        filled = np.diff(own.ptr) > 0
        begin[filled] = own.edge[own.ptr[:-1][filled]]
        weight = np.empty(0, np.float32) if own.weight is None else own.weight
        lengths = np.diff(own.ptr)
        part = pack(lengths.astype(np.uint32), begin, own.columns, weight)
        parts = self.channel.row.share(part, "P: sum over the grid row")
        got = [unpack(p, np.uint32, np.int64, dtype, np.float32) for p in parts]
        # Rows of P by the rank of the grid row whose stages gave them, in the order of each part.
        block = np.searchsorted(self.partition.row_starts, front.rows, side="right") - 1
        order = np.argsort(self.turn[block], kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        ptr = pointer(np.concatenate([p[0] for p in got]).astype(np.int64))
        begins, columns, heavy = (np.concatenate([p[part] for p in got]) for part in (1, 2, 3))
        entries = self._take(ptr, begins, columns, None if own.weight is None else heavy, rank)
        return rows_of(self.partition, front, entries, self.threads)

    # ---- LADIES --------------------------------------------------------------------------------

    def _ladies(self, sampler: Ladies, front: Frontier, place: Int, own: Entries) -> LayerGraph:
        lengths = np.diff(own.ptr)
        values = np.repeat(1.0 / np.maximum(lengths, 1), lengths)
        if own.weight is not None:
            values = own.weight.astype(np.float64)
        batch = np.repeat(np.searchsorted(front.batch_ptr, place, side="right") - 1, lengths)
        phase = self.channel.clock.phase
        with phase("probability"):
            columns = self._sum(front, batch, own.columns, values * values)
        with phase("picks"):
            chooser = rows_of(self.partition, front, _nothing(front), self.threads)
            chosen, tau = chooser.sample_columns(sampler.layer_sizes[front.layer], columns)
        with phase("extraction"):
            p = self._extract(front, place, own, values, batch, chosen)
            return sampler.extract(p, checked_picks(p, sampler.pick(p, chosen, tau)))

    def _sum(
        self, front: Frontier, batch: Int, columns: Array, squares: npt.NDArray[np.float64]
    ) -> Columns:
        """The row of P of each minibatch, added up over the grid row in whole numbers."""
        row, k = self.channel.row, len(front.keys)
        cut = np.searchsorted(batch, np.arange(k + 1)).astype(np.int64)
        counts, largest = np.diff(cut), np.zeros(k)
        if len(squares):
            largest[counts > 0] = np.maximum.reduceat(squares, cut[:-1][counts > 0])
        parts = [
            unpack(p, np.float64, np.int64) for p in row.share(pack(largest, counts), "P: scale")
        ]
        fixed = [
            _core.FixedPoint(max(float(p[0][b]) for p in parts), sum(int(p[1][b]) for p in parts))
            for b in range(k)
        ]
        units = [fixed[b].units(squares[lo:hi]) for b, (lo, hi) in enumerate(pairwise(cut))]
        whole = np.concatenate([np.empty(0, np.int64), *units])
        own = add_by_batch(cut, columns, whole, self.threads)
        got = [
            unpack(p, np.int64, columns.dtype, np.int64)
            for p in row.share(pack(*own), "P: sum over the grid row")
        ]
        if len(got) > 1:  # entries of each minibatch, one rank after the other
            places = [np.repeat(np.arange(k), p[0]) for p in got]
            order = np.argsort(np.concatenate(places), kind="stable")
            ids, whole = (np.concatenate([p[n] for p in got])[order] for n in (1, 2))
            ptr = pointer(np.sum([p[0] for p in got], axis=0))
            own = add_by_batch(ptr, ids, whole, self.threads)
        sizes, distinct, sums = own
        ptr, unit = pointer(sizes), np.array([one.unit for one in fixed])
        upto = pointer(sums)  # whole numbers; may wrap, differences inside a batch do not
        total = (upto[ptr[1:]] - upto[ptr[:-1]]).astype(np.float64) * unit
        return Columns(ptr, distinct, sums.astype(np.float64) * np.repeat(unit, sizes), total)

    def _extract(
        self, front: Frontier, place: Int, own: Entries, values: Array, batch: Int, chosen: Columns
    ) -> GivenRows:
        """The chosen columns of all rows: each rank's, put together over the grid row."""
        assert chosen.ids is not None
        k = len(front.keys)
        match = np.empty(len(own.columns), np.int64)
        entry_ptr = np.searchsorted(batch, np.arange(k + 1)).astype(np.int64)
        _core.match_columns(entry_ptr, own.columns, chosen.ptr, chosen.ids, match, self.threads)
        keep = np.flatnonzero(match >= 0)
        row = np.repeat(place, np.diff(own.ptr))[keep]
        part = pack(row, own.columns[keep], own.edge[keep], values[keep])
        dtype = front.rows.dtype
        got = [
            unpack(p, np.int64, dtype, np.int64, np.float64)
            for p in self.channel.row.share(part, "A_l: sum over the grid row")
        ]
        rows, columns, edge, value = (np.concatenate(pieces) for pieces in zip(*got, strict=True))
        order = np.argsort(rows, kind="stable")  # a row is held by one rank, in the order of A
        ptr = pointer(np.bincount(rows, minlength=len(front.rows)))
        entries = Entries(ptr, columns[order], edge[order], None)
        return rows_of(self.partition, front, entries, self.threads, value[order])


def _nothing(front: Frontier) -> Entries:
    empty = np.zeros(len(front.rows) + 1, np.int64)
    return Entries(empty, front.rows[:0], np.empty(0, np.int64), None)
