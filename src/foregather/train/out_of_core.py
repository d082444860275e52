"""out_of_core: makes batches under a memory budget: samples, plans and reads ahead of the model.

Two threads work ahead of the consumer: one samples bulk i + 1 and plans bulk i with both in sight,
the other carries the plans out and assembles batches. Batches are those of the Loader in memory,
bit for bit. The cache is carried over from bulk to bulk and from epoch to epoch; after a loop that
was left early it starts empty.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foregather import _core
from foregather.errors import BudgetError
from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.gather.repack import RepackFeatures, Swept
from foregather.observe.calibration import Calibration, load_calibration
from foregather.observe.trace import span
from foregather.plan import Choice, choose
from foregather.plan.choice import Caching
from foregather.plan.cost import ASSUMED_DISK, PlanCost
from foregather.plan.planner import Planner, PlanSummary
from foregather.plan.repack import Repacked, RepackPlanner, announce
from foregather.sampling.bulk import Bulk
from foregather.sampling.disk import DiskTopology
from foregather.train.feed import ahead
from foregather.train.layout import Layout, sweep_bytes, with_sweep, write_bytes
from foregather.units import format_bytes

if TYPE_CHECKING:
    from foregather.train.maker import Dealt, Maker

__all__ = ["OutOfCore"]

_SOON = 2  # steps before the end of a bulk at which the next plan is queued, so reads never stop


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """A bulk on its way to the executor."""

    bulk: Bulk
    dealt: "Dealt"
    plan: "_core.Plan | Swept | None"


class OutOfCore:
    """Executor of a `Layout`: what a Loader samples, plans and reads with.

    Args:
        layout: what is kept in memory.
        topology: where neighbour lists are read from; None samples the graph as it is.
        file: where feature rows are read from; None gathers them from the graph as it is.
        backend: how feature rows are read; None takes the first that works.
    """

    def __init__(
        self,
        layout: Layout,
        topology: DiskTopology | None,
        file: FeatureFile | None,
        backend: str | None = None,
    ) -> None:
        self.layout = layout
        self.topology = topology
        self._file = file
        self._backend = backend
        self._features: DiskFeatures | None = None
        self._planner: Planner | RepackPlanner | None = None
        #: A way of reading to use whatever it costs, and where scratch files are made; for tests.
        self.forced: Caching | None = None
        self.scratch: Path | None = None
        self._clean = True  # nothing planned that was not carried out
        #: How blocks are read and why; None before the first loop.
        self.choice: Choice | None = None
        #: What the plans of the running (or last) epoch announce, and their predicted cost.
        self.planned: PlanSummary | None = None
        self.predicted: PlanCost | None = None
        self._before: dict[str, Any] = {}  # the counters at its start

    def make(self, maker: "Maker", epoch: int, first: int) -> Iterator[Any]:
        """Batches `first` to the last of an epoch."""
        self._begin(maker, epoch, first)
        self._clean = False
        source = ahead(self._plans(maker, epoch, first), 1)
        try:
            yield from self._run(maker, source)
            self._clean = True
        finally:
            self.cancel()
            source.close()

    def counters(self) -> dict[str, Any]:
        """What reading did since the first loop: see `DiskFeatures` and `DiskTopology`."""
        facts: dict[str, Any] = {}
        if self._features is not None:
            facts["features"] = self._features.counters()
        if self.topology is not None:
            facts["topology"] = self.topology.counters()
        return facts

    def explain(self) -> str:
        """The layout, the choice, and predicted beside measured reads of the last epoch."""
        parts = [self.layout.summary()]
        if self.choice is not None:
            parts.append(self.choice.explain())
        if self.planned is not None and self.predicted is not None:
            parts.append(self.planned.explain())
            parts.append(self._compare(self.predicted))
        if isinstance(self._features, RepackFeatures) and self._features.refused:
            parts.append(
                f"{self._features.refused} bulks were read row by row: {self._features.refusal}"
            )
        return "\n".join(parts)

    def _compare(self, predicted: PlanCost) -> str:
        now = self.counters()["features"]
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

    def cancel(self) -> None:
        """Ends the sweep of a loop that is left early; else its thread would finish it first."""
        if not self._clean and isinstance(self._features, RepackFeatures):
            self._features.cancel()

    def close(self) -> None:
        """Ends reading and frees the cache; a next loop starts with an empty one."""
        if self._features is not None:
            self._features.close()
        self._features = self._planner = None

    # ---- one epoch -------------------------------------------------------------------------

    def _begin(self, maker: "Maker", epoch: int, first: int) -> None:
        if not self._clean:
            self.close()
        self.planned = self.predicted = None
        self._before = {} if self._features is None else self._features.counters()
        if self._file is None or self._features is not None:
            return
        self.decide(maker, epoch, first)
        self._features = self._open(self._file)
        self._planner = self.new_planner()

    def _open(self, file: FeatureFile) -> DiskFeatures:
        layout = self.layout
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
            folder=self.scratch,
            **common,
        )

    @property
    def disk(self) -> Calibration:
        """What is known about the disk of the features."""
        found = None if self._file is None else load_calibration(self._file.path.parent)
        return found or ASSUMED_DISK

    def decide(self, maker: "Maker", epoch: int, first: int) -> None:
        """Chooses block, gap and depth by planning one bulk in every way; once."""
        if self._file is None or self.choice is not None or first >= len(maker.seeds):
            return
        bulk, _ = self.sample(maker, epoch, first)
        disk = load_calibration(self._file.path.parent)
        geometry, slots = self._file.geometry(), self.layout.num_slots
        swept = self._with_sweep(self._file)
        self.choice = choose(
            [bulk.samples],
            geometry,
            slots,
            disk,
            repack=swept is not None,
            repack_slots=None if swept is None else swept.num_slots,
        )
        if self.forced is not None:
            self.choice = self.choice.using(self.forced)
        best = self.choice.best
        self.layout = replaced(
            swept if swept is not None and best.caching == "repack" else self.layout,
            caching=best.caching,
            block=best.block_bytes,
            gap=best.merge_gap,
            depth=best.depth,
        )

    def _with_sweep(self, file: FeatureFile) -> Layout | None:
        """The layout with which bulks are repacked; None where there is no room to, or no right."""
        folder = self.scratch or file.path.parent
        if not os.access(folder, os.W_OK):
            return None
        # alive at once: read from, waiting, and being swept
        need = 3 * self.layout.bulk * self.layout.rows * file.row_bytes
        if shutil.disk_usage(folder).free < need:
            return None
        return with_sweep(self.layout, file.row_bytes)

    def new_planner(self) -> Planner | RepackPlanner:
        """A planner of this layout, with an empty cache."""
        assert self._file is not None
        if self.layout.caching == "repack":
            return RepackPlanner(
                self._file.geometry(), self.layout.num_slots, merge_gap=self.layout.gap
            )
        return Planner(
            self._file.geometry(self.layout.block),
            self.layout.num_slots,
            merge_gap=self.layout.gap,
            pages=self.layout.caching == "page",
        )

    def sample(self, maker: "Maker", epoch: int, start: int) -> "tuple[Bulk, Dealt]":
        """The bulk that begins with batch `start`, from where the topology is."""
        dealt = maker.deal(epoch, start, self.layout.bulk)
        return maker.sample(dealt, epoch, start, self.topology), dealt

    def _plans(self, maker: "Maker", epoch: int, first: int) -> Iterator[_Planned]:
        """Bulks with their plans; each was planned with the one after it in sight."""
        total, step = len(maker.seeds), self.layout.bulk
        if first >= total:
            return
        bulk, dealt = self.sample(maker, epoch, first)
        for start in range(first, total, step):
            later = self.sample(maker, epoch, start + step) if start + step < total else None
            yield _Planned(bulk, dealt, self._plan(bulk, later[0] if later else ()))
            if later is not None:
                bulk, dealt = later

    def _plan(self, bulk: Bulk, later: "Bulk | tuple[()]") -> "_core.Plan | Swept | None":
        if self._planner is None:
            return None
        with span("plan"):
            plan = self._planner.plan(bulk, later)
        ready: _core.Plan | Swept
        if isinstance(plan, Repacked):
            assert isinstance(self._features, RepackFeatures)
            with span("sweep"):
                ready = self._features.sweep(plan)
            if ready.scratch is None:  # nothing missed, or no room
                plan = plan.rows
        else:
            ready = plan
        with span("plan"):
            summary, cost = announce(plan, self.disk)
        self.planned = summary if self.planned is None else self.planned + summary
        self.predicted = cost if self.predicted is None else self.predicted + cost
        return ready

    def _run(self, maker: "Maker", source: Iterator[_Planned]) -> Iterator[Any]:
        current = next(source, None)
        if current is not None:
            self._append(current)
        while current is not None:
            upcoming: _Planned | None = None
            count = len(current.bulk)
            for number, (sample, (nodes, input_id)) in enumerate(
                zip(current.bulk, current.dealt, strict=True)
            ):
                if number == max(0, count - _SOON):
                    upcoming = next(source, None)
                    if upcoming is not None:
                        self._append(upcoming)
                rows = None
                if self._features is not None:
                    with span("gather"):
                        rows = self._features.step(maker.assembler.empty_rows(len(sample.node)))
                with span("assemble"):
                    batch = maker.assembler.batch(sample, nodes, input_id, rows)
                self._check(batch.nbytes)
                yield maker.finish(batch)
                del batch, rows
            current = upcoming

    def _check(self, nbytes: int) -> None:
        """BudgetError where batches like this one would break the promise."""
        flight, share = self.layout.flight, self.layout.shares["batches"]
        if flight * nbytes > share:
            raise BudgetError(
                f"memory is {format_bytes(self.layout.memory)}, of which {format_bytes(share)} are "
                f"for {flight} batches, but one turned out to have {format_bytes(nbytes)}; give "
                "more, or a smaller batch_size"
            )

    def _append(self, planned: _Planned) -> None:
        plan = planned.plan
        if self._features is None or plan is None:
            return
        if isinstance(plan, Swept):
            assert isinstance(self._features, RepackFeatures)
            self._features.append(plan)
        else:
            self._features.append(plan)
