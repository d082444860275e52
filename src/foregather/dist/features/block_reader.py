"""block_reader: reads a rank's feature block from its own disk; a round is a step of its plan.

While one round crosses the next ones are read. What is read, and what stays in the cache, the plan
says (`block_plan`); the executor below is that of a Loader on one machine.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.dist.features.block_plan import BlockPlan, Rows, local_rows
from foregather.dist.features.memory_split import DiskShare
from foregather.errors import InputError
from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.gather.feature_reader import output_of
from foregather.units import format_bytes

if TYPE_CHECKING:
    import torch

__all__ = ["FeatureBlockReader"]

Array = npt.NDArray[Any]


class FeatureBlockReader:
    """The rows of one block, read round by round.

    Args:
        file: the rows of the block, and no others.
        first_row: id of its first row.
        share: memory for cache and reading.
        room: maximum rows per round.
        threads: threads to use for copies.
    """

    def __init__(
        self, file: FeatureFile, first_row: int, share: DiskShare, room: int, threads: int
    ) -> None:
        self.file, self.first_row, self.share = file.stored(), first_row, share
        self.scale, self.threads = file.scale, threads
        #: What plans announced so far.
        self.announced = {"requests": 0, "bytes": 0, "blocks": 0}
        self._read = np.empty((room, file.width), file.dtype)
        self._held: Rows = np.empty(0, np.uint32)
        self._rows: Array = self._read[:0]
        self._rounds: deque[Rows] = deque()
        self._disk: DiskFeatures | None = None
        self._block_bytes = 0

    @property
    def memory_bytes(self) -> int:
        """Bytes of cache, staging, checksums and the rows of a round."""
        reading = self.share.staging + self._read.nbytes + self.file.sums_bytes
        return self.share.slots * self.file.row_bytes + reading

    @property
    def steps_left(self) -> int:
        """Rounds that were appended and not yet read."""
        return len(self._rounds)

    def append(self, plan: BlockPlan) -> None:
        """Queues the rounds of a bulk and begins to read.

        Raises:
            StorageError: the file cannot be opened, or is not what it was.
        """
        if plan.core is not None:
            if self._disk is None:
                slots, staging = self.share.slots, self.share.staging
                options: dict[str, Any] = {"depth": plan.depth, "threads": self.threads}
                self._disk = DiskFeatures(self.file, slots, staging=staging, **options)
            self._block_bytes = plan.core.geometry.block_bytes
            self._disk.append(plan.core)
        for name, count in plan.announced.items():
            self.announced[name] += count
        self._rounds.extend(plan.rounds)

    def step(self, out: "torch.Tensor | None" = None) -> "torch.Tensor":
        """Waits for the rows of the next round, ascending; those of the last one are gone.

        Args:
            out: where to write; None uses the memory of this reader, until the next step.

        Raises:
            InputError: no round is queued, or `out` does not fit.
            FormatError: a block that was read does not match its checksum.
            StorageError: a read failed, or the file is not what it was.
        """
        import torch

        if not self._rounds:
            raise InputError("no step is queued; append a plan first")
        count = len(self._rounds[0])
        if out is None:
            out = torch.from_numpy(self._read[:count])
        else:
            out = output_of(out, count, self.file.width, self.file.dtype)
        self._held, self._rows = self._rounds.popleft(), out.numpy()
        if count:
            assert self._disk is not None
            self._disk.step_into(self._rows)
        return out

    def take(self, ids: Array) -> Array:
        """Rows of this round by their ids, as they are stored."""
        return self._rows[np.searchsorted(self._held, local_rows(ids, self.first_row))]

    def counters(self) -> dict[str, Any]:
        """Read counters, see `DiskFeatures.counters`, and the totals of the plans."""
        found = {} if self._disk is None else self._disk.counters()
        planned = {f"planned_{name}": count for name, count in self.announced.items()}
        return {**found, **planned}

    def explain(self) -> list[str]:
        """Says where the block is, how it is read, and compares what was read with the plan."""
        line = (
            f"own block: on disk, {self.file.num_rows} rows of {self.file.name} with a cache of "
            f"{self.share.slots} rows"
        )
        if self._disk is None:
            return [line]
        counts = self.counters()
        return [
            f"{line}, {self._disk.backend} in blocks of {format_bytes(self._block_bytes)}",
            f"disk: {format_bytes(counts['bytes'])} read in {counts['requests']} requests; "
            f"{format_bytes(counts['planned_bytes'])} planned in {counts['planned_requests']}",
        ]

    def close(self) -> None:
        """Stops reading and frees the cache."""
        if self._disk is not None:
            self._disk.close()
