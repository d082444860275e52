"""out_of_core: makes batches under a memory budget: samples, plans and reads ahead of the model.

Two threads work ahead of the consumer: one samples bulk i + 1 and plans bulk i with both in sight,
the other carries the plans out and assembles batches. Batches are those of the Loader in memory,
bit for bit. The cache is carried over from bulk to bulk and from epoch to epoch; after a loop that
was left early it starts empty.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any

from foregather import _core
from foregather.errors import BudgetError
from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.observe.calibration import Calibration, load_calibration
from foregather.observe.trace import span
from foregather.plan import Choice, choose
from foregather.plan.cost import ASSUMED_DISK, PlanCost, plan_cost
from foregather.plan.planner import Planner, PlanSummary, summarize
from foregather.sampling.bulk import Bulk
from foregather.sampling.disk import DiskTopology
from foregather.train.feed import ahead
from foregather.train.layout import Layout
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
    plan: "_core.Plan | None"


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
        self._planner: Planner | None = None
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
        return "\n".join(parts)

    def _compare(self, predicted: PlanCost) -> str:
        now = self.counters()["features"]
        seconds = now["seconds"] - self._before.get("seconds", 0.0)
        waiting = now["waiting"] - self._before.get("waiting", 0.0)
        requests = now["requests"] - self._before.get("requests", 0)
        count = now["bytes"] - self._before.get("bytes", 0)
        return (
            f"           {'requests':>12} {'bytes':>10} {'seconds':>8}\n"
            f"predicted  {predicted.requests:>12,} {format_bytes(predicted.bytes):>10} "
            f"{predicted.seconds:>8.2f}\n"
            f"measured   {requests:>12,} {format_bytes(count):>10} {seconds:>8.2f} "
            f"({waiting:.2f} s waiting for the disk)"
        )

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
        self._features = DiskFeatures(
            self._file,
            self.layout.num_slots,
            staging=self.layout.staging,
            backend=self._backend,
            depth=self.layout.depth,
        )
        self._planner = self.new_planner()

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
        self.choice = choose([bulk.samples], geometry, slots, disk, repack=False)
        best = self.choice.best
        self.layout = replaced(
            self.layout,
            caching=best.caching,
            block=best.block_bytes,
            gap=best.merge_gap,
            depth=best.depth,
        )

    def new_planner(self) -> Planner:
        """A planner of this layout, with an empty cache."""
        assert self._file is not None
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

    def _plan(self, bulk: Bulk, later: "Bulk | tuple[()]") -> "_core.Plan | None":
        if self._planner is None:
            return None
        with span("plan"):
            plan = self._planner.plan(bulk, later)
            summary, cost = summarize(plan), plan_cost([plan], self.disk)
        self.planned = summary if self.planned is None else self.planned + summary
        self.predicted = cost if self.predicted is None else self.predicted + cost
        return plan

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
        if self._features is not None and planned.plan is not None:
            self._features.append(planned.plan)
