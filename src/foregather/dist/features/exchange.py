"""exchange: fetches the feature rows of a bulk over ranks; equal to indexing the whole matrix.

The default plans a bulk: one request, then rows in rounds that fit the budget, caching those needed
soonest. Mode "paper" is the published exchange, one per minibatch.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import numpy as np

from foregather.dist.baselines.fetch_paper import PaperFetcher, PaperPlanner
from foregather.dist.features.block_plan import BlockPlanner
from foregather.dist.features.block_reader import FeatureBlockReader
from foregather.dist.features.column_plan import ColumnPlanner
from foregather.dist.features.feature_block import FeatureBlock
from foregather.dist.features.fetch_plan import FetchPlanner
from foregather.dist.features.memory_split import OwnBlock, shares, shares_with_disk
from foregather.dist.features.planned_fetcher import PlannedFetcher
from foregather.dist.features.rank_executor import RankExecutor, RankPlanner, Reduce
from foregather.dist.transport.codec import Codec, WireError, WireFormat
from foregather.dist.transport.ledger import Ledger
from foregather.dist.transport.rank_grid import Channel, RankGrid
from foregather.errors import InputError, RankError
from foregather.sampling.bulk import Bulk
from foregather.units import format_bytes, parse_size

if TYPE_CHECKING:
    import torch

__all__ = ["ExchangeMode", "FeatureExchange", "Fetch"]

#: "planned": one request per bulk, rows cached by Belady's rule. "paper": one all-to-allv per
#: minibatch.
ExchangeMode = Literal["planned", "paper"]


class Fetch:
    """The rows of a bulk being fetched: iterate over it, one tensor per minibatch.

    The next minibatch is sent while one is used. It need not be read to its end: the ranks continue
    together when the next bulk starts.
    """

    def __init__(self, thread: Executor, rows: Iterator[Any], steps: int) -> None:
        self._thread, self._rows, self._left = thread, rows, steps
        self._futures: deque[Future[Any]] = deque()
        self._rest: Future[None] | None = None
        self._submit(1)

    def _submit(self, count: int) -> None:
        for _ in range(min(count, self._left)):
            self._futures.append(self._thread.submit(_next, self._rows))
            self._left -= 1
        if not self._left and self._rest is None:  # other ranks may have more minibatches
            self._rest = self._thread.submit(_exhaust, self._rows)

    def go_on(self) -> "Future[None]":
        """Completes the exchange whether or not the rest is read."""
        self._submit(self._left)
        assert self._rest is not None
        return self._rest

    def __iter__(self) -> "Fetch":
        return self

    def __next__(self) -> Any:
        if not self._futures:
            raise StopIteration
        self._submit(1)
        return self._futures.popleft().result()


def _next(rows: Iterator[Any]) -> Any:
    for found in rows:
        return found
    raise RankError("these rows are not available: an earlier minibatch of the bulk failed")


def _exhaust(rows: Iterator[Any]) -> None:
    for _ in rows:
        raise AssertionError("a bulk has more minibatches than were requested")


class FeatureExchange:
    """Exchanges feature rows over the ranks of a grid; creation and calls are collective.

    Args:
        grid: the ranks.
        features: this rank's block: number `grid.row` of `grid.num_rows`.
        memory: bytes for the cache of remote rows, staging and the planner's tables, for example
            "1GB"; the same on all ranks. If the block is in a file, also for reading it and a cache
            of its rows. The ids of a bulk and the returned rows come on top. Mode "paper" caches
            nothing and needs none.
        wire: "exact" sends rows as they are stored; "float16" and "int8" (one scale per row) send
            and cache float32 rows rounded, see `error`. Rows of the rank's own block are always
            exact.
        mode: see `ExchangeMode`.
        threads: threads to use; the result does not depend on it.
        channel: links to use (`Grid.channel`); None makes new ones. Shared ones must be used in
            the same order on all ranks.

    Raises:
        InputError: the block is not this rank's, or the ranks differ in features or options.
        BudgetError: `memory` is below the minimum, which the message states.
    """

    def __init__(
        self,
        grid: RankGrid,
        features: FeatureBlock,
        *,
        memory: str | int | None = None,
        wire: WireFormat = "exact",
        mode: ExchangeMode = "planned",
        threads: int = 1,
        channel: Channel | None = None,
    ) -> None:
        blocks = len(features.row_starts) - 1
        if (blocks, features.block) != (grid.num_rows, grid.row):
            raise InputError(
                f"rank {grid.rank} has feature block {features.block} of {blocks}, expected block "
                f"{grid.row} of {grid.num_rows}: its row of the grid"
            )
        if mode not in ("planned", "paper"):
            raise InputError(f"mode is {mode!r}, expected 'planned' or 'paper'")
        if mode == "planned" and memory is None:
            raise InputError(
                "memory is not given; pass a budget for rows of other ranks, such as '1GB'"
            )
        if mode == "paper" and features.file is not None:
            raise InputError(
                f"mode is 'paper', but the block is in {features.file.name}, which is read by "
                "plan; use mode='planned', or a block in memory or of a store"
            )
        self.grid, self.features, self.mode = grid, features, mode
        codec = Codec(features, wire, threads)
        budget = 0 if memory is None else parse_size(memory)
        how = {"exchange mode": mode, "wire": wire, "memory": f"{budget} bytes"}
        grid.agree_all({"features": _describe(features), **how})
        #: Reads the own block from disk; None where it is in memory or a store.
        self.disk: FeatureBlockReader | None = None
        #: Plans bulks.
        self.planner: RankPlanner = PaperPlanner(features.row_starts)
        staging = self._divide(budget, codec, threads) if mode == "planned" else 0
        self._own_channel = channel is None
        self.channel = channel or grid.channel()
        #: Carries out their plans; its counts are rows so far.
        self.fetcher: RankExecutor = PaperFetcher(self.channel.column, features, codec)
        if mode == "planned":
            slots = self.planner.num_slots
            self.fetcher = PlannedFetcher(
                self.channel.column, features, codec, slots, staging, self.disk
            )
        self.codec = codec
        self.channel.before_close.append(self.settle)
        self._number = 0
        self._last: Fetch | None = None

    def _divide(self, budget: int, codec: Codec, threads: int) -> int:
        """Divides the budget between planner, cache and own disk; rows of staging are left."""
        block, peers = self.features, self.grid.num_rows - 1
        rows, file, own = block.total_rows, block.file, None
        if file is None:
            slots, staging = shares(budget, rows, codec.row_bytes, peers)
        else:
            blocks = OwnBlock(int(np.diff(block.row_starts).max()), file.row_bytes)
            slots, staging, share = shares_with_disk(budget, rows, codec.row_bytes, peers, blocks)
            room = (peers + 1) * staging
            self.disk = FeatureBlockReader(file, block.first_row, share, room, threads)
            own = BlockPlanner(file, block.first_row, share.slots)
        fetch = FetchPlanner(block.row_starts, block.block, slots, reads_local=own is not None)
        self.planner = ColumnPlanner(fetch, staging, own)
        return staging

    def fetch(
        self,
        bulk: Iterable[Any],
        later: Iterable[Any] | None = None,
        empty: "Callable[[int], torch.Tensor | None] | None" = None,
        reduce: Reduce | None = None,
    ) -> Fetch:
        """Starts to fetch this rank's minibatches in the background.

        The result, one tensor [nodes, width] per minibatch, equals `features[ids]` of the whole
        matrix.

        Args:
            bulk: a `Bulk`, or the ids of each minibatch; a rank may have none.
            later: the next bulk, if known: rows it needs are kept.
            empty: gives memory for the rows of that many nodes, in the background thread; None
                always takes new memory.
            reduce: makes of the rows of a minibatch what is returned in their place, so that they
                need not be kept.

        Raises (here or when rows are read):
            InputError: an id is out of range, or twice in a minibatch.
            RankError: a rank died or stalled.
        """
        if self._last is not None:
            self._last.go_on()
        batches, ahead = list(bulk), [] if later is None else list(later)
        empty = empty or (lambda _: None)
        rows = self._run(batches, ahead, self._name(bulk), empty, reduce)
        self._number += 1
        self._last = Fetch(self.channel.thread, rows, len(batches))
        return self._last

    def _run(
        self,
        batches: Sequence[Any],
        ahead: Sequence[Any],
        name: str,
        empty: "Callable[[int], torch.Tensor | None]",
        reduce: Reduce | None,
    ) -> Iterator[Any]:
        """Plans and fetches a bulk, in the channel's thread: requests cross between two halves."""
        self.grid.watch.where = f"{name} of rank {self.grid.rank},"
        if reduce is not None:
            batches, ahead = reduce.wanted()
        phase = self.channel.clock.phase
        with phase("plan"):
            plan = self.planner.plan(batches, ahead)
            self.fetcher.append(self.planner.complete(plan, self.fetcher.request(plan)))
            if reduce is not None:
                reduce.begin(plan)
        for number, batch in enumerate(batches):
            yield self._step(number, batch, empty, reduce)
        with phase("gather"):
            self.fetcher.drain()

    def _step(
        self,
        number: int,
        batch: Any,
        empty: "Callable[[int], torch.Tensor | None]",
        reduce: Reduce | None,
    ) -> Any:
        with self.channel.clock.phase("gather"):
            if reduce is None:
                return self.fetcher.step(empty(len(getattr(batch, "node", batch))))
            return reduce.reduced(number, self.fetcher.step(reduce.space(number)))

    def _name(self, bulk: Iterable[Any]) -> str:
        if isinstance(bulk, Bulk):
            return f"epoch {bulk.epoch}, minibatches from {bulk.first_batch}"
        return f"list {self._number} of minibatches"

    @property
    def ledger(self) -> Ledger:
        """What this rank sent for features."""
        return self.channel.ledger

    @property
    def memory_bytes(self) -> int:
        """Bytes of cache, staging and tables; at most `memory`."""
        return self.fetcher.memory_bytes + self.planner.memory_bytes

    def explain(self) -> list[str]:
        """How rows cross, and what is kept of them, a line each."""
        held = "no cache"
        if self.memory_bytes:
            held = (
                f"{format_bytes(self.memory_bytes)} with a cache of {self.planner.num_slots} rows"
            )
        return [
            f"features: {self.planner.manner}, wire {self.codec.wire}, {held}",
            *self.fetcher.explain(),
        ]

    @property
    def error(self) -> WireError:
        """The measured error of the rows that this rank sent."""
        return self.codec.error

    def settle(self) -> None:
        """Waits until everything started has been sent: other ranks may need rows of this one."""
        if self._last is not None:
            wait([self._last.go_on()])

    def close(self) -> None:
        """Waits until other ranks have their rows, and ends the thread unless it was passed in."""
        self.settle()
        if self._own_channel:
            self.channel.close()
        self.fetcher.close()


def _describe(features: FeatureBlock) -> str:
    scale = b"" if features.scale is None else np.ascontiguousarray(features.scale).tobytes()
    borders = crc32(features.row_starts.tobytes())
    return (
        f"{features.total_rows} rows of {features.width} {features.dtype}, borders {borders:08x}, "
        f"scale {crc32(scale):08x}"
    )
