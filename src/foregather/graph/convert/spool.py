"""spool: sorts more records than memory holds, by buckets, in one scratch file.

Records are appended in any order. Whenever the run buffer is full it is grouped by key range and
written as one contiguous run. `groups` then yields the records back as key ranges in ascending
order; each range is complete, within the limit, in insertion order, and read once from every run. A
range above the limit is split by a nested spool, and a single key above it is split by the second
key, so that skew costs passes, never memory.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import BudgetError
from foregather.graph.on_disk.files import discard, read_at, storage_error, write_all
from foregather.units import format_bytes

__all__ = ["Group", "Spool"]

Array = npt.NDArray[Any]
_MOST_BUCKETS = 4096


class Group(NamedTuple):
    """All records with low <= key < high (or, for one huge key, a part of them: `partial`)."""

    low: int
    high: int
    records: Array
    partial: bool = False


class _Run(NamedTuple):
    start: int  # byte position in the scratch file
    shift: int
    offsets: npt.NDArray[np.int64]  # record positions of its buckets


class Spool:
    """External bucket sort of structured records.

    Args:
        path: scratch file; removed by `close`.
        dtype: structured dtype of a record; fields named in `keys` are uint32 or uint64.
        run_bytes: memory of the run buffer; twice that is used while a run is written.
        keys: field to sort by, and optionally the field to cut by where one key is too large.
        base: smallest key that can occur.
        threads: threads of the grouping kernel, 0 for all.
    """

    def __init__(
        self,
        path: Path,
        dtype: np.dtype[Any],
        run_bytes: int,
        keys: tuple[str, ...],
        base: int = 0,
        threads: int = 0,
    ) -> None:
        self.path, self.dtype, self.keys, self.base, self.threads = path, dtype, keys, base, threads
        self.count = 0
        self._room = max(1, run_bytes // dtype.itemsize)
        # Both are allocated once and reused for every run: untouched memory costs nothing, and the
        # first touch of memory is expensive in a virtual machine.
        try:
            self._buffer: Array = np.empty(self._room, dtype)
            self._grouped: Array = np.empty(self._room, dtype)
        except MemoryError as error:  # for example under an address-space limit
            raise BudgetError(
                f"cannot allocate {format_bytes(2 * self._room * dtype.itemsize)} for sorting; "
                "pass a smaller --memory"
            ) from error
        self._filled = 0
        self._runs: list[_Run] = []
        self._end = 0
        try:
            self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 - closed in close()
        except OSError as error:
            raise storage_error(error, path, "making") from error

    def append(self, records: Array) -> None:
        """Adds records; they may be written now or later."""
        self.count += len(records)
        while len(records):
            taken = records[: len(self._buffer) - self._filled]
            _copy(taken, self._buffer[self._filled : self._filled + len(taken)])
            self._filled += len(taken)
            records = records[len(taken) :]
            if self._filled == self._room:
                self._flush()

    def _flush(self) -> None:
        if self._filled == 0:
            return
        records = self._buffer[: self._filled]
        key = self.dtype.fields[self.keys[0]]  # type: ignore[index]
        span = int(records[self.keys[0]].max()) - self.base
        shift = max(0, span.bit_length() - _MOST_BUCKETS.bit_length() + 1)
        offsets = np.empty((span >> shift) + 2, np.int64)
        grouped = self._grouped[: self._filled]
        _core.partition_records(
            records.view(np.uint8),
            self.dtype.itemsize,
            int(key[1]),
            key[0].itemsize,
            self.base,
            shift,
            offsets,
            grouped.view(np.uint8),
            self.threads,
        )
        self._runs.append(_Run(self._end, shift, offsets))
        self._end += write_all(self._file, grouped, self.path)
        self._filled = 0

    def groups(self, limit_bytes: int) -> Iterator[Group]:
        """Yields key ranges of at most `limit_bytes` of records each, ascending.

        Nothing can be appended after the first call; a second one reads everything again.
        """
        self._flush()
        self._buffer = self._grouped = np.empty(0, self.dtype)
        if not self._runs:
            return
        shift = max(run.shift for run in self._runs)
        sizes = self._sizes(shift)
        limit = max(1, limit_bytes // self.dtype.itemsize)
        bucket = 0
        while bucket < len(sizes):
            end, total = bucket + 1, int(sizes[bucket])
            while end < len(sizes) and total + int(sizes[end]) <= limit:
                total += int(sizes[end])
                end += 1
            low, high = self.base + (bucket << shift), self.base + (end << shift)
            if total > limit:
                yield from self._split(bucket, shift, limit_bytes)
            elif total:
                yield Group(low, high, self._load(bucket, end, shift, total))
            bucket = end

    def _sizes(self, shift: int) -> npt.NDArray[np.int64]:
        widest = max((len(r.offsets) - 2) >> (shift - r.shift) for r in self._runs) + 1
        sizes = np.zeros(widest, np.int64)
        for run in self._runs:
            counts = np.diff(run.offsets)
            np.add.at(sizes, np.arange(len(counts)) >> (shift - run.shift), counts)
        return sizes

    def _extents(self, bucket: int, end: int, shift: int) -> Iterator[tuple[int, int]]:
        for run in self._runs:
            finer, last = shift - run.shift, len(run.offsets) - 1
            first = int(run.offsets[min(bucket << finer, last)])
            count = int(run.offsets[min(end << finer, last)]) - first
            if count:
                yield run.start + first * self.dtype.itemsize, count

    def _load(self, bucket: int, end: int, shift: int, total: int) -> Array:
        records = np.empty(total, self.dtype)
        filled = 0
        for position, count in self._extents(bucket, end, shift):
            read_at(self._file.fileno(), records[filled : filled + count], position, self.path)
            filled += count
        return records

    def _split(self, bucket: int, shift: int, limit_bytes: int) -> Iterator[Group]:
        """Splits one bucket that is too large, by finer ranges or by the second key."""
        low = self.base + (bucket << shift)
        piece = max(1, limit_bytes // (4 * self.dtype.itemsize))
        if shift == 0 and len(self.keys) == 1:
            for part in self._pieces(bucket, shift, piece):
                yield Group(low, low + 1, part, partial=True)
            return
        keys, base = (self.keys, low) if shift else (self.keys[1:], 0)
        finer = Spool(
            self.path.with_name(self.path.name + "+"),
            self.dtype,
            limit_bytes // 4,
            keys,
            base,
            self.threads,
        )
        try:
            for part in self._pieces(bucket, shift, piece):
                finer.append(part)
            for group in finer.groups(limit_bytes):
                yield group if shift else Group(low, low + 1, group.records, partial=True)
        finally:
            finer.close()

    def _pieces(self, bucket: int, shift: int, most: int) -> Iterator[Array]:
        for position, count in self._extents(bucket, bucket + 1, shift):
            for start in range(0, count, most):
                records = np.empty(min(most, count - start), self.dtype)
                at = position + start * self.dtype.itemsize
                read_at(self._file.fileno(), records, at, self.path)
                yield records

    def close(self) -> None:
        """Closes and removes the scratch file, and frees the memory."""
        self._buffer = self._grouped = np.empty(0, self.dtype)
        discard(self._file, self.path)


def _copy(records: Array, into: Array) -> None:
    """Copies records as bytes; NumPy would copy them field by field, several times slower."""
    into.view(np.uint8)[:] = np.ascontiguousarray(records).view(np.uint8)
