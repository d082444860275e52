"""out_of_core: the disk source of a Loader with a memory budget: samples, plans and reads.

Batches equal those of a Loader in memory, bit for bit. One loop at a time owns the executor, and so
the cache (see `disk_run`). The cache is kept from bulk to bulk and from epoch to epoch; after a
loop that was left early it starts empty.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace as replaced
from typing import Any

from foregather import _core
from foregather.errors import InputError
from foregather.gather.disk import DiskFeatures
from foregather.gather.executor import DiskExecutor
from foregather.gather.feature_file import FeatureFile
from foregather.gather.repack import RepackFeatures
from foregather.loader.batch_recipe import BatchRecipe, Dealt
from foregather.loader.batches.tree_rows import distinct_nodes
from foregather.loader.disk.disk_run import DiskRun, Lent
from foregather.loader.disk.epoch_plan import EpochPlan, plan_epoch
from foregather.loader.disk.replay import PackedRows, ReplayPack, forecast_replay, pack_bytes
from foregather.loader.loop import Producer
from foregather.loader.memory.layout import Layout, sweep_bytes, with_sweep, write_bytes
from foregather.loader.prefetch import Prefetcher
from foregather.loader.seeds import Seeds
from foregather.observe.calibration import Calibration, load_calibration
from foregather.plan import Choice, choose
from foregather.plan.candidate import Candidate
from foregather.plan.choice import Caching
from foregather.plan.cost import ASSUMED_DISK, PlanCost, slowed
from foregather.plan.planner import BulkPlanner, Planner, PlanSummary
from foregather.plan.repack import RepackPlanner
from foregather.sampling.bulk import Bulk
from foregather.sampling.disk import DiskTopology
from foregather.units import format_bytes

__all__ = ["OutOfCore"]

_SLOW = 10.0  # seconds waited for the disk in an epoch: fewer say nothing about it
_OVERDUE = 3.0  # times the predicted seconds: from there on the disk is slower than was measured


class OutOfCore:
    """Samples, plans and reads for a Loader, according to a `Layout`.

    Args:
        layout: what stays in memory.
        topology: the neighbour lists on disk; None samples the graph in memory.
        file: the feature file; None gathers rows from the graph in memory.
    """

    ranks = None

    def __init__(
        self,
        layout: Layout,
        topology: DiskTopology | None,
        file: FeatureFile | None,
    ) -> None:
        self.topology = topology
        self._file = file
        self._base = layout  # before a way of reading was chosen
        self._waited: tuple[PlanCost, float] | None = None  # by the last epoch, if for too long
        self._slowed: Calibration | None = None  # what this run measured, where that was slower
        self._backend: str | None = None  # how feature rows are read, once that is known
        self._process = os.getpid()
        # set together: a run must never see one without the other
        self._decided: tuple[Layout, Choice | None] = (layout, None)
        self._lent: Lent | None = None  # to the run that is on, or kept for the next
        self._pack: ReplayPack | None = None  # of the epoch that is repeated
        # totals of the plans of the current (or last) epoch, and their predicted cost
        self._announced: tuple[PlanSummary, PlanCost] | None = None
        self._before: dict[str, Any] = {}  # the counters at its start
        #: What the storage modes were predicted to cost when this one was chosen, by mode.
        self.considered: Mapping[str, Candidate] = {}

    @property
    def layout(self) -> Layout:
        """How the budget is divided."""
        return self._decided[0]

    @property
    def choice(self) -> Choice | None:
        """The chosen way of reading and its reasons; None before the first loop."""
        return self._decided[1]

    @property
    def _features(self) -> DiskExecutor[Any] | None:
        lent = self._lent
        return None if lent is None else lent.features

    def steps(self, seeds: Seeds) -> int:
        """Batches of an epoch."""
        return len(seeds)

    def start(self, recipe: BatchRecipe, epoch: int, first: int, prefetch: int) -> Producer:
        """Makes a producer of the batches `first` to the last of an epoch, for one loop.

        Raises:
            InputError: this is a fork of the process that opened the files.
        """
        run = self.run(recipe, epoch, first)
        return Prefetcher(run.batches(), prefetch, run.cancel)

    def plan(self, recipe: BatchRecipe, epoch: int, batches: int | None) -> EpochPlan:
        """Predicts what an epoch will read, by only sampling and planning it."""
        return plan_epoch(self, recipe, epoch, batches)

    def planned(self) -> tuple[PlanSummary, PlanCost] | None:
        """The totals of the plans of the current or last epoch; None before the first."""
        return self._announced

    def run(self, maker: BatchRecipe, epoch: int, first: int) -> DiskRun:
        """Makes a producer of the batches `first` to the last of an epoch, for one loop.

        Raises:
            InputError: this is a fork of the process that opened the files.
        """
        if os.getpid() != self._process:
            raise InputError(
                f"this Loader reads from disk with threads of process {self._process}, which a "
                "fork does not have; make a Loader in the new process"
            )
        return DiskRun(self, maker, epoch, first)

    def counters(self) -> dict[str, Any]:
        """Read counters since the first loop: see `DiskFeatures` and `DiskTopology`."""
        facts: dict[str, Any] = {}
        if self._features is not None:
            facts["features"] = self._features.counters()
        if self.topology is not None:
            facts["topology"] = self.topology.counters()
        return facts

    def explain(self) -> str:
        """Describes the layout, the choice, and predicted and measured reads of the last epoch."""
        parts = [self.layout.summary()]
        if self.choice is not None:
            parts.append(self.choice.explain())
        if self._slowed is not None:
            parts.append(f"the disk was slower than predicted: {self._slowed.notes[-1]}")
        if self._announced is not None:
            summary, predicted = self._announced
            parts.append(summary.explain())
            if self._features is not None:
                parts.append(self._compare(self._features.counters(), predicted))
        if self._features is not None:
            parts += self._features.explain()
        if self._pack is not None:
            parts.append(self._pack.explain())
        return "\n".join(parts)

    def _compare(self, now: dict[str, Any], predicted: PlanCost) -> str:
        seconds = now["seconds"] - self._before.get("seconds", 0.0)
        waiting = now["waiting"] - self._before.get("waiting", 0.0)
        requests, count = (
            sum(now.get(name, 0) - self._before.get(name, 0) for name in names)
            for names in (("requests", "writes"), ("bytes", "written"))
        )
        return (
            f"           {'requests':>12} {'bytes':>10} {'seconds':>8}\n"
            f"predicted  {predicted.requests:>12,} {format_bytes(predicted.bytes):>10} "
            f"{predicted.seconds:>8.2f}\n"
            f"measured   {requests:>12,} {format_bytes(count):>10} {seconds:>8.2f} "
            f"({waiting:.2f} s waiting for the disk)"
        )

    def close(self) -> None:
        """Frees the cache; the next loop starts with an empty one. No run may be active."""
        self._close_executor()
        pack, self._pack = self._pack, None
        if pack is not None:
            pack.close()

    def _close_executor(self) -> None:
        lent, self._lent = self._lent, None
        if lent is not None:
            lent.close()

    # ---- one epoch -------------------------------------------------------------------------

    def lend(self, maker: BatchRecipe, epoch: int, first: int) -> Lent:
        """Lends the executor to one run; it must be taken back before the next."""
        self._announced = None
        pack = self._pack_of(maker, epoch)
        if pack is not None and pack.has(first):
            pack.check()
            return Lent(self.layout, PackedRows(pack, first), None)
        kept = self._lent
        if kept is None or not kept.idle or self._chooses_anew(kept, maker, epoch, first):
            self._close_executor()
            kept = self._make(maker, epoch, first)
        kept.idle, kept.pack = False, pack
        if kept.planner is not None:
            kept.planner.begin_bound()
        self._before = {} if kept.features is None else kept.features.counters()
        self._lent = kept
        return kept

    def replayed(self, maker: BatchRecipe, rows: float) -> str:
        """What packing an epoch with batches of that many rows takes; empty if never repeated."""
        if maker.replay == 1 or self._file is None:
            return ""
        return forecast_replay(self._file, rows, len(maker.seeds), maker.replay, self.disk)

    def _pack_of(self, maker: BatchRecipe, epoch: int) -> ReplayPack | None:
        """Where the rows of an epoch that is repeated are packed; None if it is not."""
        if maker.replay == 1 or self._file is None:
            return None
        seeds = maker.seeds
        order = (seeds.seed, seeds.batch_size, str(seeds.shuffle), seeds.drop_last)
        key = (epoch, seeds.digest, *order)
        if self._pack is None or self._pack.key != key:
            if self._pack is not None:
                self._pack.close()
            expected = pack_bytes(self._file, self.layout.rows, len(seeds))
            self._pack = ReplayPack(self._file, key, len(seeds), expected)
        return self._pack

    def _chooses_anew(self, kept: Lent, maker: BatchRecipe, epoch: int, first: int) -> bool:
        """Chooses again, if the last epoch waited far longer than predicted; whether it differs.

        Batches do not depend on the way of reading. A changed one begins with an empty cache.
        """
        if self._waited is None or kept.features is None:
            return False
        cost, waiting = self._waited
        self._waited = None
        seen = self._slowed or self.disk
        each, first_time = cost.bytes // max(1, cost.requests), self._slowed is None
        found = slowed(seen, each, cost.requests / waiting, smaller=first_time)
        if found is seen:
            return False
        self._slowed = found
        before, self._decided = self._decided, (self._base, None)
        self.decide(maker, epoch, first)
        return self._differs(before)

    def _differs(self, before: tuple[Layout, Choice | None]) -> bool:
        """Whether the choice is another than before; if not, the former layout stays."""
        now, old = self._decided[0], before[0]
        if (now.caching, now.block, now.gap) != (old.caching, old.block, old.gap):
            return True
        self._decided = (old, self._decided[1])
        return False

    def take_back(self, lent: Lent, clean: bool) -> None:
        """Keeps it for the next run if all plans were executed; otherwise closes it."""
        if lent is not self._lent:  # packed rows
            return
        lent.pack = None
        if clean:
            lent.idle = True
            self._waited = self.overdue()
            return
        lent.close()  # kept: its counters are still needed

    def overdue(self) -> tuple[PlanCost, float] | None:
        """What was read in this epoch and the seconds waited for it, if far more than predicted.

        A short epoch on a busy machine waits for its turn, not for the disk.
        """
        if self._features is None or self._announced is None:
            return None
        now = self._features.counters()
        done = {
            name: now[name] - self._before.get(name, 0) for name in ("requests", "bytes", "waiting")
        }
        cost = PlanCost(done["requests"], done["bytes"], self._announced[1].seconds)
        if cost.requests == 0 or done["waiting"] <= max(_SLOW, _OVERDUE * cost.seconds):
            return None
        return cost, float(done["waiting"])

    def count(self, summary: PlanSummary, cost: PlanCost) -> None:
        """Adds a plan's totals to those of the epoch."""
        before = self._announced
        self._announced = (
            (summary, cost) if before is None else (before[0] + summary, before[1] + cost)
        )

    def _make(self, maker: BatchRecipe, epoch: int, first: int) -> Lent:
        if self._file is None:
            return Lent(self.layout, None, None)
        self.decide(maker, epoch, first)
        layout = self.layout
        features = self._open(layout, self._file)
        self._backend = features.backend
        return Lent(layout, features, self._planner_of(layout))

    def _open(self, layout: Layout, file: FeatureFile) -> DiskFeatures | RepackFeatures:
        common: dict[str, Any] = {
            "staging": layout.staging,
            "backend": self._backend,
            "depth": layout.depth,
        }
        if layout.caching != "repack":
            return DiskFeatures(file, layout.num_slots, **common)
        return RepackFeatures(
            file,
            layout.num_slots,
            sweep_staging=sweep_bytes(file.row_bytes),
            write_bytes=write_bytes(layout),
            **common,
        )

    @property
    def disk(self) -> Calibration:
        """The calibration of the features' disk, corrected by what this run measured."""
        if self._slowed is not None:
            return self._slowed
        found = None if self._file is None else load_calibration(self._file.path.parent)
        return found or ASSUMED_DISK

    def decide(
        self, maker: BatchRecipe, epoch: int, first: int, caching: Caching | None = None
    ) -> None:
        """Chooses block, gap and depth once, by planning one bulk in every way.

        Args:
            maker: what batches are made of.
            epoch: of the bulk.
            first: its first batch.
            caching: take the cheapest way of this kind; None takes the cheapest of all.
        """
        if self._file is None or self.choice is not None or first >= len(maker.seeds):
            return
        bulk, _ = self.sample(maker, epoch, first, self.layout.bulk)
        disk = self._slowed or load_calibration(self._file.path.parent)
        geometry, slots = self._file.geometry(), self.layout.num_slots
        swept = self._with_sweep(self._file)
        choice = choose(
            [list(self.rows(bulk.samples))],
            geometry,
            slots,
            disk,
            repack=swept is not None,
            repack_slots=None if swept is None else swept.num_slots,
            write_bytes=write_bytes(self.layout),
        )
        if caching is not None:
            choice = choice.using(caching)
        best = choice.best
        layout = replaced(
            swept if swept is not None and best.caching == "repack" else self.layout,
            caching=best.caching,
            block=best.block_bytes,
            gap=best.merge_gap,
            depth=best.depth,
        )
        self._decided = (layout, choice)

    def _with_sweep(self, file: FeatureFile) -> Layout | None:
        """The layout for repacking bulks; None if there is no room or no write permission."""
        folder = file.path.parent
        if not os.access(folder, os.W_OK):
            return None
        # alive at once: read from, waiting, and being swept
        need = 3 * self.layout.bulk * self.layout.rows * file.row_bytes
        if shutil.disk_usage(folder).free < need:
            return None
        return with_sweep(self.layout, file.row_bytes)

    def geometry(self) -> _core.Geometry:
        """Where the rows lie in the feature file, in the blocks of the layout."""
        assert self._file is not None
        return self._file.geometry(self.layout.block)

    def new_planner(self) -> BulkPlanner[Any]:
        """A planner of this layout, with an empty cache."""
        return self._planner_of(self.layout)

    def _planner_of(self, layout: Layout) -> BulkPlanner[Any]:
        assert self._file is not None
        if layout.caching == "repack":
            return RepackPlanner(
                self._file.geometry(),
                layout.num_slots,
                merge_gap=layout.gap,
                write_bytes=write_bytes(layout),
                steps=layout.steps,
            )
        geometry, pages = self._file.geometry(layout.block), layout.caching == "page"
        gap, steps = layout.gap, layout.steps
        return Planner(geometry, layout.num_slots, merge_gap=gap, pages=pages, steps=steps)

    def rows(self, batches: Iterable[Any]) -> Iterable[Any]:
        """The rows of the feature file that batches ask for."""
        asked = [distinct_nodes(batch) for batch in batches]
        return asked if self._file is None else self._file.rows(asked)

    def sample(self, maker: BatchRecipe, epoch: int, start: int, count: int) -> tuple[Bulk, Dealt]:
        """Samples the bulk of `count` batches that begins with batch `start`."""
        dealt = maker.deal(epoch, start, count)
        return maker.sample(dealt, epoch, start, self.topology), dealt
