"""repack: carries out repacked bulks: sweeps the feature file, then reads the scratch file.

A sweep runs where `sweep` is called, for instance in the thread that plans, while batches of the
bulk before it are read. What comes out equals the gather from memory bit for bit, and bytes read
and written are those of the plan. Blocks of both files are checked when they are read: those of a
scratch file against sums that were taken as it was written. Scratch files have no name: none is
ever left behind. Where there is no room for one, the bulk is read from the feature file row by row
instead.
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
from foregather.gather.disk import DEPTH, STAGING, Array, DiskFeatures, form_of, whole_pages
from foregather.gather.feature_file import FeatureFile
from foregather.observe.disk import first_backend
from foregather.plan.repack import Repacked

__all__ = ["SWEEP_STAGING", "WRITE_BYTES", "RepackFeatures", "Swept"]

#: Bytes for the rows a sweep has read, and for those it has not written yet.
SWEEP_STAGING = 8 << 20
WRITE_BYTES = 8 << 20

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)


@dataclass(frozen=True, eq=False)
class Swept:
    """A bulk that is ready to be read.

    Attributes:
        plan: over the scratch file, or by rows where there is none.
        scratch: the file; None where rows are read from the feature file.
    """

    plan: _core.Plan
    scratch: _core.ScratchFile | None


@dataclass(frozen=True, eq=False)
class _Reading:
    """A bulk that is being read."""

    core: _core.DiskGather
    scratch: _core.ScratchFile | None


class RepackFeatures(DiskFeatures):
    """The executor of repacked bulks on one feature file.

    `sweep` a bulk, `append` what it gives, and `step` through its batches; the next bulk may be
    swept and appended meanwhile.

    Args:
        file: where the rows are.
        num_slots: rows the cache holds; the same as the planner's.
        staging: bytes to read ahead into, of two bulks together.
        sweep_staging: bytes to read ahead into while sweeping.
        write_bytes: bytes for rows that wait to be written.
        backend: how the feature file is read; None takes the first that works.
        depth: requests in flight.
        dtype: of the output, as in `DiskFeatures`.
        threads: for copying rows out of the cache; 0 uses all.
        folder: where scratch files are made; None is the folder of the feature file.
        faults: makes reads of the feature file go wrong, for tests.
        write_faults: makes writes of the scratch file go wrong, for tests.
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
        faults: _core.Faults | None = None,
        write_faults: _core.Faults | None = None,
    ) -> None:
        self.file, self.num_slots = file, num_slots
        self.dtype, self._form = form_of(file, dtype)
        path, self._folder = str(file.path), absolute(folder or file.path.parent)
        #: How the feature file is read, and how the scratch file is.
        self.backend = backend or first_backend(_core.probe_reader(path)["backends"])
        self.scratch_backend = self.backend if folder is None else None
        self._depth, self._threads, self._faults = depth, threads, faults
        self._staging = whole_pages(staging) // 2 // 4096 * 4096
        self._memory = num_slots * file.row_bytes + 2 * self._staging + sweep_staging + write_bytes
        self._memory += file.sums_bytes
        self._sums = file.load_sums()
        self._slots = _core.Slots(num_slots * file.row_bytes)
        self._sweeper = _core.Sweeper(
            path,
            file.name,
            file.geometry(),
            whole_pages(sweep_staging),
            write_bytes,
            self.backend,
            depth,
            faults,
            write_faults,
            self._sums,
        )
        #: Bulks that found no room for a scratch file, and why the last one did not.
        self.refused, self.refusal = 0, ""
        self._lock = threading.Lock()  # of what follows
        self._readings: deque[_Reading] = deque()
        self._finished: dict[str, Any] = {}
        self._closed = False

    def sweep(self, made: Repacked) -> Swept:
        """Sweeps a bulk into a scratch file; where there is no room for one, goes without.

        Raises:
            StorageError: a read or a write failed, the feature file is not what it was, or
                `cancel` was called.
        """
        if made.repack is None:
            return Swept(made.rows, None)
        try:
            scratch = self._sweeper.sweep(made.repack, str(self._folder))
        except StorageError as error:
            if error.errno not in _NO_ROOM:
                raise
            self.refused, self.refusal = self.refused + 1, str(error)
            return Swept(made.rows, None)
        return Swept(made.repack.scratch, scratch)

    def append(self, plan: "_core.Plan | Swept") -> None:
        """Queues a bulk; its reads begin at once. Bulks come in the order of their plans."""
        if not isinstance(plan, Swept):
            raise InputError("a plan was given to an executor of repacked bulks; sweep it first")
        self._check_open()
        if len(plan.plan) == 0:
            return
        path, name, backend = str(self.file.path), self.file.name, self.backend
        if plan.scratch is not None:
            path, name, backend = plan.scratch.path, "the scratch file", self._scratch_way()
        core = _core.DiskGather(
            path,
            name,
            plan.plan.geometry,
            self.num_slots,
            self._staging,
            backend,
            self._depth,
            self._form,
            self._scale(),
            self._threads,
            self._faults if plan.scratch is None else None,
            self._slots,
            self._sums if plan.scratch is None else plan.scratch.sums,
        )
        core.append(plan.plan)
        with self._lock:
            self._readings.append(_Reading(core, plan.scratch))

    def step_into(self, out: Array) -> None:
        """The rows of the next batch into a NumPy array."""
        if out.dtype != self.dtype:
            raise InputError(f"out is {out.dtype}, expected {self.dtype}")
        reading = self._current()
        if reading is None:
            raise InputError("no step is queued; append a swept bulk first")
        reading.core.step(out)

    @property
    def steps_left(self) -> int:
        """Steps that were appended and not yet carried out."""
        return sum(reading.core.steps_left for reading in list(self._readings))

    @property
    def memory_bytes(self) -> int:
        """Bytes of the cache, of staging, of what waits to be written and of block checksums.

        Those of scratch files come on top: a thousandth of the rows that wait in them.
        """
        return self._memory

    @property
    def pin_refusal(self) -> str:
        """Why staging is not pinned for io_uring; empty where it is, or nothing is read."""
        return next((reading.core.pin_refusal for reading in list(self._readings)), "")

    def counters(self) -> dict[str, Any]:
        """What was done so far, as in `DiskFeatures`; requests and bytes are read by both halves.

        Beside that: `sweeps`, `moves` (rows written), `writes` and `written` (bytes) of finished
        sweeps with the seconds they took (`sweeping`), and bulks that were `refused` a scratch
        file.
        """
        with self._lock:
            facts = dict(self._finished)
            for reading in self._readings:
                _add(facts, reading.core.counters())
        swept = self._sweeper.counters()
        seconds = swept.pop("seconds")
        _add(facts, swept)
        return facts | {"sweeping": seconds, "refused": self.refused}

    def cancel(self) -> None:
        """Ends a sweep that runs in another thread; nothing can be swept after it."""
        self._sweeper.cancel()

    def close(self) -> None:
        """Ends reading and sweeping and frees the memory and the scratch files."""
        self._closed = True
        self.cancel()
        while True:
            with self._lock:
                if not self._readings:
                    break
                reading = self._readings[0]
            self._retire(reading)
        self._slots = _core.Slots(0)

    def _next_rows(self) -> int:
        reading = self._current()
        return -1 if reading is None else reading.core.next_rows

    def _current(self) -> _Reading | None:
        """The bulk whose batch comes next; those that are over give their scratch file back."""
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
        if self.scratch_backend is None:
            found = _core.probe_reader(str(self._folder))["backends"]
            self.scratch_backend = first_backend(found)
        return self.scratch_backend

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"the gather from {self.file.name} is closed")


def _add(total: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value
