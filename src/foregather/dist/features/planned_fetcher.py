"""planned_fetcher: carries out column plans: answers the column, receives rows, keeps some.

It decides nothing: which rows cross in which round, and what stays, is in the plan. It runs in the
thread of a channel, so the rows of the next minibatch are sent while the current one is used.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.dist.features.block_reader import FeatureBlockReader
from foregather.dist.features.column_fetcher import ColumnFetcher, QueuedBulk
from foregather.dist.features.column_plan import Asked, ColumnPlan
from foregather.dist.features.feature_block import FeatureBlock
from foregather.dist.features.fetch_plan import REPLY, REQUEST, FetchPlan, Round, in_round
from foregather.dist.features.rank_executor import CHUNK, LocalRows, put_local
from foregather.dist.transport.codec import Codec
from foregather.dist.transport.message_pack import pack, unpack
from foregather.dist.transport.wire import Wire

__all__ = ["PlannedFetcher"]

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Int = npt.NDArray[np.int64]
_NONE = 2**32 - 1


@dataclass(slots=True, eq=False)
class _Bulk(QueuedBulk[ColumnPlan]):
    """With the rounds that are left, and the one that is here."""

    rounds: deque[Round] = field(default_factory=deque)
    this: Round | None = None
    begins: Int = field(default_factory=lambda: np.empty(0, np.int64))  # by owner, in `_got`


class PlannedFetcher(ColumnFetcher[_Bulk]):
    """Fetches bulk after bulk; made once, so that the cache is carried over.

    Args:
        wire: links to the column.
        block: the rows of this rank.
        codec: the format of rows on the wire and in the cache.
        num_slots: rows the cache holds; the same as the planner's.
        staging: rows of one peer that there is room for; the same as the planner's.
        disk: reads the rows of the block, if they are on disk.
    """

    def __init__(
        self,
        wire: Wire,
        block: FeatureBlock,
        codec: Codec,
        num_slots: int,
        staging: int,
        disk: FeatureBlockReader | None = None,
    ) -> None:
        super().__init__(wire, block, codec)
        self.disk = disk
        self._rows: LocalRows = block if disk is None else disk
        self.cache = np.empty((num_slots, codec.row_bytes), np.uint8)
        room = (wire.size - 1) * staging if wire.size > 1 else 0
        self._sent = np.empty((room, codec.row_bytes), np.uint8)
        self._got = np.empty((room, codec.row_bytes), np.uint8)
        #: Planned bytes so far: requests of this rank, and replies to it.
        self.announced = {REQUEST: 0, REPLY: 0}

    @property
    def memory_bytes(self) -> int:
        """Bytes of caches and staging."""
        own = 0 if self.disk is None else self.disk.memory_bytes
        return self.cache.nbytes + self._sent.nbytes + self._got.nbytes + own

    def request(self, plan: FetchPlan) -> list[Asked]:
        """Tells the owners which rows a bulk wants; by place, what each rank of the column does.

        Raises:
            RankError: a rank died or stalled.
        """
        own = plan.place
        needs = plan.needs.astype(np.int32)
        requests = [
            np.empty(0, np.uint8)
            if owner == own
            else pack(plan.most, np.ascontiguousarray(needs[:, owner]), plan.ids_of(owner))
            for owner in range(self.wire.size)
        ]
        self.announced[REQUEST] += sum(
            plan.request_bytes(owner) for owner in range(self.wire.size) if owner != own
        )
        asked = []
        for place, message in enumerate(self.wire.exchange(requests, REQUEST)):
            if place == own:
                nothing = np.zeros(plan.steps, np.int64)
                asked.append(Asked(plan.most.astype(np.int64), nothing, np.empty(0, np.uint32)))
                continue
            most, counts, ids = unpack(message, np.int32, np.int32, np.uint32)
            asked.append(Asked(most.astype(np.int64), counts.astype(np.int64), ids))
        return asked

    def append(self, plan: ColumnPlan) -> None:
        """Queues a plan; what it reads of the own disk is read at once."""
        if self.disk is not None and plan.own is not None:
            self.disk.append(plan.own)
        counts = plan.fetch.core.counts()
        self.counts["local"] += sum(map(len, plan.fetch.local))
        self.counts["hits"] += counts["hits"]
        self.counts["misses"] += counts["misses"]
        self.announced[REPLY] += counts["misses"] * self.codec.row_bytes
        self._bulks.append(_Bulk(plan, rounds=deque(plan.rounds)))

    # ---- rounds --------------------------------------------------------------------------------

    def _answer_rest(self, bulk: _Bulk) -> None:
        """The rounds that are left."""
        while bulk.rounds:
            self._next_round(bulk)

    def _next_round(self, bulk: _Bulk) -> Round:
        """One reply collective, unless nobody has rows in it; the own disk's rows come before."""
        this = bulk.this = bulk.rounds.popleft()
        if self.disk is not None:
            self.disk.step()
        needs, size = bulk.plan.fetch.needs, self.codec.row_bytes
        expected = [int(in_round(needs[:, owner], this).sum()) for owner in range(self.wire.size)]
        bulk.begins = np.cumsum([0, *expected[:-1]])
        if self.wire.size == 1 or this.take == 0:
            return this
        lengths, at = [], 0
        for one in bulk.plan.asked:
            wanted = one.wanted(this)
            for low in range(0, len(wanted), CHUNK):
                some = wanted[low : low + CHUNK]
                self.codec.encode(self._rows.take(some), self._sent[at : at + len(some)])
                at += len(some)
            lengths.append(len(wanted) * size)
        sent, got = self._sent.reshape(-1), self._got.reshape(-1)
        bytes_expected = [rows * size for rows in expected]
        received = got[: sum(bytes_expected)]
        self.wire.swap(sent[: at * size], lengths, received, bytes_expected, REPLY)
        return this

    # ---- outputs -------------------------------------------------------------------------------

    def _num_rows(self, bulk: _Bulk) -> int:
        plan, step = bulk.plan.fetch, bulk.done
        return len(plan.local[step]) + len(plan.remote[step])

    def _fetch(self, bulk: _Bulk, out: Array) -> None:
        """Goes through rounds until a step is complete."""
        plan, this, step = bulk.plan.fetch, bulk.this, bulk.done
        if this is None or not this.first <= step < this.last:
            this = self._next_round(bulk)
        self._put_hits(plan, step, out)
        while True:
            span = plan.local_in(step, this)
            put_local(self._rows, plan.local_ids[step][span], plan.local[step][span], out)
            self._put_received(bulk, this, step, out)
            if this.done:
                break
            this = self._next_round(bulk)
        bulk.done += 1

    def _put_hits(self, plan: FetchPlan, step: int, out: Array) -> None:
        """Copies the rows that are in the cache."""
        begin, end = (int(plan.core.hit_ptr[step + i]) for i in (0, 1))
        slots = np.asarray(plan.core.hit_slot)[begin:end]
        position = plan.remote[step][np.asarray(plan.core.hit_position)[begin:end]]
        self._put(self.cache, slots, position, out)

    def _put_received(self, bulk: _Bulk, this: Round, step: int, out: Array) -> None:
        """Copies a round's rows for one step to the output and to slots."""
        plan = bulk.plan.fetch
        core, remote = plan.core, plan.remote[step]
        for owner in range(self.wire.size):
            first = int(plan.cut[step, owner])
            count = int(plan.cut[step, owner + 1]) - first - this.skip
            count = max(0, min(count, this.take))
            if not count:
                continue
            span = slice(first + this.skip, first + this.skip + count)
            begin = int(bulk.begins[owner])
            rows = self._got[begin : begin + count]
            bulk.begins[owner] += count
            position = remote[np.asarray(core.copy_position)[span]]
            self._put(rows, np.arange(count), position, out)
            slots = np.asarray(core.copy_slot)[span]
            kept = np.flatnonzero(slots != _NONE)
            self.cache[slots[kept]] = rows[kept]

    def _put(self, coded: Bytes, ids: Array, position: Int, out: Array) -> None:
        if not len(ids):
            return
        buffer = np.empty((min(CHUNK, len(ids)), out.shape[1]), out.dtype)
        for low in range(0, len(ids), CHUNK):
            some = ids[low : low + CHUNK]
            self.codec.decode(coded, some, buffer[: len(some)])
            out[position[low : low + CHUNK]] = buffer[: len(some)]

    # ---- what can be asked ---------------------------------------------------------------------

    def counters(self) -> dict[str, Any]:
        """Rows so far, bytes that plans announced, and what was read of the own disk."""
        found: dict[str, Any] = {"rows": dict(self.counts), "announced": dict(self.announced)}
        if self.disk is not None:
            found["disk"] = self.disk.counters()
        return found

    def explain(self) -> list[str]:
        """How the own block is read, where it is on disk."""
        return [] if self.disk is None else self.disk.explain()

    def close(self) -> None:
        """Ends the reading of the own disk."""
        self._bulks.clear()
        if self.disk is not None:
            self.disk.close()
