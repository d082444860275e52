"""block_reader: reads a rank's feature block from its own disk, by plan: a round is a step.

Once the requests of a bulk are in, a rank knows which rows of its block are wanted in which round,
by itself and by its column. The rows of a round are read in ascending order, merged, each block
once; rows that are wanted again soonest stay in a cache (the planner and the executor are those of
a Loader on one machine), and while one round crosses the next ones are read.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.features.memory_split import DiskShare
from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.observe.calibration import load_calibration
from foregather.plan import Choice, choose
from foregather.plan.planner import Planner

__all__ = ["OwnDisk"]

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.uint32]


class OwnDisk:
    """The rows of one block, read round by round.

    Args:
        file: the rows of the block, and no others.
        first_row: id of its first row.
        share: memory for cache and reading.
        room: rows of a round at most.
        threads: threads to use for copies.
    """

    def __init__(
        self, file: FeatureFile, first_row: int, share: DiskShare, room: int, threads: int
    ) -> None:
        self.file, self.first_row, self.share = file.stored(), first_row, share
        self.scale, self.threads = file.scale, threads
        #: How blocks are read and why; None before the first rows are wanted.
        self.choice: Choice | None = None
        #: What plans announced so far.
        self.announced = {"requests": 0, "bytes": 0, "blocks": 0}
        self._read = np.empty((room, file.width), file.dtype)
        self._held: Rows = np.empty(0, np.uint32)
        self._rounds: deque[Rows] = deque()
        self._planner: Planner | None = None
        self._disk: DiskFeatures | None = None

    @property
    def memory_bytes(self) -> int:
        """Bytes of cache, staging, checksums, the rows of a round, and the planner's tables."""
        slots = self.share.slots
        tables = _core.planner_bytes(self.file.geometry(), slots, 0, 0)
        reading = self.share.staging + self._read.nbytes + self.file.sums_bytes
        return slots * self.file.row_bytes + reading + int(tables)

    def plan(self, rounds: Sequence[Array], later: Sequence[Array]) -> None:
        """Plans the rounds of a bulk and begins to read.

        Args:
            rounds: for each round, ids of rows of this block; repeats are read once.
            later: ids that are wanted after that, as far as they are known.
        """
        rows = [self._local(np.unique(ids)) for ids in rounds]
        self._rounds.extend(rows)
        if self._planner is None or self._disk is None:
            if not any(len(ids) for ids in rows):
                return
            self._planner, self._disk = self._open(rows)
        plan = self._planner.plan(
            [ids for ids in rows if len(ids)], [self._local(ids) for ids in later]
        )
        counts = plan.counts()
        for name in self.announced:
            self.announced[name] += counts[name]
        self._disk.append(plan)

    def _open(self, rows: list[Rows]) -> tuple[Planner, DiskFeatures]:
        """Chooses how to read, by planning the first bulk in every way."""
        geometry, slots = self.file.geometry(), self.share.slots
        calibration = load_calibration(self.file.path.parent)
        self.choice = choose([rows], geometry, slots, calibration, repack=False)
        best = self.choice.best
        planner = Planner(
            self.file.geometry(best.block_bytes),
            slots,
            merge_gap=best.merge_gap,
            bounds=False,
            pages=best.caching == "page",
        )
        options: dict[str, Any] = {"depth": best.depth, "threads": self.threads}
        return planner, DiskFeatures(self.file, slots, staging=self.share.staging, **options)

    def read(self) -> None:
        """Waits for the rows of the next round; those of the last one are gone."""
        self._held = self._rounds.popleft()
        if len(self._held):
            assert self._disk is not None
            self._disk.step_into(self._read[: len(self._held)])

    def take(self, ids: Array) -> Array:
        """Rows of this round by their ids, as they are stored."""
        return self._read[np.searchsorted(self._held, self._local(ids))]

    def _local(self, ids: Array) -> Rows:
        return (ids.astype(np.int64) - self.first_row).astype(np.uint32)

    def counters(self) -> dict[str, Any]:
        """What was read so far, see `DiskFeatures.counters`, and what plans announced."""
        found = {} if self._disk is None else self._disk.counters()
        planned = {f"planned_{name}": count for name, count in self.announced.items()}
        return {**found, **planned}

    @property
    def backend(self) -> str:
        """How the file is read; empty before the first rows are wanted."""
        return "" if self._disk is None else self._disk.backend

    def close(self) -> None:
        """Ends reading and frees the cache."""
        if self._disk is not None:
            self._disk.close()
