"""disk_run: one loop out of core: samples and plans ahead, carries plans out, assembles batches.

A run owns the executor it reads with from its first batch to its end, so a step can only ever be a
step of its own plans. All of it happens in the producer's two threads: one samples bulk i + 1 and
plans bulk i with both in sight, the other carries the plans out and assembles.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foregather import _core
from foregather.errors import BudgetError
from foregather.gather.disk import DiskFeatures
from foregather.gather.repack import RepackFeatures, Swept
from foregather.loader.batch_recipe import BatchRecipe, Dealt
from foregather.loader.lookahead import bulks_with_lookahead
from foregather.loader.memory.layout import Layout
from foregather.loader.prefetch import ahead
from foregather.observe.trace import span
from foregather.plan.planner import Planner
from foregather.plan.repack import Repacked, RepackPlanner, announce
from foregather.sampling.bulk import Bulk
from foregather.units import format_bytes

if TYPE_CHECKING:
    from foregather.loader.disk.out_of_core import OutOfCore

__all__ = ["DiskRun", "Executor"]

_SOON = 2  # steps before the end of a bulk at which the next plan is queued, so reads never stop


class Executor:
    """A planner and what carries its plans out, with one cache between them.

    Args:
        layout: by which both were made.
        features: reads rows; None where they are in memory.
        planner: plans for its cache; None where rows are in memory.
    """

    def __init__(
        self,
        layout: Layout,
        features: DiskFeatures | None,
        planner: Planner | RepackPlanner | None,
    ) -> None:
        self.layout, self.features, self.planner = layout, features, planner
        self.idle = False  # no run has it, and all that was planned was carried out

    def close(self) -> None:
        """Ends reading and frees the cache."""
        self.idle = False
        if self.features is not None:
            self.features.close()

    def cancel(self) -> None:
        """Ends a sweep that runs; the executor can only be closed then."""
        if isinstance(self.features, RepackFeatures):
            self.features.cancel()


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """A bulk on its way to the executor."""

    bulk: Bulk
    dealt: Dealt
    plan: "_core.Plan | Swept | None"


class DiskRun:
    """The batches `first` to the last of an epoch, for one loop.

    Args:
        disk: what lends the executor.
        maker: what batches are made of.
        epoch: which.
        first: the number of the first batch.
    """

    def __init__(self, disk: "OutOfCore", maker: BatchRecipe, epoch: int, first: int) -> None:
        self._disk, self._maker = disk, maker
        self._epoch, self._first = epoch, first
        self._executor: Executor | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Ends the sweep of a run that is left early; else its thread would finish it first."""
        self._cancelled = True
        executor = self._executor
        if executor is not None:
            executor.cancel()

    def batches(self) -> Generator[Any, None, None]:
        """Makes them; in one thread, once."""
        executor = self._executor = self._disk.lend(self._maker, self._epoch, self._first)
        clean = False
        source = ahead(self._plans(executor), 1)
        try:
            yield from self._carry_out(executor, source)
            clean = not self._cancelled
        finally:
            if not clean:
                executor.cancel()
            source.close()
            self._executor = None
            self._disk.take_back(executor, clean)

    def _plans(self, executor: Executor) -> Generator[_Planned, None, None]:
        """Bulks with their plans; each was planned with the one after it in sight."""
        starts = range(self._first, len(self._maker.seeds), executor.layout.bulk)
        bulks = (self._disk.sample(self._maker, self._epoch, start) for start in starts)
        for (bulk, dealt), *later in bulks_with_lookahead(bulks):
            yield _Planned(bulk, dealt, self._plan(executor, bulk, later[0][0] if later else ()))
            del bulk, dealt, later

    def _plan(
        self, executor: Executor, bulk: Bulk, later: "Bulk | tuple[()]"
    ) -> "_core.Plan | Swept | None":
        if executor.planner is None:
            return None
        with span("plan"):
            plan = executor.planner.plan(bulk, later)
        ready: _core.Plan | Swept
        if isinstance(plan, Repacked):
            assert isinstance(executor.features, RepackFeatures)
            with span("sweep"):
                ready = executor.features.sweep(plan)
            if ready.scratch is None:  # nothing missed, or no room
                plan = plan.rows
        else:
            ready = plan
        with span("plan"):
            self._disk.count(*announce(plan, self._disk.disk))
        return ready

    def _carry_out(self, executor: Executor, source: Iterator[_Planned]) -> Iterator[Any]:
        maker, features = self._maker, executor.features
        current = next(source, None)
        if current is not None:
            _append(features, current)
        while current is not None:
            upcoming: _Planned | None = None
            count = len(current.bulk)
            for number, (sample, (nodes, input_id)) in enumerate(
                zip(current.bulk, current.dealt, strict=True)
            ):
                if number == max(0, count - _SOON):
                    upcoming = next(source, None)
                    if upcoming is not None:
                        _append(features, upcoming)
                rows = None
                if features is not None:
                    with span("gather"):
                        rows = features.step(maker.assembler.empty_rows(len(sample.node)))
                with span("assemble"):
                    batch = maker.assembler.batch(sample, nodes, input_id, rows)
                _check(executor.layout, batch.nbytes)
                yield maker.finish(batch)
                del batch, rows
            current = upcoming


def _append(features: DiskFeatures | None, planned: _Planned) -> None:
    plan = planned.plan
    if features is None or plan is None:
        return
    if isinstance(plan, Swept):
        assert isinstance(features, RepackFeatures)
        features.append(plan)
    else:
        features.append(plan)


def _check(layout: Layout, nbytes: int) -> None:
    """BudgetError where batches like this one would break the promise."""
    flight, share = layout.flight, layout.shares["batches"]
    if flight * nbytes > share:
        raise BudgetError(
            f"memory is {format_bytes(layout.memory)}, of which {format_bytes(share)} are "
            f"for {flight} batches, but one turned out to have {format_bytes(nbytes)}; give "
            "more, or a smaller batch_size"
        )
