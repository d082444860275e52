"""disk: carries out plans on a feature file: reads ahead, fills the cache, yields batches.

What comes out equals the gather from memory bit for bit, whatever the plan, the backend, the depth
and the staging. Requests and bytes equal those of the plan. The memory is `memory_bytes`: slots,
staging and block checksums, allocated once; outputs are the caller's. Where the file has block
checksums, every block is compared with its own before a row of it goes anywhere; their table is
metadata, read once and in no plan.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.gather.feature_file import FeatureFile
from foregather.observe.disk import first_backend
from foregather.units import parse_size

if TYPE_CHECKING:
    import torch

__all__ = ["DEPTH", "STAGING", "DiskFeatures", "form_of", "whole_pages"]

Array = npt.NDArray[Any]

#: Requests in flight, and bytes to read ahead into, where the caller does not say.
DEPTH = 64
STAGING = 16 << 20
_PAGE = 4096


def form_of(file: FeatureFile, dtype: npt.DTypeLike | None) -> tuple[np.dtype[Any], str]:
    """The dtype of gathered rows, and how the core makes them from stored ones.

    Raises:
        InputError: the file does not give this dtype.
    """
    given = file.gathered_dtype if dtype is None else np.dtype(dtype)
    if given == file.gathered_dtype:
        return given, "stored" if file.scale is None else "scaled"
    if file.dtype == np.float16 and given == np.float32:
        return given, "half"
    raise InputError(
        f"dtype is {given}, but {file.name} gives {file.gathered_dtype}"
        f"{' or float32' if file.dtype == np.float16 else ''}"
    )


def whole_pages(size: str | int) -> int:
    """Bytes, rounded up to pages of 4096."""
    return -(-parse_size(size) // _PAGE) * _PAGE


class DiskFeatures:
    """The executor of plans on one feature file.

    Plans are appended as they are made, several may wait; `step` then gives batch after batch.
    Reading goes on by itself between two steps, over the borders of steps and plans, as far as
    staging has room. After an error it is closed: a batch is right or it does not come.

    Args:
        file: where the rows are.
        num_slots: rows the cache holds, in their stored dtype; the same as the planner's.
        staging: bytes for rows that were read and are not needed yet, for example "16MiB"; at
            least the largest request.
        backend: "io_uring", "pread" or "buffered"; None takes the first that works on this file.
        depth: requests in flight.
        dtype: of the output; None gives the stored dtype (float32 for int8 with a scale), float32
            converts float16 exactly.
        threads: for copying rows out of the cache; 0 uses all.
        faults: makes reads go wrong, for tests.

    Raises:
        InputError: an argument is out of range.
        StorageError: the file cannot be opened, or not in this way.
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
        faults: _core.Faults | None = None,
    ) -> None:
        self.file, self.num_slots = file, num_slots
        self.dtype, form = form_of(file, dtype)
        path = str(file.path)
        #: How the file is read.
        self.backend = backend or first_backend(_core.probe_reader(path)["backends"])
        self._core = _core.DiskGather(
            path,
            file.name,
            file.geometry(),
            num_slots,
            whole_pages(staging),
            self.backend,
            depth,
            form,
            self._scale(),
            threads,
            faults,
            sums=file.load_sums(),
        )

    def append(self, plan: _core.Plan) -> None:
        """Queues a plan; its reads begin at once.

        Raises:
            InputError: the plan is for another file or cache, or is not well formed.
            StorageError: the file was changed, truncated or replaced since it was opened.
        """
        self._core.append(plan)

    def step(self, out: "torch.Tensor | None" = None) -> "torch.Tensor":
        """The rows of the next batch.

        Args:
            out: where to write, contiguous on the CPU, [rows, width] of `dtype`; None makes a new
                tensor.

        Raises:
            InputError: no step is queued, or `out` does not fit; then nothing was changed.
            FormatError: a block that was read does not match its checksum; then this is closed.
            StorageError: a read failed, or the file is not what it was; then this is closed.
        """
        import torch

        rows = self._next_rows()
        if rows < 0:
            raise InputError("no step is queued; append a plan first")
        if out is None:
            kind = torch.from_numpy(np.empty(0, self.dtype)).dtype
            out = torch.empty((rows, self.file.width), dtype=kind)
        if tuple(out.shape) != (rows, self.file.width) or not out.is_contiguous():
            raise InputError(
                f"out has shape {list(out.shape)}, expected a contiguous tensor of shape "
                f"[{rows}, {self.file.width}]"
            )
        self.step_into(out.numpy())
        return out

    def step_into(self, out: Array) -> None:
        """The same into a NumPy array."""
        if out.dtype != self.dtype:
            raise InputError(f"out is {out.dtype}, expected {self.dtype}")
        self._core.step(out)

    @property
    def steps_left(self) -> int:
        """Steps that were appended and not yet carried out."""
        return self._core.steps_left

    @property
    def memory_bytes(self) -> int:
        """Bytes of the cache, of staging and of block checksums."""
        return self._core.memory_bytes + self.file.sums_bytes

    @property
    def pin_refusal(self) -> str:
        """Why staging is not pinned for io_uring; empty where it is."""
        return self._core.pin_refusal

    def counters(self) -> dict[str, Any]:
        """What was done so far.

        steps, rows, hits and riders (free riders kept) of finished steps; requests, bytes,
        submissions and retries of finished reads, those ahead included; seconds in step() in all,
        and of them waiting and copying.
        """
        return self._core.counters()

    def _next_rows(self) -> int:
        return self._core.next_rows

    def _scale(self) -> Array | None:
        return None if self.file.scale is None else np.ascontiguousarray(self.file.scale)

    def close(self) -> None:
        """Ends reading and frees the memory; a step that waits in another thread fails."""
        self._core.close()

    def __enter__(self) -> "DiskFeatures":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"DiskFeatures({self.file.num_rows:,} x {self.file.width} {self.file.dtype} on disk, "
            f"{self.num_slots:,} slots, {self.backend})"
        )
