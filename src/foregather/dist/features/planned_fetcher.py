"""planned_fetcher: carries out a fetch plan: answers the column, receives rows, keeps some.

A generator over the minibatches of one bulk. It runs in the thread of a channel, so the rows of the
next minibatch cross while the last one is used.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.features.block_reader import OwnDisk
from foregather.dist.features.feature_block import FeatureBlock
from foregather.dist.features.fetch_plan import (
    REPLY,
    REQUEST,
    FetchPlan,
    FetchPlanner,
    Round,
    cut_rounds,
    in_round,
    row_geometry,
)
from foregather.dist.transport.codec import Codec
from foregather.dist.transport.message_pack import pack, unpack
from foregather.dist.transport.wire import Wire

__all__ = ["PlannedFetcher", "put_local"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Int = npt.NDArray[np.int64]
_NONE = 2**32 - 1
_CHUNK = 2048  # rows that are decoded at a time, so that they are still in the CPU's cache


class PlannedFetcher:
    """Fetches bulk after bulk by plan; made once, so that the cache is carried over.

    Args:
        wire: links to the column.
        block: the rows this rank has.
        codec: what rows are while they cross and in the cache.
        num_slots: rows the cache holds.
        staging: rows of one peer that there is room for.
        disk: what reads the rows of the block, where they are on disk.
    """

    def __init__(
        self,
        wire: Wire,
        block: FeatureBlock,
        codec: Codec,
        num_slots: int,
        staging: int,
        disk: OwnDisk | None = None,
    ) -> None:
        self.wire, self.block, self.codec, self.staging = wire, block, codec, staging
        self.disk = disk
        self._rows: FeatureBlock | OwnDisk = block if disk is None else disk
        self.planner = FetchPlanner(
            block.row_starts, block.block, num_slots, reads_local=disk is not None
        )
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
        """Bytes of caches, staging and the planners' tables."""
        slots = self.cache.shape[0]
        tables = _core.planner_bytes(row_geometry(self.block.total_rows), slots, 0, 0)
        own = 0 if self.disk is None else self.disk.memory_bytes
        return self.cache.nbytes + self._sent.nbytes + self._got.nbytes + tables + own

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
        if self.disk is not None:
            self._plan_disk(self.disk, plan, rounds, asked, ahead)
        outputs: dict[int, Array] = {}
        for this in rounds:
            if self.disk is not None:
                self.disk.read()
            self._move(plan, this, asked)
            begin = 0
            ends = np.zeros(self.wire.size, np.int64)
            for owner in range(self.wire.size):
                ends[owner] = begin
                begin += int(in_round(plan.needs[:, owner], this).sum())
            for step in range(this.first, min(this.last, plan.steps)):
                if this.skip == 0:
                    outputs[step] = self._start(plan, step)
                span = plan.local_in(step, this)
                ids, place = plan.local_ids[step][span], plan.local[step][span]
                put_local(self._rows, ids, place, outputs[step])
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

    def _plan_disk(
        self,
        disk: OwnDisk,
        plan: FetchPlan,
        rounds: Sequence[Round],
        asked: list[tuple[Int, Int, Array]],
        ahead: Sequence[Any],
    ) -> None:
        """Plans the reads of the own block: a round is what this rank and its column want in it."""
        none = np.empty(0, np.uint32)
        wanted = [
            np.concatenate(
                [none, *plan.local_of(this), *(_wanted(c, ids, this) for _, c, ids in asked)]
            )
            for this in rounds
        ]
        disk.plan(wanted, self.planner.local_ids(ahead))

    def _move(self, plan: FetchPlan, this: Round, asked: list[tuple[Int, Int, Array]]) -> None:
        """One reply collective, unless nobody has rows in it."""
        if self.wire.size == 1 or this.take == 0:
            return
        lengths, at, size = [], 0, self.codec.row_bytes
        for _, counts, ids in asked:
            wanted = _wanted(counts, ids, this)
            for low in range(0, len(wanted), _CHUNK):
                some = wanted[low : low + _CHUNK]
                self.codec.encode(self._rows.take(some), self._sent[at : at + len(some)])
                at += len(some)
            lengths.append(len(wanted) * size)
        expected = [
            int(in_round(plan.needs[:, owner], this).sum()) * size
            for owner in range(self.wire.size)
        ]
        sent, got = self._sent.reshape(-1), self._got.reshape(-1)
        self.wire.swap(sent[: at * size], lengths, got[: sum(expected)], expected, REPLY)

    # ---- outputs -------------------------------------------------------------------------------

    def _start(self, plan: FetchPlan, step: int) -> Array:
        """An output with the rows that are in the cache."""
        local, remote = plan.local[step], plan.remote[step]
        out = np.empty((len(local) + len(remote), self.block.width), self.block.gathered_dtype)
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


def _wanted(counts: Int, ids: Array, this: Round) -> Array:
    """What a peer wants of this rank in a round, by the counts of its steps and all ids."""
    begin = int(counts[: this.first].sum()) + this.skip
    return ids[begin : begin + int(in_round(counts, this).sum())]


def put_local(block: "FeatureBlock | OwnDisk", ids: Array, position: Int, out: Array) -> None:
    """Copies rows of the own block to their places in an output; nothing crosses."""
    for low in range(0, len(ids), _CHUNK):
        rows = block.take(ids[low : low + _CHUNK])
        if block.scale is not None:
            rows = rows.astype(np.float32) * block.scale
        out[position[low : low + _CHUNK]] = rows
