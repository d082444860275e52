"""column_plan: the plan of a bulk once the requests of the column are known: rounds, and reads.

What a rank asks for it plans alone (`fetch_plan`). When the requests of its column are in, the
rounds follow from them, the same on all ranks, and so does what it reads of its own block; nothing
is decided after that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.features.block_plan import BlockPlan, BlockPlanner
from foregather.dist.features.fetch_plan import (
    FetchPlan,
    FetchPlanner,
    Round,
    cut_rounds,
    in_round,
    row_geometry,
)

__all__ = ["Asked", "ColumnPlan", "ColumnPlanner"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Asked:
    """The request of one rank of the column.

    Attributes:
        most: for each of its steps, the misses of the owner that has most.
        counts: for each of its steps, rows it wants of this rank.
        ids: of those rows, by step.
    """

    most: Int
    counts: Int
    ids: Array

    def wanted(self, this: Round) -> Array:
        """Ids that it wants of this rank in a round."""
        begin = int(self.counts[: this.first].sum()) + this.skip
        return self.ids[begin : begin + int(in_round(self.counts, this).sum())]


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """All that a rank does for a bulk.

    Attributes:
        fetch: what it fetches and keeps.
        asked: by place, what its column asked for.
        rounds: the reply collectives.
        own: what it reads of its own block, a step a round; None where that is in memory.
    """

    fetch: FetchPlan
    asked: Sequence[Asked]
    rounds: Sequence[Round]
    own: BlockPlan | None

    @property
    def steps(self) -> int:
        """Minibatches of this rank."""
        return self.fetch.steps


class ColumnPlanner:
    """Plans the bulks of one rank: first what it asks for, then how rows cross.

    Args:
        fetch: plans what it asks for.
        staging: rows of one peer that there is room for.
        own: plans the reads of the own block, where it is on disk.
    """

    #: How rows cross, in explanations.
    manner = "by plan"

    def __init__(self, fetch: FetchPlanner, staging: int, own: BlockPlanner | None = None) -> None:
        self.fetch, self.staging, self.own = fetch, staging, own

    @property
    def num_slots(self) -> int:
        """Rows of others that the cache holds."""
        return self.fetch.num_slots

    @property
    def memory_bytes(self) -> int:
        """Bytes of the planners' tables."""
        geometry = row_geometry(int(self.fetch.row_starts[-1]))
        own = 0 if self.own is None else self.own.memory_bytes
        return int(_core.planner_bytes(geometry, self.fetch.num_slots, 0, 0)) + own

    def plan(self, batches: Iterable[Any], ahead: Iterable[Any] = ()) -> FetchPlan:
        """What a bulk asks of the column; see `FetchPlanner.plan`."""
        return self.fetch.plan(batches, ahead)

    def complete(self, plan: FetchPlan, asked: Sequence[Asked]) -> ColumnPlan:
        """The whole plan, given what all ranks of the column asked for."""
        rounds = cut_rounds([one.most for one in asked], self.staging)
        own = None
        if self.own is not None:
            none = np.empty(0, np.uint32)
            wanted = [
                np.concatenate([none, *plan.local_of(this), *(one.wanted(this) for one in asked)])
                for this in rounds
            ]
            own = self.own.plan(wanted, plan.local_ahead)
        return ColumnPlan(plan, asked, rounds, own)
