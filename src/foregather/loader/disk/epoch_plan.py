"""epoch_plan: predicts what an epoch will read by sampling and planning it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.gather.feature_file import FeatureFile
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.batches.tree_rows import distinct_nodes
from foregather.loader.lookahead import bulks_with_lookahead
from foregather.loader.memory.layout import Layout
from foregather.plan import Choice
from foregather.plan.cost import PlanCost
from foregather.plan.curve import miss_curve
from foregather.plan.planner import PlanSummary
from foregather.units import format_bytes

if TYPE_CHECKING:
    from foregather.loader.disk.out_of_core import OutOfCore

__all__ = ["EpochPlan", "epoch_curve", "plan_epoch"]


@dataclass(frozen=True)
class EpochPlan:
    """An epoch (or its first batches), planned with an empty cache.

    Attributes:
        epoch: its number.
        batches: number of planned batches.
        total: batches of the epoch.
        layout: how the budget is divided.
        reads: requests, bytes, hits and bounds; None if features are in memory. The block bound is
            the sharper one that counts a slot for every row, where few enough rows are planned.
        predicted: requests, bytes and seconds of the disk.
        choice: the chosen way of reading and the alternatives.
        replay: what packing the epoch takes if it is repeated, in words.
    """

    epoch: int
    batches: int
    total: int
    layout: Layout
    reads: PlanSummary | None
    predicted: PlanCost | None
    choice: Choice | None
    replay: str = ""

    def summary(self) -> str:
        """Returns a summary of the plan as text."""
        lines = [f"epoch {self.epoch}, {self.batches:,} of {self.total:,} batches"]
        lines.append(self.layout.summary())
        if self.reads is not None and self.predicted is not None:
            lines.append(self.reads.explain())
            lines.append(
                f"  predicted {self.predicted.seconds:.2f} s of reading, "
                f"{format_bytes(self.predicted.bytes)}"
            )
        if self.replay:
            lines.append(self.replay)
        return "\n".join(lines)

    def explain(self) -> str:
        """Returns the summary and the alternatives considered."""
        parts = [self.summary()]
        if self.choice is not None:
            parts.append(self.choice.explain())
        return "\n\n".join(parts)


def plan_epoch(disk: "OutOfCore", maker: BatchRecipe, epoch: int, batches: int | None) -> EpochPlan:
    """Samples and plans an epoch bulk by bulk; needs the memory of a loop without its cache."""
    total = len(maker.seeds)
    end = total if batches is None else min(total, batches)
    disk.decide(maker, epoch, 0)
    reads: PlanSummary | None = None
    cost: PlanCost | None = None
    if disk.layout.features == "disk" and end > 0:
        planner, rates = disk.new_planner(), disk.disk
        parts = [part for part in disk.layout.bulks(0, total) if part[0] < end]
        # one more bulk than is planned, if there is one: the last plan looks ahead to it
        every = islice(disk.layout.bulks(0, total), len(parts) + 1)
        bulks = bulks_with_lookahead(disk.sample(maker, epoch, *part)[0] for part in every)
        sharp = _SharpBound(disk.layout)
        for bulk, *later in islice(bulks, len(parts)):
            ahead = later[0] if later else ()
            plan = planner.plan(disk.rows(bulk), disk.rows(ahead))
            one, price = planner.announce(plan, rates)
            reads = one if reads is None else reads + one
            cost = price if cost is None else cost + price
            sharp.add(bulk)
        if reads is not None:
            reads = sharp.apply(reads, disk.geometry())
        end = sum(parts[-1])  # whole bulks
    again = "" if reads is None else disk.replayed(maker, reads.rows / max(1, end))
    return EpochPlan(epoch, end, total, disk.layout, reads, cost, disk.choice, again)


_SHARP_ROWS = 2 << 20  # more accesses would take more than about a second
_SHARP_BYTES = 64  # that the bound needs for an access, which the cache's share must have room for
_SHARP_ROUNDS = 6


class _SharpBound:
    """Collects the rows of bulks for the priced bound, as long as there are few enough."""

    def __init__(self, layout: Layout) -> None:
        self._slots = layout.num_slots
        self._left = min(_SHARP_ROWS, layout.shares["cache"] // _SHARP_BYTES)
        self._rows: list[npt.NDArray[np.uint32]] = []

    def add(self, bulk: Iterable[Any]) -> None:
        """The next bulk of the plan."""
        for sample in bulk:
            nodes = distinct_nodes(sample)
            self._left -= len(nodes)
            if self._left >= 0:
                self._rows.append(nodes.astype(np.uint32))

    def apply(self, reads: PlanSummary, geometry: _core.Geometry) -> PlanSummary:
        """The summary with the sharper of the two bounds."""
        if reads.block_bound < 0 or self._left < 0:
            return reads
        none = np.empty(0, np.uint32)
        found = _core.priced_bound(geometry, self._rows, self._slots, none, _SHARP_ROUNDS)
        return replace(reads, block_bound=max(found, reads.block_bound))


_SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)  # of all rows, in the cache
_CURVE_BULK = 16


class _WithRecipe(Protocol):
    """A Loader, as far as a curve needs it."""

    @property
    def _maker(self) -> BatchRecipe: ...


def epoch_curve(loader: _WithRecipe, batches: int) -> list[dict[str, Any]]:
    """Predicts the reads of the first batches of epoch 0 with caches of several sizes.

    Only the topology is read for this.

    Returns:
        For each size: memory (bytes), the number of sampled batches, mean blocks per batch, and the
        lower bound (-1: not known).

    Raises:
        InputError: the graph is not from a folder, or has no features.
    """
    maker = loader._maker
    file = FeatureFile.of(maker.graph)
    end = min(batches, len(maker.seeds))
    bulks = []
    for start in range(0, end, _CURVE_BULK):
        dealt = maker.deal(0, start, min(_CURVE_BULK, end - start))
        bulks.append(list(file.rows(map(distinct_nodes, maker.sample(dealt, 0, start)))))
    slots = sorted({max(1, int(file.num_rows * share)) for share in _SHARES})
    return [
        {
            "memory": point.memory,
            "batches": end,
            "blocks": point.summary.blocks / max(1, end),
            "bound": -1.0 if (bound := point.summary.block_bound) < 0 else bound / max(1, end),
        }
        for point in miss_curve(bulks, file.geometry(), slots)
    ]
