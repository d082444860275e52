"""room: divides the budget of a sweep and computes its minimum; pure functions.

Half of the free budget is for the current part, since every part may need all rows; the rest is the
cache. The minimum is exact: with it a sweep runs, with one byte less it is refused before anything
starts.
"""

from dataclasses import dataclass

from foregather import _core
from foregather.gather.disk import DEPTH
from foregather.loader.memory.division import (
    BULKS,
    HEAP_PART,
    PLAN_BYTES,
    PLANS_SHARE,
    STAGING_PART,
    WORK_SHARE,
    CacheNeed,
    planned_steps,
    staging_bytes,
)
from foregather.train.exact.deal import Cost

__all__ = ["Room", "SweepNeed"]

_MOST_BULK = 8
_SHAPE = 4  # bytes that a part holds per node or edge before its rows are gathered


@dataclass(frozen=True)
class Room:
    """The division of a budget.

    Attributes:
        work: what a part may cost.
        bulk: parts planned together; 0 if no rows are read from disk.
        slots: rows of the cache.
        staging: bytes to read ahead into.
        depth: requests in flight.
    """

    work: float
    bulk: int = 0
    slots: int = 0
    staging: int = 0
    depth: int = DEPTH


@dataclass(frozen=True)
class SweepNeed:
    """What a sweep needs.

    Attributes:
        cost: of a part.
        least_work: the cost of the largest part that cannot be made smaller.
        all_work: the cost of one part with everything.
        held: bytes independent of the parts: degrees, or all feature rows.
        geometry: layout of the file that rows are read from; None if they are in memory.
    """

    cost: Cost
    least_work: float
    all_work: float
    held: int
    geometry: "_core.Geometry | None" = None

    @property
    def least(self) -> int:
        """The minimum budget."""
        return int(self._spent(self.least_work, 1, 1, self._staging(0))) + 1

    def divide(self, memory: int) -> Room | None:
        """Divides the budget; None if it is below the minimum."""
        if memory < self.least:
            return None
        memory = max(self.least, memory - memory // HEAP_PART)
        if self.geometry is None:
            return Room(max(self.least_work, min(self.all_work, float(memory - self.held))))
        staging = self._staging(memory // STAGING_PART)
        if self._spent(self.least_work, 1, 1, staging) > memory:
            staging = self._staging(0)
        free = memory - self.held - staging
        work = max(self.least_work, min(self.all_work, free * WORK_SHARE))
        while self._spent(work, 1, 1, staging) > memory:
            work = max(self.least_work, work * 0.9)
        bulk = 1
        while bulk < _MOST_BULK and self._plans(work, bulk + 1) <= free * PLANS_SHARE:
            bulk += 1
        while bulk > 1 and self._spent(work, bulk, 1, staging) > memory:
            bulk -= 1
        room = memory - self._beside(work, bulk, staging)
        return Room(work, bulk, max(1, self._cache(work, bulk).slots(room)), staging)

    def _staging(self, wanted: int) -> int:
        assert self.geometry is not None or wanted == 0
        if self.geometry is None:
            return 0
        return staging_bytes(self.geometry.row_bytes, wanted)

    def _plans(self, work: float, bulk: int) -> float:
        rows, edges = self._sizes(work)
        return BULKS * bulk * (rows * (PLAN_BYTES + _SHAPE) + edges * _SHAPE)

    def _sizes(self, work: float) -> tuple[int, int]:
        """The most rows and edges of a part."""
        assert self.geometry is not None
        rows = min(self.geometry.num_rows, int(work / self.cost.row) + 1)
        return rows, int(work / self.cost.edge) + 1

    def _cache(self, work: float, bulk: int) -> CacheNeed:
        assert self.geometry is not None
        steps = planned_steps(bulk)
        rows, _ = self._sizes(work)
        return CacheNeed(self.geometry, self.geometry.row_bytes, steps * rows, steps)

    def _beside(self, work: float, bulk: int, staging: int) -> float:
        """All but the cache."""
        return self.held + work + staging + self._plans(work, bulk)

    def _spent(self, work: float, bulk: int, slots: int, staging: int) -> float:
        if self.geometry is None:
            return self.held + work
        return self._beside(work, bulk, staging) + self._cache(work, bulk).bytes(slots)
