"""store: feature rows of a folder by id, within a memory budget, without a plan.

Every call is planned (`plan.call_planner`) and carried out (`gather.disk`) at once.

A `Store` equals `features[ids]` bit for bit. It caches rows that are requested again (SIEVE) and
reads the rest in sorted, merged, aligned blocks; its memory is fixed, however many rows the file
has. If batches are known in advance, a plan needs fewer reads: use the Loader.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.errors import BudgetError, InputError
from foregather.gather.disk import DEPTH, DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.gather.memory import row_ids
from foregather.graph.graph import Graph
from foregather.observe.calibration import load_calibration
from foregather.plan.call_planner import SLOT_BYTES, CallPlanner
from foregather.units import format_bytes, parse_size

if TYPE_CHECKING:
    import torch

__all__ = ["Store", "least_share", "most_share", "open_store", "open_stores"]

Array = npt.NDArray[Any]

_PAGE = 4096
_GAP = 16 << 10  # read rather than skip, if the disk was not measured
_MOST_REQUEST = 256 << 10
_MOST_STAGING = 16 << 20


class Store:
    """Rows of one feature file by id, through a cache of fixed size.

    Made by `open_store`. Several threads may call it; their calls are serialised.

    Attributes:
        file: the feature file.
        num_slots: rows the cache holds.
    """

    def __init__(
        self,
        file: FeatureFile,
        memory: int,
        *,
        backend: str | None = None,
        depth: int = DEPTH,
        gap: int = _GAP,
        dtype: npt.DTypeLike | None = None,
        threads: int = 0,
    ) -> None:
        self.file = file
        staging, self.num_slots = _shares(file, memory)
        geometry = file.geometry()
        most = min(_MOST_REQUEST, staging)
        self._planner = CallPlanner(geometry, self.num_slots, gap, most)
        self._disk = DiskFeatures(
            file,
            self.num_slots,
            staging=staging,
            backend=backend,
            depth=depth,
            dtype=dtype,
            threads=threads,
        )
        self._lock = threading.Lock()

    @property
    def shape(self) -> tuple[int, int]:
        """[rows, width]."""
        return self.file.num_rows, self.file.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the returned rows."""
        return self._disk.dtype

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return self.file.width

    @property
    def scale(self) -> None:
        """None is left to apply: rows come out as the numbers they stand for."""

    @property
    def by_plan(self) -> None:
        """No plan is needed: each call makes its own."""

    @property
    def in_memory(self) -> None:
        """Only what is cached is in memory."""

    def take(self, ids: npt.NDArray[np.int64]) -> Array:
        """The same as `store[ids]`."""
        return self[ids]

    def part(self, first: int, last: int) -> "Store":
        """All of it: other rows take no memory."""
        return self

    @property
    def backend(self) -> str:
        """The backend that reads the file."""
        return self._disk.backend

    @property
    def memory_bytes(self) -> int:
        """Bytes of cache, staging, tables and block checksums; at most the budget."""
        return self._disk.memory_bytes + self._planner.memory_bytes

    def __len__(self) -> int:
        return self.file.num_rows

    def __getitem__(self, ids: Any) -> Array:
        """Returns rows as an array: a slice, or a list, array or tensor of ids.

        Raises:
            InputError: an id is not a whole number from 0 to num_rows - 1.
            StorageError: a read failed, or the file changed; then it is closed.
        """
        if isinstance(ids, slice):
            ids = np.arange(*ids.indices(self.file.num_rows), dtype=np.int64)
        rows = row_ids(ids, self.file.num_rows)
        out = np.empty((rows.size, self.file.width), self.dtype)
        self._fill(rows, out)
        return out

    def gather(self, ids: Any, out: "torch.Tensor | None" = None) -> "torch.Tensor":
        """Copies rows into a tensor [len(ids), width]; `out` as in `foregather.gather.memory`.

        Raises:
            InputError: an id is out of range, or `out` does not fit.
            StorageError: a read failed, or the file changed; then it is closed.
        """
        import torch

        rows = row_ids(ids, self.file.num_rows)
        if out is None:
            return torch.from_numpy(self[rows])
        if tuple(out.shape) != (rows.size, self.file.width) or not out.is_contiguous():
            raise InputError(
                f"out has shape {list(out.shape)}, expected a contiguous tensor of shape "
                f"[{rows.size}, {self.file.width}]"
            )
        into = out.numpy()
        if into.dtype != self.dtype:
            raise InputError(f"out is {into.dtype}, expected {self.dtype}")
        self._fill(rows, into)
        return out

    def _fill(self, rows: Array, out: Array) -> None:
        with self._lock:
            plan, inverse = self._planner.plan(self.file.rows_of(rows))
            self._disk.append(plan)
            if inverse is None:
                self._disk.step_into(out)
                return
            distinct = np.empty((int(plan.num_rows[0]), self.file.width), self.dtype)
            self._disk.step_into(distinct)
        np.take(distinct, inverse, axis=0, out=out, mode="clip")  # in range: no second buffer

    def counters(self) -> dict[str, Any]:
        """As `DiskFeatures.counters`; a step is a call, and a repeated id counts once."""
        return self._disk.counters()

    def close(self) -> None:
        """Stops reading and frees the memory."""
        self._disk.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        rows, width = self.shape
        held = format_bytes(self.memory_bytes)
        return f"Store({rows:,} x {width} {self.dtype} on disk, {held} in memory, {self.backend})"


