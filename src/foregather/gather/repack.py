"""repack: executes repacked bulks: sweeps the feature file, then reads the scratch file.

A sweep runs where `prepare` is called, for instance in the thread that plans, while batches of the
previous bulk are read. The result equals the gather from memory bit for bit, and bytes read and
written equal those of the plan. Blocks of both files are checked when they are read: those of a
scratch file against sums computed as it was written. Scratch files have no name, so none is ever
left behind. If there is no room for one, the bulk is read from the feature file row by row instead.
"""

import errno
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError, StorageError
from foregather.files import absolute
from foregather.gather.disk import DEPTH, STAGING, whole_pages
from foregather.gather.feature_file import FeatureFile
from foregather.gather.feature_reader import Array, FeatureReader
from foregather.observe.disk import first_backend
from foregather.observe.trace import span
from foregather.plan.cost import WRITE_BYTES
from foregather.plan.repack import Repacked

__all__ = ["SWEEP_STAGING", "WRITE_BYTES", "RepackFeatures"]

#: Bytes for rows that a sweep has read.
SWEEP_STAGING = 8 << 20

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)


@dataclass(frozen=True, eq=False)
class _Reading:
    """A bulk that is being read."""

    core: _core.DiskGather
    scratch: _core.ScratchFile | None


class RepackFeatures(FeatureReader):
    """The executor of repacked bulks on one feature file.

    `append` a bulk and `step` through its batches; the next bulk may be swept and appended
    meanwhile. `prepare` sweeps a bulk before it is appended, in a thread that has the time.

    Args:
        file: the feature file.
        num_slots: rows the cache holds; the same as the planner's.
        staging: bytes to read ahead into, for two bulks together.
        sweep_staging: bytes to read ahead into while sweeping.
        write_bytes: bytes for rows waiting to be written.
        backend: how the feature file is read; None takes the first that works.
        depth: requests in flight.
        dtype: of the output, as in `DiskFeatures`.
        threads: for copying rows out of the cache; 0 uses all.
        folder: where scratch files are made; None is the folder of the feature file.
    """

    def __init__(
        self,
        file: FeatureFile,
        num_slots: int,
        *,
        staging: str | int = STAGING,
        sweep_staging: int = SWEEP_STAGING,
        write_bytes: int = WRITE_BYTES,
        backend: str | None = None,
        depth: int = DEPTH,
        dtype: npt.DTypeLike | None = None,
        threads: int = 0,
        folder: Path | None = None,
    ) -> None:
        super().__init__(file, num_slots, backend, depth, dtype, threads)
        self._folder = absolute(folder or file.path.parent)
        self._scratch_backend = self.backend if folder is None else None
        self._staging = whole_pages(staging) // 2 // 4096 * 4096
        self._memory = num_slots * file.row_bytes + 2 * self._staging + sweep_staging + write_bytes
        self._memory += file.sums_bytes
        self._sums = file.load_sums()
        self._slots = _core.Slots(num_slots * file.row_bytes)
        self._sweeper = self._open_sweeper(whole_pages(sweep_staging), write_bytes)
        self._swept: dict[Repacked, _core.ScratchFile] = {}  # and not yet appended
        #: Bulks without room for a scratch file, and the reason for the last one.
        self.refused, self.refusal = 0, ""
        self._lock = threading.Lock()  # of what follows
        self._readings: deque[_Reading] = deque()
        self._finished: dict[str, Any] = {}
        self._closed = False

    def _open_sweeper(self, staging: int, write_bytes: int) -> _core.Sweeper:
        """What sweeps in the core."""
        file = self.file
        return _core.Sweeper(
            str(file.path),
            file.name,
            file.geometry(),
            staging,
            write_bytes,
            self.backend,
            self._depth,
            sums=self._sums,
        )

    def prepare(self, plan: Repacked) -> Repacked:
        """Sweeps a bulk into a scratch file, or does without one if there is no room.

        Returns:
            The plan, or its half by rows where there is no room.

        Raises:
            StorageError: a read or a write failed, the feature file changed, or `cancel` was
                called.
        """
        if plan.repack is None or plan in self._swept:
            return plan
        try:
            with span("sweep"):
                self._swept[plan] = self._sweeper.sweep(plan.repack, str(self._folder))
        except StorageError as error:
            if error.errno not in _NO_ROOM:
                raise
            self.refused, self.refusal = self.refused + 1, str(error)
            return Repacked(plan.rows, None)
        return plan

    def sweep(self, plan: Repacked) -> Repacked:
        """The same, by its name."""
        return self.prepare(plan)

    def append(self, plan: Repacked) -> None:
        """Queues a bulk; its reads start at once. Bulks must come in the order of their plans.

        Raises:
            InputError: the plan is not that of a `RepackPlanner`, or for another file or cache.
            StorageError: as `prepare`, which is done here where it was not.
        """
        if not isinstance(plan, Repacked):
            raise InputError(
                f"a {type(plan).__name__} was given to an executor of repacked bulks, expected "
                "what a RepackPlanner plans"
            )
        self._check_open()
        if len(plan.rows) == 0:
            return
        plan = self.prepare(plan)
        scratch = self._swept.pop(plan, None)
        if plan.repack is None or scratch is None:
            core = self._reading_of(plan.rows)
        else:
            core = self._reading_of(plan.repack.scratch, scratch)
        with self._lock:
            self._readings.append(_Reading(core, scratch))

    def _reading_of(
        self, plan: _core.Plan, scratch: _core.ScratchFile | None = None
    ) -> _core.DiskGather:
        """Begins to read a bulk, from its scratch file or from the feature file."""
        where, sums = (str(self.file.path), self.file.name), self._sums
        backend = self.backend
        if scratch is not None:
            where, sums = (scratch.path, "the scratch file"), scratch.sums
            backend = self._scratch_way()
        core = self._open(*where, plan.geometry, self._staging, backend, sums, self._slots)
        core.append(plan)
        return core

    def step_into(self, out: Array) -> None:
        """Writes the rows of the next batch into a NumPy array."""
        self._check_dtype(out)
        reading = self._current()
        if reading is None:
            raise InputError("no step is queued; append a plan first")
        reading.core.step(out)

    @property
    def steps_left(self) -> int:
        """Number of queued steps."""
        return sum(reading.core.steps_left for reading in list(self._readings))

    @property
    def memory_bytes(self) -> int:
        """Bytes of the cache, staging, write buffers and block checksums.

        Checksums of scratch files come on top: a thousandth of the rows in them.
        """
        return self._memory

    @property
    def pin_refusal(self) -> str:
        """Why staging is not pinned for io_uring; empty if it is, or if nothing is read."""
        return next((reading.core.pin_refusal for reading in list(self._readings)), "")

    def counters(self) -> dict[str, Any]:
        """Returns the counters as in `DiskFeatures`, with requests and bytes of both halves.

        In addition: `sweeps`, `moves` (rows written), `writes` and `written` (bytes) of finished
        sweeps with their seconds (`sweeping`), and bulks that were `refused` a scratch file.
        """
        with self._lock:
            facts = dict(self._finished)
            for reading in self._readings:
                _add(facts, reading.core.counters())
        swept = self._sweeper.counters()
        seconds = swept.pop("seconds")
        _add(facts, swept)
        return facts | {"sweeping": seconds, "refused": self.refused}

    def explain(self) -> list[str]:
        """Whether bulks found no room, and why."""
        if not self.refused:
            return []
        return [f"{self.refused} bulks were read row by row: {self.refusal}"]

    def cancel(self) -> None:
        """Ends a sweep running in another thread; no more sweeps are possible."""
        self._sweeper.cancel()

    def close(self) -> None:
        """Stops reading and sweeping, and frees the memory and the scratch files."""
        self._closed = True
        self.cancel()
        while True:
            with self._lock:
                if not self._readings:
                    break
                reading = self._readings[0]
            self._retire(reading)
        self._swept.clear()
        self._slots = _core.Slots(0)

    def _next_rows(self) -> int:
        reading = self._current()
        return -1 if reading is None else reading.core.next_rows

    def _current(self) -> _Reading | None:
        """Returns the bulk of the next batch; finished bulks free their scratch file."""
        self._check_open()
        while self._readings and self._readings[0].core.steps_left == 0:
            self._retire(self._readings[0])
        return self._readings[0] if self._readings else None

    def _retire(self, reading: _Reading) -> None:
        reading.core.close()
        with self._lock:
            _add(self._finished, reading.core.counters())
            self._readings.remove(reading)

    def _scratch_way(self) -> str:
        if self._scratch_backend is None:
            found = _core.probe_reader(str(self._folder))["backends"]
            self._scratch_backend = first_backend(found)
        return self._scratch_backend

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"the gather from {self.file.name} is closed")


def _add(total: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value
