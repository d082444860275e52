"""sum_exchange: leaf rows cross between ranks as rows, or as sums that their owners form.

What crosses is decided bulk by bulk, by each rank for what it asks: sums where their bytes are
fewer than the fewest that rows can take. The ledger has the bytes that were announced then. All of
it runs in the thread of the feature exchange, step by step with it, so that ranks, which have
equally many steps, do the same collectives in the same order.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.dist.features.exchange import FeatureExchange
from foregather.dist.features.fetch_plan import Round, cut_rounds, in_round
from foregather.dist.features.fetch_rows import exchange_of
from foregather.dist.features.memory_split import sum_staging
from foregather.dist.features.owner_sums import (
    SUM_REPLY,
    SUM_REQUEST,
    AskedSums,
    SumPlan,
    group_edges,
)
from foregather.dist.transport.rank_grid import RankGrid
from foregather.errors import BudgetError
from foregather.gather.memory import gathered_dtype
from foregather.gather.row_sums import sum_features, sum_matrix, summed_dtype
from foregather.graph.graph import Graph
from foregather.loader.batches.assemble import Assembler
from foregather.loader.batches.leaf_sums import Scratch, Summed, num_targets, sum_weights
from foregather.loader.memory.division import STAGING_PART, refusal
from foregather.loader.rank_options import RankSetup
from foregather.sampling.bulk import Bulk, Sample

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SumExchange", "exchanges_of"]

Array = npt.NDArray[Any]
_NOT_KEPT = 2**32 - 1


def exchanges_of(
    graph: Graph, starts: npt.NDArray[np.int64], grid: RankGrid, options: RankSetup, threads: int
) -> "tuple[FeatureExchange, SumExchange | None]":
    """Creates the exchange of rows and, if owners may add up theirs, that of sums; collective.

    Raises:
        InputError: the ranks differ, or the rows cannot be rounded.
        BudgetError: `memory` is too small; the message states the minimum.
    """
    if options.leaves == "rows":
        return exchange_of(graph, starts, grid, options, threads), None
    features = graph.features
    assert features is not None
    size, peers = features.width * summed_dtype(gathered_dtype(features)).itemsize, len(starts) - 2
    staging = sum_staging(options.memory, size, peers)
    share, left = 2 * peers * staging * size, None
    if options.memory is not None:
        left = max(0, options.memory - share)
    try:
        rows = exchange_of(graph, starts, grid, replace(options, memory=left), threads)
    except BudgetError as error:
        least = (error.least or 0) * STAGING_PART // (STAGING_PART - 1) + 2 * peers * size + 1
        raise refusal(
            f"memory is {options.memory} bytes, of which {share} are for sums of leaves; with them "
            f"at least {least} are needed, or leave out leaves of ranks: {error}",
            least,
        ) from None
    return rows, SumExchange(rows, staging, max(1, threads))


class SumExchange:
    """What a Loader over ranks keeps from bulk to bulk: staging, counters, and what is cached.

    Args:
        rows: the exchange of rows, whose thread and links are used.
        staging: rows of sums of one peer that there is room for.
        threads: for adding up.
    """

    def __init__(self, rows: FeatureExchange, staging: int, threads: int) -> None:
        block = rows.features
        self.rows, self.staging, self.threads = rows, staging, threads
        self.wire = rows.channel.column
        #: The rows of this rank, if owners can add up theirs; otherwise only rows cross.
        self.own = block.rows.in_memory
        if rows.mode != "planned" or self.wire.size == 1:
            self.own = None
        self.dtype = summed_dtype(block.gathered_dtype)
        room = (self.wire.size - 1) * staging if self.own is not None else 0
        self.sent = np.empty((room, block.width), self.dtype)
        self.got = np.empty((room, block.width), self.dtype)
        self.cached = np.full(rows.planner.num_slots, -1, np.int64)
        #: Bulks so far, those whose leaves came as sums, and these sums.
        self.counts = {"bulks": 0, "summed": 0, "groups": 0}
        #: Planned bytes so far: requests of this rank, and replies to it.
        self.announced = {SUM_REQUEST: 0, SUM_REPLY: 0}

    def of(
        self, assembler: Assembler, bulk: Bulk, later: Sequence[Sample], scratch: Scratch
    ) -> "BulkSums":
        """What makes sums of the rows of one bulk."""
        return BulkSums(self, assembler, bulk, later, scratch)

    def explain(self) -> str:
        """What crossed, in a line."""
        if self.own is None:
            return "leaves: as rows, as owners cannot add up theirs"
        return (
            f"leaves: as sums of their owners in {self.counts['summed']} of "
            f"{self.counts['bulks']} bulks, {self.counts['groups']} sums"
        )

    def keep_track(self, plan: Any) -> None:
        """Notes what a plan of the row exchange leaves in the cache."""
        slot, row = (np.asarray(getattr(plan.core, name)) for name in ("copy_slot", "copy_row"))
        kept = slot != _NOT_KEPT
        self.cached[slot[kept]] = row[kept]

    def answer(self, asked: AskedSums, this: Round, out: Array) -> int:
        """Adds up what a rank wants in a round; returns the number of groups."""
        assert self.own is not None
        count = int(in_round(asked.counts, this).sum())
        if count == 0:  # a later round of a step that others need, too
            return 0
        first = int(asked.counts[: this.first].sum()) + this.skip
        self.add_own(asked.ids, asked.starts[first : first + count + 1], asked.weight, out[:count])
        return count

    def add_own(self, ids: Array, starts: Array, weight: Array | None, out: Array) -> None:
        """Adds up rows of the own block."""
        assert self.own is not None
        block = self.rows.features
        shift = 0 if len(self.own) == block.total_rows else block.first_row
        begin, end = int(starts[0]), int(starts[-1])
        node = (ids[begin:end].astype(np.int64) - shift).astype(np.uint32)
        place = np.arange(len(node), dtype=np.uint32)
        factors = None if weight is None else weight[begin:end]
        sum_features(self.own, node, place, starts - begin, factors, out, self.threads)


class BulkSums:
    """Makes sums of the rows of one bulk, whichever way they cross; see `Reduce`.

    Args:
        exchange: what is kept from bulk to bulk.
        assembler: what batches hold.
        bulk: the minibatches.
        later: those of the next bulk, as far as known.
        scratch: where rows are put.
    """

    def __init__(
        self,
        exchange: SumExchange,
        assembler: Assembler,
        bulk: Bulk,
        later: Sequence[Sample],
        scratch: Scratch,
    ) -> None:
        self._keeper, self._assembler, self._later = exchange, assembler, later
        self._bulk, self._scratch = bulk, scratch
        self._sums = False
        self._asked: list[AskedSums] = []
        self._rounds: deque[Round] = deque()
        self._this: Round | None = None
        self._begins = np.empty(0, np.int64)  # by owner, in what was received

    def wanted(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Plans the bulk; all nodes of its minibatches, or the targets alone."""
        keeper, samples = self._keeper, self._bulk.samples
        block = keeper.rows.features
        self._weights = [self._assembler.weight(sample) for sample in samples]
        factors = [sum_weights(self._assembler.leaves, one) for one in self._weights]
        groups = [group_edges(sample, block.row_starts) for sample in samples]
        size = keeper.sent.shape[1] * keeper.dtype.itemsize
        self._plan = SumPlan(block.block, samples, groups, factors, size)
        keeper.counts["bulks"] += 1
        if keeper.own is None:
            return samples, self._later
        low, high = block.first_row, block.first_row + block.num_rows
        rows = self._plan.least_row_bytes(low, high, keeper.cached, keeper.rows.codec.row_bytes)
        request, reply = self._plan.request_bytes(), self._plan.reply_bytes()
        self._sums = request + reply < rows
        if not self._sums:
            return samples, self._later
        keeper.counts["summed"] += 1
        keeper.counts["groups"] += reply // size
        keeper.announced[SUM_REQUEST] += request
        keeper.announced[SUM_REPLY] += reply
        return _target_ids(samples), _target_ids(self._later)

    def begin(self, plan: Any) -> None:
        """Tells owners which sums this rank wants, and learns what others do."""
        keeper, steps = self._keeper, len(self._bulk)
        if keeper.own is None:
            return
        keeper.keep_track(plan)
        own, none = keeper.wire.place, np.empty(0, np.uint8)
        messages = [
            self._plan.request(owner) if self._sums and owner != own else none
            for owner in range(keeper.wire.size)
        ]
        weighted = self._assembler.leaves == "weighted"
        self._asked = [
            AskedSums.read(message, weighted, steps)
            for message in keeper.wire.exchange(messages, SUM_REQUEST)
        ]
        self._needs = self._plan.needs() if self._sums else np.zeros((steps, len(messages)), int)
        most = [one.most for one in self._asked]
        most[own] = self._needs.max(axis=1, initial=0)
        self._rounds.extend(cut_rounds(most, keeper.staging))

    def space(self, number: int) -> "Tensor | None":
        """Memory for the rows of a minibatch: that of the one before."""
        sample = self._bulk[number]
        return self._scratch.rows(num_targets(sample) if self._sums else len(sample.node))

    def reduced(self, number: int, rows: "Tensor") -> Summed:
        """Rows of targets, and sums of groups in their order."""
        sample, groups = self._bulk[number], self._plan.groups[number]
        weight = self._plan.weights[number]
        sums = np.empty((groups.count, rows.shape[1]), self._keeper.dtype)
        if not self._sums:
            place = sample.row[groups.edge]
            factors = None if weight is None else weight[groups.edge]
            sum_matrix(rows.numpy(), place, groups.starts, factors, sums, self._keeper.threads)
        if self._rounds or self._this is not None:
            self._receive(number, sums)
        if self._sums:
            self._add_here(number, rows.numpy(), sums)
        made = self._assembler.empty_summed(num_targets(sample), self._weights[number])
        made.x.numpy()[...] = rows.numpy()[: len(made.x)]
        groups.total(sums, made.neighbor_sum.numpy(), self._keeper.threads)
        return made

    def _add_here(self, number: int, rows: Array, sums: Array) -> None:
        """The groups of nodes that are targets, and of leaves of the own block."""
        sample, groups = self._bulk[number], self._plan.groups[number]
        weight, keeper = self._plan.weights[number], self._keeper
        for part in (0, 1 + self._plan.place):
            edge, starts = groups.edges_of(part)
            factors = None if weight is None else weight[edge]
            place, out = sample.row[edge], sums[groups.groups_of(part)]
            if part == 0:
                sum_matrix(rows, place, starts, factors, out, keeper.threads)
            else:
                keeper.add_own(sample.node[place], starts, factors, out)

    # ---- rounds --------------------------------------------------------------------------------

    def _receive(self, number: int, sums: Array) -> None:
        """Goes through rounds until a step is complete."""
        this = self._this
        if this is None or not this.first <= number < this.last:
            this = self._next_round()
        while True:
            self._put(number, this, sums)
            if this.done:
                return
            this = self._next_round()

    def _next_round(self) -> Round:
        """One reply collective, unless nobody wants sums in it."""
        this = self._this = self._rounds.popleft()
        keeper = self._keeper
        expected = [int(in_round(self._needs[:, o], this).sum()) for o in range(keeper.wire.size)]
        self._begins = np.cumsum([0, *expected[:-1]])
        if this.take == 0:
            return this
        size, at, lengths = self._plan.row_bytes, 0, []
        for asked in self._asked:
            count = keeper.answer(asked, this, keeper.sent[at:])
            at += count
            lengths.append(count * size)
        sent, got = (part.reshape(-1).view(np.uint8) for part in (keeper.sent, keeper.got))
        lengths_in = [count * size for count in expected]
        keeper.wire.swap(sent[: at * size], lengths, got[: sum(lengths_in)], lengths_in, SUM_REPLY)
        return this

    def _put(self, number: int, this: Round, sums: Array) -> None:
        """Copies a round's sums for one step to their groups."""
        groups = self._plan.groups[number]
        for owner in range(self._keeper.wire.size):
            count = int(np.clip(self._needs[number, owner] - this.skip, 0, this.take))
            if not count:
                continue
            first, begin = int(groups.parts[1 + owner]) + this.skip, int(self._begins[owner])
            sums[first : first + count] = self._keeper.got[begin : begin + count]
            self._begins[owner] += count


def _target_ids(samples: Sequence[Sample]) -> list[Array]:
    return [sample.node[: num_targets(sample)] for sample in samples]