def open_store(graph: Graph, memory: str | int, which: str = "features", **options: Any) -> Store:
    """Opens the features of a graph folder for reading by id.

    Args:
        graph: opened from a folder.
        memory: bytes for cache, staging and tables, for example "1GB". Returned rows belong to the
            caller.
        which: "features" or "edge_features".
        options: `backend`, `depth`, `dtype` and `threads` of `DiskFeatures`, and `gap`: bytes that
            are read rather than skipped between two rows (None takes the break-even of the disk
            if `foregather doctor` has measured it).

    Raises:
        InputError: the graph has no such features, or is not from a folder.
        BudgetError: `memory` is below the minimum, which the message states.
        StorageError: the file cannot be opened.
    """
    return open_stores(graph, memory, (which,), **options)[which]


def open_stores(
    graph: Graph,
    memory: str | int,
    which: Sequence[str] = ("features", "edge_features"),
    split: Mapping[str, float] | None = None,
    **options: Any,
) -> dict[str, Store]:
    """Opens several features of a graph folder under one budget.

    Args:
        graph: opened from a folder.
        memory: bytes for all of them.
        which: names of features.
        split: the share of each, any positive numbers; None gives each a share in proportion to the
            bytes of its rows, so that each caches about as many rows. Memory that a small file
            cannot use goes to the others.
        options: as in `open_store`.

    Raises:
        InputError: as `open_store`, or `split` does not name the same features.
        BudgetError: `memory` is below the minimum, which the message states.
        StorageError: a file cannot be opened.
    """
    files = {name: FeatureFile.of(graph, name) for name in which}
    weights = {name: float(file.row_bytes) for name, file in files.items()}
    if split is not None:
        weights = {name: float(share) for name, share in split.items()}
        if set(weights) != set(files) or not all(share > 0 for share in weights.values()):
            raise InputError(
                f"split is {dict(split)}, expected one positive share for each of {sorted(files)}"
            )
    shares = _divide(files, weights, parse_size(memory))
    if options.get("gap") is None:
        assert graph.path is not None  # checked by FeatureFile.of
        measured = load_calibration(graph.path)
        options["gap"] = _GAP if measured is None else measured.break_even_bytes
    opened: dict[str, Store] = {}
    try:
        for name, file in files.items():
            opened[name] = Store(file, shares[name], **options)
    except BaseException:
        for store in opened.values():
            store.close()
        raise
    return opened


# ---- shares ----------------------------------------------------------------------------------


def least_share(file: FeatureFile) -> int:
    """Staging that fits any row (it may start anywhere in a block), checksums and one slot."""
    return -(-file.row_bytes // _PAGE) * _PAGE + _PAGE + _slot_bytes(file) + _held(file)


def _held(file: FeatureFile) -> int:
    """Bytes of the checksums, and of the places of rows that are in an order."""
    return file.sums_bytes + file.places_bytes


def _slot_bytes(file: FeatureFile) -> int:
    return file.row_bytes + SLOT_BYTES


def most_share(file: FeatureFile) -> int:
    """The most memory that is useful: every row in the cache."""
    return _MOST_STAGING + file.num_rows * _slot_bytes(file) + least_share(file)


def _divide(
    files: Mapping[str, FeatureFile], weights: Mapping[str, float], memory: int
) -> dict[str, int]:
    """Divides the budget: each file gets at least its minimum and at most what it can use."""
    least = {name: least_share(file) for name, file in files.items()}
    if memory < sum(least.values()):
        raise BudgetError(
            f"the memory is {format_bytes(memory)}, but {', '.join(files)} need at least "
            f"{sum(least.values())} bytes"
        )
    shares = dict(least)
    rest = memory - sum(least.values())
    open_names = set(files)
    while rest > 0 and open_names:
        total = sum(weights[name] for name in open_names)
        full = set()
        given = 0
        for name in sorted(open_names):
            part = int(rest * weights[name] / total)
            room = most_share(files[name]) - shares[name]
            if part >= room:
                part = room
                full.add(name)
            shares[name] += part
            given += part
        rest -= given
        if not full:
            break
        open_names -= full
    return shares


def _shares(file: FeatureFile, memory: int) -> tuple[int, int]:
    """Returns bytes of staging (an eighth, at most 16 MiB) and the number of slots."""
    if memory < least_share(file):
        raise BudgetError(
            f"the memory is {memory} bytes, but {file.name} needs at least {least_share(file)}"
        )
    least = -(-file.row_bytes // _PAGE) * _PAGE + _PAGE
    memory -= _held(file)
    staging = max(least, min(_MOST_STAGING, memory // 8) // _PAGE * _PAGE)
    return staging, min(file.num_rows, (memory - staging) // _slot_bytes(file))
