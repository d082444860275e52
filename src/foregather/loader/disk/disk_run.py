"""disk_run: one out-of-core loop: samples and plans ahead, executes plans, assembles batches.

A run owns its executor from its first batch to its end, so it only ever sees steps of its own
plans. Everything happens in the producer's two threads: one samples bulk i + 1 and plans bulk i
knowing both, the other executes the plans and assembles.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foregather.errors import BudgetError
from foregather.gather.executor import DiskExecutor
from foregather.loader.batch_recipe import BatchRecipe, Dealt
from foregather.loader.batches.tree_rows import distinct_nodes
from foregather.loader.disk.replay import ReplayPack
from foregather.loader.lookahead import bulks_with_lookahead
from foregather.loader.memory.division import BLOCK_RESERVE
from foregather.loader.memory.layout import Layout
from foregather.loader.prefetch import ahead
from foregather.observe.progress import write_above
from foregather.observe.trace import span
from foregather.plan.planner import BulkPlanner
from foregather.sampling.bulk import Bulk
from foregather.units import format_bytes

if TYPE_CHECKING:
    from foregather.loader.disk.out_of_core import OutOfCore

__all__ = ["DiskRun", "Lent"]

_SOON = 2  # the next plan is queued this many steps before the end of a bulk, so reads never stop


class Lent:
    """What a run is lent: a planner and the executor of its plans, with one cache between them.

    Args:
        layout: the layout of both.
        features: reads rows; None if they are in memory.
        planner: plans for its cache; None if rows are in memory, or packed.
    """

    def __init__(
        self,
        layout: Layout,
        features: DiskExecutor[Any] | None,
        planner: BulkPlanner[Any] | None,
    ) -> None:
        self.layout, self.features, self.planner = layout, features, planner
        self.pack: ReplayPack | None = None  # where rows are kept for epochs that repeat this one
        self.idle = False  # not in use, and all plans were executed

    def close(self) -> None:
        """Stops reading and frees the cache."""
        self.idle = False
        if self.features is not None:
            self.features.close()

    def cancel(self) -> None:
        """Ends a sweep that runs; what was lent can only be closed then."""
        if self.features is not None:
            self.features.cancel()


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """A bulk on its way to the executor; its plan is None where rows are in memory."""

    bulk: Bulk
    dealt: Dealt
    plan: Any


class DiskRun:
    """Makes the batches `first` to the last of an epoch, for one loop.

    Args:
        disk: lends the executor.
        maker: what batches are made of.
        epoch: number of the epoch.
        first: the number of the first batch.
    """

    def __init__(self, disk: "OutOfCore", maker: BatchRecipe, epoch: int, first: int) -> None:
        self._disk, self._maker = disk, maker
        self._epoch, self._first = epoch, first
        self._lent: Lent | None = None
        self._cancelled = False
        self._warned = False

    def cancel(self) -> None:
        """Ends the sweep of a run that is left early.

        Otherwise its thread would finish it first.
        """
        self._cancelled = True
        lent = self._lent
        if lent is not None:
            lent.cancel()

    def batches(self) -> Generator[Any, None, None]:
        """Yields the batches; call once, in one thread."""
        lent = self._lent = self._disk.lend(self._maker, self._epoch, self._first)
        clean = False
        source = ahead(self._plans(lent), 1)
        try:
            yield from self._carry_out(lent, source)
            clean = not self._cancelled
        finally:
            if not clean:
                lent.cancel()
            source.close()
            self._lent = None
            self._disk.take_back(lent, clean)

    def _plans(self, lent: Lent) -> Generator[_Planned, None, None]:
        """Yields bulks with their plans, each planned with the next one as look-ahead."""
        parts = lent.layout.bulks(self._first, len(self._maker.seeds))
        bulks = (self._disk.sample(self._maker, self._epoch, *part) for part in parts)
        for (bulk, dealt), *later in bulks_with_lookahead(bulks):
            yield _Planned(bulk, dealt, self._plan(lent, bulk, later[0][0] if later else ()))
            del bulk, dealt, later

    def _plan(self, lent: Lent, bulk: Bulk, later: "Bulk | tuple[()]") -> Any:
        """The plan of a bulk as it will be carried out; what it takes before its turn is done."""
        if lent.planner is None or lent.features is None:
            return None
        with span("plan"):
            plan = lent.planner.plan(self._disk.rows(bulk), self._disk.rows(later))
        plan = lent.features.prepare(plan)
        with span("plan"):
            self._disk.count(*lent.planner.announce(plan, self._disk.disk))
        return plan

    def _carry_out(self, lent: Lent, source: Iterator[_Planned]) -> Iterator[Any]:
        maker, features = self._maker, lent.features
        scratch = maker.assembler.scratch(lent.layout.rows, maker.disjoint)
        current, begun = self._queue_next(features, source), False
        while current is not None:
            upcoming: _Planned | None = None
            asked, soon = False, len(current.bulk) - _SOON
            for number, (sample, dealt) in enumerate(zip(current.bulk, current.dealt, strict=True)):
                if begun and not asked and number >= soon:  # the first batch waits for no other
                    asked, upcoming = True, self._queue_next(features, source)
                begun, rows = True, None
                if features is not None:
                    with span("gather"):
                        rows = features.step(scratch.rows(len(distinct_nodes(sample))))
                    if lent.pack is not None:
                        lent.pack.put(sample.batch, rows)
                    self._warn()
                with span("assemble"):
                    if maker.disjoint and rows is not None:
                        rows = maker.assembler.repeated(sample, rows)
                    batch = maker.assembler.batch(sample, *dealt, rows)
                room = _check(lent.layout, batch.nbytes, scratch.nbytes)
                yield maker.finish(batch, dealt, room)
                del batch, rows
            current = upcoming if asked else self._queue_next(features, source)

    def _warn(self) -> None:
        """Says once that reading takes far longer than predicted."""
        if self._warned or (found := self._disk.overdue()) is None:
            return
        self._warned, (cost, waiting) = True, found
        write_above(
            f"warning: the disk did {cost.requests / waiting:,.0f} reads/s of "
            f"{cost.bytes // cost.requests >> 10} KiB, and batches waited {waiting:.0f} s for it, "
            f"although {cost.seconds:.1f} s were predicted; the next epoch reads in other blocks "
            "if that helps; run foregather doctor on the graph's folder to measure the disk again"
        )

    @staticmethod
    def _queue_next(
        features: DiskExecutor[Any] | None, source: Iterator[_Planned]
    ) -> _Planned | None:
        """The next bulk, whose plan the executor has then."""
        upcoming = next(source, None)
        if upcoming is not None and features is not None:
            features.append(upcoming.plan)
        return upcoming


def _check(layout: Layout, nbytes: int, scratch: int) -> int:
    """Raises BudgetError if batches like this one would exceed the budget.

    Returns:
        Bytes that each of them may take in addition, beside the reserve of recycled memory.
    """
    flight, share = layout.flight, layout.shares["batches"]
    if scratch > layout.shares["leaf rows"]:
        raise BudgetError(
            f"memory is {format_bytes(layout.memory)}, of which "
            f"{format_bytes(layout.shares['leaf rows'])} are for the rows of a batch before "
            f"they are added up or repeated, but one has {format_bytes(scratch)}; raise memory, "
            "or use a smaller batch_size"
        )
    if flight * nbytes > share and _grown(layout, flight * nbytes / share) > layout.memory:
        raise BudgetError(
            f"memory is {format_bytes(layout.memory)}, of which {format_bytes(share)} are "
            f"for {flight} batches like the first ones, but one has {format_bytes(nbytes)}; use a "
            "smaller batch_size, or raise memory beyond what the cache takes "
            f"({format_bytes(layout.shares['cache'])} now)"
        )
    return share // flight - int(nbytes * BLOCK_RESERVE)


def _grown(layout: Layout, times: float) -> float:
    """Bytes of the whole division if batches, and what is sampled and planned, grow like this."""
    parts = ("batches", "samples and plans", "planner")
    return sum(layout.shares.values()) + (times - 1) * sum(layout.shares[one] for one in parts)
