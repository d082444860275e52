"""block_plan: what a rank reads of its own block on disk for a bulk, round by round.

Once the requests of a bulk are in, a rank knows which rows of its block are wanted in which round,
by itself and by its column. The rows of a round are read in ascending order, merged, each block
once; rows that are wanted again soonest stay in a cache. The planner is that of a Loader on one
machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.gather.feature_file import FeatureFile
from foregather.observe.calibration import load_calibration
from foregather.plan import Choice, choose
from foregather.plan.planner import Planner

__all__ = ["BlockPlan", "BlockPlanner"]

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """The reads of one bulk.

    Attributes:
        rounds: for each round its rows of the block, ascending, from 0 on.
        core: the plan of the rounds that have rows; None where none had any so far.
        depth: requests in flight.
    """

    rounds: list[Rows]
    core: _core.Plan | None
    depth: int

    @property
    def announced(self) -> dict[str, int]:
        """Requests, bytes and blocks that are read."""
        counts = {} if self.core is None else self.core.counts()
        return {name: int(counts.get(name, 0)) for name in ("requests", "bytes", "blocks")}


class BlockPlanner:
    """Plans the reads of one block, bulk after bulk.

    Args:
        file: the rows of the block, and no others.
        first_row: id of its first row.
        num_slots: rows the cache holds.
    """

    def __init__(self, file: FeatureFile, first_row: int, num_slots: int) -> None:
        self.file, self.first_row, self.num_slots = file.stored(), first_row, num_slots
        #: How blocks are read and why; None before the first rows are wanted.
        self.choice: Choice | None = None
        self._planner: Planner | None = None

    @property
    def memory_bytes(self) -> int:
        """Bytes of the tables."""
        return int(_core.planner_bytes(self.file.geometry(), self.num_slots, 0, 0))

    def plan(self, rounds: Sequence[Array], later: Sequence[Array] = ()) -> BlockPlan:
        """The plan of a bulk.

        Args:
            rounds: for each round, ids of rows of this block; repeats are read once.
            later: ids that are wanted after that, as far as they are known.
        """
        rows = [local_rows(np.unique(ids), self.first_row) for ids in rounds]
        wanted = [ids for ids in rows if len(ids)]
        if self._planner is None:
            if not wanted:
                return BlockPlan(rows, None, 1)
            self._planner = self._choose(rows)
        assert self.choice is not None
        core = self._planner.plan(wanted, [local_rows(ids, self.first_row) for ids in later])
        return BlockPlan(rows, core, self.choice.best.depth)

    def _choose(self, rows: list[Rows]) -> Planner:
        """Chooses how to read, by planning the first bulk in every way."""
        calibration = load_calibration(self.file.path.parent)
        geometry, slots = self.file.geometry(), self.num_slots
        self.choice = choose([rows], geometry, slots, calibration, repack=False)
        best = self.choice.best
        return Planner(
            self.file.geometry(best.block_bytes),
            slots,
            merge_gap=best.merge_gap,
            bounds=False,
            pages=best.caching == "page",
        )


def local_rows(ids: Array, first_row: int) -> Rows:
    """Ids as rows of a block."""
    return (ids.astype(np.int64) - first_row).astype(np.uint32)
