"""feature_reader: what executors on a feature file have in common: outputs, and their checks."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.gather.feature_file import FeatureFile
from foregather.graph.integrity.blocks import BlockSums
from foregather.observe.disk import first_backend

if TYPE_CHECKING:
    import torch
    from typing_extensions import Self

__all__ = ["FeatureReader", "output_of"]

Array = npt.NDArray[Any]


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


def output_of(
    out: "torch.Tensor | None", rows: int, width: int, dtype: np.dtype[Any]
) -> "torch.Tensor":
    """Where a step writes: `out` if it fits, a new tensor if there is none.

    Raises:
        InputError: `out` is not contiguous, or has another shape or dtype.
    """
    if out is None:
        import torch

        # by NumPy, which asks for huge pages: a sixteenth of the page faults of torch's own memory
        return torch.from_numpy(np.empty((rows, width), dtype))
    if tuple(out.shape) != (rows, width) or not out.is_contiguous():
        raise InputError(
            f"out has shape {list(out.shape)}, expected a contiguous tensor of shape "
            f"[{rows}, {width}]"
        )
    found: np.dtype[Any] = out.numpy().dtype
    if found != dtype:
        raise InputError(f"out is {found}, expected {dtype}")
    return out


class FeatureReader(ABC):
    """The rows of one feature file, step by step, through a cache of `num_slots` rows.

    Args:
        file: where the rows are.
        num_slots: rows the cache holds.
        backend: how the file is read; None takes the first way that works.
        depth: requests in flight.
        dtype: of the rows that come out.
        threads: for copying rows out of the cache; 0 uses all.
    """

    def __init__(
        self,
        file: FeatureFile,
        num_slots: int,
        backend: str | None,
        depth: int,
        dtype: npt.DTypeLike | None,
        threads: int,
    ) -> None:
        self.file, self.num_slots = file, num_slots
        self.dtype, self._form = form_of(file, dtype)
        #: How the file is read.
        self.backend = backend or first_backend(_core.probe_reader(str(file.path))["backends"])
        self._depth, self._threads = depth, threads
        self._scale = None if file.scale is None else np.ascontiguousarray(file.scale)

    def _open(
        self,
        path: str,
        name: str,
        geometry: _core.Geometry,
        staging: int,
        backend: str,
        sums: BlockSums | None,
        slots: _core.Slots | None = None,
    ) -> _core.DiskGather:
        """What carries out plans on a file in the core; with slots of its own unless given."""
        return _core.DiskGather(
            path,
            name,
            geometry,
            self.num_slots,
            staging,
            backend,
            self._depth,
            self._form,
            self._scale,
            self._threads,
            slots=slots,
            sums=sums,
        )

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
        rows = self._next_rows()
        if rows < 0:
            raise InputError("no step is queued; append a plan first")
        out = output_of(out, rows, self.file.width, self.dtype)
        self.step_into(out.numpy())
        return out

    @abstractmethod
    def step_into(self, out: Array) -> None:
        """The same into a NumPy array."""

    @abstractmethod
    def _next_rows(self) -> int:
        """Rows of the next step, -1 where none is queued."""

    def _check_dtype(self, out: Array) -> None:
        if out.dtype != self.dtype:
            raise InputError(f"out is {out.dtype}, expected {self.dtype}")

    @abstractmethod
    def close(self) -> None:
        """Ends reading and frees the memory; a step that waits in another thread fails."""

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.file.num_rows:,} x {self.file.width} {self.file.dtype} "
            f"on disk, {self.num_slots:,} slots, {self.backend})"
        )
