"""disk: executes plans on a feature file: reads ahead, fills the cache, returns batches.

The result equals the gather from memory bit for bit, whatever the plan, backend, depth and staging.
Requests and bytes equal those of the plan. The memory is `memory_bytes`: slots, staging and block
checksums, allocated once; outputs belong to the caller. If the file has block checksums, every
block is compared with its own before any of its rows is used; the table is metadata, read once and
not part of any plan.
"""

from typing import Any

import numpy.typing as npt

from foregather import _core
from foregather.gather.feature_file import FeatureFile
from foregather.gather.feature_reader import Array, FeatureReader
from foregather.units import parse_size

__all__ = ["DEPTH", "STAGING", "DiskFeatures", "whole_pages"]

#: Default number of requests in flight, and bytes to read ahead into.
DEPTH = 64
STAGING = 16 << 20
_PAGE = 4096


def whole_pages(size: str | int) -> int:
    """Bytes, rounded up to pages of 4096."""
    return -(-parse_size(size) // _PAGE) * _PAGE


class DiskFeatures(FeatureReader):
    """The executor of plans on one feature file.

    Plans are appended as they are made, several may be queued; `step` then returns batch after
    batch. Reading continues between steps, across steps and plans, as far as staging has room.
    After an error the object is closed: a batch is correct or it is not returned.

    Args:
        file: the feature file.
        num_slots: rows the cache holds, in their stored dtype; the same as the planner's.
        staging: bytes for rows that were read and are not needed yet, for example "16MiB"; at
            least the largest request.
        backend: "io_uring", "pread" or "buffered"; None takes the first that works on this file.
        depth: requests in flight.
        dtype: of the output; None gives the stored dtype (float32 for int8 with a scale), float32
            converts float16 exactly.
        threads: for copying rows out of the cache; 0 uses all.

    Raises:
        InputError: an argument is out of range.
        StorageError: the file cannot be opened with this backend.
    """

    def __init__(
        self,
        file: FeatureFile,
        num_slots: int,
        *,
        staging: str | int = STAGING,
        backend: str | None = None,
        depth: int = DEPTH,
        dtype: npt.DTypeLike | None = None,
        threads: int = 0,
    ) -> None:
        super().__init__(file, num_slots, backend, depth, dtype, threads)
        self._core = self._open(
            str(file.path),
            file.name,
            file.geometry(),
            whole_pages(staging),
            self.backend,
            file.load_sums(),
        )

    def prepare(self, plan: _core.Plan) -> _core.Plan:
        """The plan as it is: nothing has to happen before its turn."""
        return plan

    def append(self, plan: _core.Plan) -> None:
        """Queues a plan; its reads start at once.

        Raises:
            InputError: the plan is for another file or cache, or is not well formed.
            StorageError: the file was changed, truncated or replaced since it was opened.
        """
        self._core.append(plan)

    def step_into(self, out: Array) -> None:
        """The rows of the next batch into a NumPy array."""
        self._check_dtype(out)
        self._core.step(out)

    @property
    def steps_left(self) -> int:
        """Number of queued steps."""
        return self._core.steps_left

    @property
    def memory_bytes(self) -> int:
        """Bytes of the cache, of staging and of block checksums."""
        return self._core.memory_bytes + self.file.sums_bytes

    @property
    def pin_refusal(self) -> str:
        """Why staging is not pinned for io_uring; empty if it is."""
        return self._core.pin_refusal

    def counters(self) -> dict[str, Any]:
        """Returns the counters so far.

        They are steps, rows, hits and riders (free riders kept) of finished steps; requests, bytes,
        submissions and retries of finished reads, including those ahead; total seconds in step(),
        and the parts spent waiting and copying.
        """
        return self._core.counters()

    def _next_rows(self) -> int:
        return self._core.next_rows

    def explain(self) -> list[str]:
        """Nothing in addition to the counters."""
        return []

    def cancel(self) -> None:
        """Nothing to end: plans need no work before their turn."""

    def close(self) -> None:
        """Stops reading and frees the memory; a step waiting in another thread fails."""
        self._core.close()
