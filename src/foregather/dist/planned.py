"""planned: carries out a fetch plan: answers the column, receives rows round by round, keeps some.

A generator over the minibatches of one bulk. It runs in the thread of a channel, so the rows of the
next minibatch cross while the last one is used.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.codec import Codec
from foregather.dist.features import FeatureBlock
from foregather.dist.fetch_plan import (
    REPLY,
    REQUEST,
    FetchPlan,
    FetchPlanner,
    Round,
    cut_rounds,
    in_round,
    row_geometry,
)
from foregather.dist.pieces import pack, unpack
from foregather.dist.wire import Wire
from foregather.errors import BudgetError

__all__ = ["PlannedFetcher", "put_local", "shares"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Int = npt.NDArray[np.int64]
_NONE = 2**32 - 1
_CHUNK = 2048  # rows that are decoded at a time, so that they are still in the CPU's cache
_MOST_STAGING = 64 << 20


def shares(memory: int, rows: int, row_bytes: int, peers: int) -> tuple[int, int]:
    """Slots of the cache and rows of staging for each peer, under a budget.

    The planner's tables come first; then an eighth of the rest, at most 64 MiB, is staging for
    rows that are sent and received; what is left is cache.

    Raises:
        BudgetError: the budget is below the minimum.
    """
    geometry = row_geometry(rows)
    fixed = _core.planner_bytes(geometry, 0, 0, 0)
    pair = 2 * max(1, peers) * row_bytes
    if memory < fixed + pair:
        raise BudgetError(
            f"the memory is {memory} bytes, but fetching {rows} rows of {row_bytes} bytes from "
            f"{peers} ranks needs at least {fixed + pair}"
        )
    staging = max(1, min((memory - fixed) // 8, _MOST_STAGING) // pair)
    rest = memory - staging * pair

    def fits(slots: int) -> bool:
        return slots * row_bytes + _core.planner_bytes(geometry, slots, 0, 0) <= rest

    return bisect_left(range(1, rows + 1), True, key=lambda slots: not fits(slots)), staging


class PlannedFetcher:
    """Fetches bulk after bulk by plan; made once, so that the cache is carried over.

    Args:
        wire: links to the column.
        block: the rows this rank has.
        codec: what rows are while they cross and in the cache.
        num_slots: rows the cache holds.
        staging: rows of one peer that there is room for.
    """

    def __init__(
        self, wire: Wire, block: FeatureBlock, codec: Codec, num_slots: int, staging: int
    ) -> None:
        self.wire, self.block, self.codec, self.staging = wire, block, codec, staging
        self.planner = FetchPlanner(block.row_starts, block.block, num_slots)
        self.cache = np.empty((num_slots, codec.row_bytes), np.uint8)
        room = (wire.size - 1) * staging if wire.size > 1 else 0
        self._sent = np.empty((room, codec.row_bytes), np.uint8)
        self._got = np.empty((room, codec.row_bytes), np.uint8)
        #: The plan under way, or the last one.
        self.last: FetchPlan | None = None
        #: Rows so far: of the own block, from the cache, and fetched.
        self.counts = {"local": 0, "hits": 0, "misses": 0}
        #: Bytes that plans announced so far: requests of this rank, and replies to it.
        self.announced = {REQUEST: 0, REPLY: 0}

    @property
    def memory_bytes(self) -> int:
        """Bytes of cache, staging and the planner's tables."""
        slots = self.cache.shape[0]
        tables = _core.planner_bytes(row_geometry(self.block.total_rows), slots, 0, 0)
        return self.cache.nbytes + self._sent.nbytes + self._got.nbytes + tables

    def run(self, batches: Sequence[Any], ahead: Sequence[Any]) -> Iterator[Array]:
        """The rows of each minibatch; ranks of the column run this together."""
        plan = self.last = self.planner.plan(batches, ahead)
        counts = plan.core.counts()
        self.counts["local"] += sum(map(len, plan.local))
        self.counts["hits"] += counts["hits"]
        self.counts["misses"] += counts["misses"]
        others = [owner for owner in range(self.wire.size) if owner != plan.place]
        self.announced[REQUEST] += sum(map(plan.request_bytes, others))
        self.announced[REPLY] += counts["misses"] * self.codec.row_bytes
        asked = self._ask(plan)
        rounds = cut_rounds([most for most, _, _ in asked], self.staging)
        outputs: dict[int, Array] = {}
        for this in rounds:
            self._move(plan, this, asked)
            begin = 0
            ends = np.zeros(self.wire.size, np.int64)
            for owner in range(self.wire.size):
                ends[owner] = begin
                begin += int(in_round(plan.needs[:, owner], this).sum())
            for step in range(this.first, min(this.last, plan.steps)):
                if this.skip == 0:
                    outputs[step] = self._start(plan, step)
                self._finish(plan, this, step, outputs[step], ends)
                if this.done:
                    yield outputs.pop(step)

    # ---- request and replies -------------------------------------------------------------------

    def _ask(self, plan: FetchPlan) -> list[tuple[Int, Int, Array]]:
        """By place: the most misses of its steps, and what it wants of this rank: counts, ids."""
        own = plan.place
        needs = plan.needs.astype(np.int32)
        requests = [
            np.empty(0, np.uint8)
            if owner == own
            else pack(plan.most, np.ascontiguousarray(needs[:, owner]), plan.ids_of(owner))
            for owner in range(self.wire.size)
        ]
        asked = []
        for place, message in enumerate(self.wire.exchange(requests, REQUEST)):
            if place == own:
                nothing = np.zeros(plan.steps, np.int64)
                asked.append((plan.most.astype(np.int64), nothing, np.empty(0, np.uint32)))
                continue
            most, counts, ids = unpack(message, np.int32, np.int32, np.uint32)
            asked.append((most.astype(np.int64), counts.astype(np.int64), ids))
        return asked

    def _move(self, plan: FetchPlan, this: Round, asked: list[tuple[Int, Int, Array]]) -> None:
        """One reply collective, unless nobody has rows in it."""
        if self.wire.size == 1 or this.take == 0:
            return
        lengths, at, size = [], 0, self.codec.row_bytes
        for _, counts, ids in asked:
            begin = int(counts[: this.first].sum()) + this.skip
            rows = int(in_round(counts, this).sum())
            for low in range(begin, begin + rows, _CHUNK):
                some = ids[low : min(low + _CHUNK, begin + rows)]
                self.codec.encode(self.block.take(some), self._sent[at : at + len(some)])
                at += len(some)
            lengths.append(rows * size)
        expected = [
            int(in_round(plan.needs[:, owner], this).sum()) * size
            for owner in range(self.wire.size)
        ]
        sent, got = self._sent.reshape(-1), self._got.reshape(-1)
        self.wire.swap(sent[: at * size], lengths, got[: sum(expected)], expected, REPLY)

    # ---- outputs -------------------------------------------------------------------------------

    def _start(self, plan: FetchPlan, step: int) -> Array:
        """An output with the rows that are here: of the own block, and those in the cache."""
        local, remote = plan.local[step], plan.remote[step]
        out = np.empty((len(local) + len(remote), self.block.width), self.block.gathered_dtype)
        put_local(self.block, plan.local_ids[step], local, out)
        begin, end = (int(plan.core.hit_ptr[step + i]) for i in (0, 1))
        slots = np.asarray(plan.core.hit_slot)[begin:end]
        position = remote[np.asarray(plan.core.hit_position)[begin:end]]
        self._put(self.cache, slots, position, out)
        return out

    def _finish(self, plan: FetchPlan, this: Round, step: int, out: Array, ends: Int) -> None:
        """Copies what a round brought for one step to the output and to slots."""
        core, remote = plan.core, plan.remote[step]
        for owner in range(self.wire.size):
            first = int(plan.cut[step, owner])
            count = int(plan.cut[step, owner + 1]) - first - this.skip
            count = max(0, min(count, this.take))
            if not count:
                continue
            span = slice(first + this.skip, first + this.skip + count)
            rows = self._got[ends[owner] : ends[owner] + count]
            ends[owner] += count
            position = remote[np.asarray(core.copy_position)[span]]
            self._put(rows, np.arange(count), position, out)
            slots = np.asarray(core.copy_slot)[span]
            kept = np.flatnonzero(slots != _NONE)
            self.cache[slots[kept]] = rows[kept]

    def _put(self, coded: Bytes, ids: Array, position: Int, out: Array) -> None:
        if not len(ids):
            return
        buffer = np.empty((min(_CHUNK, len(ids)), out.shape[1]), out.dtype)
        for low in range(0, len(ids), _CHUNK):
            some = ids[low : low + _CHUNK]
            self.codec.decode(coded, some, buffer[: len(some)])
            out[position[low : low + _CHUNK]] = buffer[: len(some)]


def put_local(block: FeatureBlock, ids: Array, position: Int, out: Array) -> None:
    """Copies rows of the own block to their places in an output; nothing crosses."""
    for low in range(0, len(ids), _CHUNK):
        rows = block.take(ids[low : low + _CHUNK])
        if block.scale is not None:
            rows = rows.astype(np.float32) * block.scale
        out[position[low : low + _CHUNK]] = rows
