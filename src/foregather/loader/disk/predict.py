"""predict: predicts the cost of an epoch for a storage mode by planning some of its batches.

Feature reads are planned but not made; neighbour lists on disk are actually read for those batches.
Disk seconds come from the disk's calibration, those of sampling and planning are measured. Both are
added up, although they overlap in a run: what overlaps is not known before.
"""

import time
from dataclasses import dataclass

from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.disk.out_of_core import OutOfCore
from foregather.loader.lookahead import bulks_with_lookahead
from foregather.observe.calibration import Calibration, load_calibration
from foregather.plan.candidate import Candidate
from foregather.plan.cost import ASSUMED_DISK, PlanCost
from foregather.sampling.bulk import Bulk

__all__ = ["EpochCost", "disk_of", "predict", "sampling_seconds"]

_NOTHING = PlanCost(0, 0, 0.0)


@dataclass(frozen=True, kw_only=True)
class EpochCost(Candidate):
    """What an epoch is predicted to cost; `seconds`, which decide, are the sum of the two parts.

    Attributes:
        disk: seconds of the disk.
        work: seconds of sampling and planning, measured with some batches.
    """

    disk: float = 0.0
    work: float = 0.0


def disk_of(maker: BatchRecipe) -> Calibration:
    """The calibration of the disk that holds a graph."""
    path = maker.graph.path
    return (None if path is None else load_calibration(path)) or ASSUMED_DISK


def predict(disk: OutOfCore, maker: BatchRecipe, batches: int | None) -> EpochCost:
    """Plans the first `batches` of epoch 0 (None: all) and says what the epoch will cost.

    The cache is empty at first, so if batches are left out, the second half of the planned ones
    represents the rest.
    """
    total = len(maker.seeds)
    end = total if batches is None else min(total, batches)
    whole = batches is None or batches >= total
    step = disk.layout.bulk if whole else max(1, min(disk.layout.bulk, -(-end // 2)))
    disk.decide(maker, 0, 0)
    read = _ListReads(disk, disk_of(maker))
    planner = disk.new_planner() if disk.layout.features == "disk" else None
    costs: list[PlanCost] = []
    work = _Work()
    even = ((start, step) for start in range(0, end, step))
    parts = disk.layout.bulks(0, end) if whole else even
    bulks = (_sample(disk, maker, start, count, work) for start, count in parts)
    for bulk, *later in bulks_with_lookahead(bulks):
        cost = read.since()
        if planner is not None:
            begin = time.perf_counter()
            plan = planner.plan(disk.rows(bulk), disk.rows(later[0] if later else ()))
            work.planned(begin, len(bulk))
            cost += planner.announce(plan, disk.disk)[1]
        costs.append(cost)
    cost, memory = _epoch(costs, step, end, total), sum(disk.layout.shares.values())
    return EpochCost(
        seconds=cost.seconds + work.each * total,
        bytes=cost.bytes,
        requests=cost.requests,
        memory=memory,
        disk=cost.seconds,
        work=work.each * total,
    )


class _Work:
    """Seconds that a batch is sampled and planned in: the least of all bulks.

    The least, since what else the machine does must not decide.
    """

    def __init__(self) -> None:
        self._sampling, self._planning = float("inf"), float("inf")

    @property
    def each(self) -> float:
        """Of a batch."""
        return sum(one for one in (self._sampling, self._planning) if one < float("inf"))

    def sampled(self, begin: float, batches: int) -> None:
        """A bulk was sampled from `begin` to now."""
        self._sampling = min(self._sampling, (time.perf_counter() - begin) / max(1, batches))

    def planned(self, begin: float, batches: int) -> None:
        """A bulk was planned from `begin` to now."""
        self._planning = min(self._planning, (time.perf_counter() - begin) / max(1, batches))


def sampling_seconds(maker: BatchRecipe, batches: int | None) -> float:
    """Seconds in which an epoch is sampled in memory, from its first batches; None: from all."""
    total, work = len(maker.seeds), _Work()
    end = total if batches is None else min(total, batches)
    step = max(1, min(8, end // 2))
    for start in range(0, end, step):
        begin, count = time.perf_counter(), min(step, end - start)
        maker.sample(maker.deal(0, start, count), 0, start)
        work.sampled(begin, count)
    return work.each * total


def _sample(disk: OutOfCore, maker: BatchRecipe, start: int, count: int, work: _Work) -> Bulk:
    begin = time.perf_counter()
    bulk = maker.sample(maker.deal(0, start, count), 0, start, disk.topology)
    work.sampled(begin, len(bulk))
    return bulk


def _epoch(costs: list[PlanCost], step: int, end: int, total: int) -> PlanCost:
    """Extrapolates to the epoch: the planned part, and the rest like its second half."""
    known = sum(costs, _NOTHING)
    if end >= total or not costs:
        return known
    cold = len(costs) // 2
    warm = sum(costs[cold:], _NOTHING)
    factor = (total - end) / max(1, end - cold * step)
    return known + PlanCost(
        int(warm.requests * factor), int(warm.bytes * factor), warm.seconds * factor
    )


class _ListReads:
    """Counts what sampling reads from neighbour lists on disk."""

    def __init__(self, disk: OutOfCore, rates: Calibration) -> None:
        self._topology, self._rates = disk.topology, rates
        self._before = self._now()

    def _now(self) -> tuple[int, int]:
        if self._topology is None:
            return 0, 0
        counters = self._topology.counters()
        return int(counters["requests"]), int(counters["bytes"])

    def since(self) -> PlanCost:
        """Returns the counts since the last call."""
        now = self._now()
        requests, count = (new - old for new, old in zip(now, self._before, strict=True))
        self._before = now
        if requests == 0:
            return PlanCost(0, count, 0.0)
        seconds = self._rates.seconds(requests, max(1, count // requests))
        return PlanCost(requests, count, seconds)
