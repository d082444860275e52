"""array_ranges: ranges of an array file, read by plan: sorted, merged, many in flight, checked.

The requests of a call are known before the first is made: pages of ranges that lie close together
are one request, and long ones are cut. A window of them is read while the one before is copied.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import StorageError
from foregather.graph.graph import Graph
from foregather.graph.integrity.blocks import array_sums
from foregather.graph.on_disk.meta import read_meta
from foregather.graph.on_disk.npy import ALIGN, file_bytes
from foregather.observe.buffer import aligned_buffer

__all__ = ["ArrayRanges", "RangePlan", "plan_ranges"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]

_REQUEST = 256 << 10  # bytes: a disk gains nothing beyond


@dataclass(frozen=True, eq=False)
class RangePlan:
    """The requests for ranges of a file, in its order.

    Attributes:
        offset: int64: first byte of each request, a multiple of 4096.
        length: int64: its bytes.
        place: int64 [requests + 1]: where its bytes are if all requests lie one behind the other.
        where: int64: where each range begins among them.
    """

    offset: Int
    length: Int
    place: Int
    where: Int


def plan_ranges(start: Int, stop: Int, gap: int, size: int) -> RangePlan:
    """Plans the requests for the bytes [start, stop) of a file of `size` bytes.

    Args:
        start: ascending.
        stop: ascending and above `start`; ranges may share pages, not bytes.
        gap: unneeded bytes that are read through rather than making another request.
        size: of the file, padded to whole pages.
    """
    low, high = start // ALIGN * ALIGN, np.minimum(-(-stop // ALIGN) * ALIGN, size)
    begins = np.ones(len(low), bool)
    begins[1:] = low[1:] > high[:-1] + gap
    first = np.flatnonzero(begins)
    run = np.cumsum(begins) - 1
    run_low = low[first]
    last = np.append(first[1:], len(low)) - 1
    run_bytes = high[last] - run_low if len(first) else np.empty(0, np.int64)
    before = np.cumsum(run_bytes) - run_bytes
    pieces = -(-run_bytes // _REQUEST)
    owner = np.repeat(np.arange(len(first)), pieces)
    part = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    offset = run_low[owner] + part * _REQUEST
    length = np.minimum(run_bytes[owner] - part * _REQUEST, _REQUEST)
    place = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    return RangePlan(offset, length, place, before[run] + start - run_low[run])


class ArrayRanges:
    """Reads ranges of one array of a graph folder.

    Args:
        graph: a graph opened from a folder.
        name: the array, of one dimension.
        backend: how to read, as in `DiskTopology`.
        depth: reads in flight.
        gap: unneeded bytes that are read through.
        staging: bytes of the two buffers together; windows are half of it.
    """

    def __init__(
        self, graph: Graph, name: str, backend: str, depth: int, gap: int, staging: int
    ) -> None:
        assert graph.path is not None
        entry = read_meta(graph.path).arrays[name]
        self.name, self._path = entry.file, graph.path / entry.file
        self._gap, self._size = gap, file_bytes(entry.nbytes)
        self._identity = self._now()
        sums = array_sums(graph, name)
        self.sums_bytes = 0 if sums is None else 4 * -(-entry.nbytes // ALIGN)
        self._reader = _core.BlockReader(str(self._path), backend, depth, self.name, sums)
        self._window = max(_REQUEST, staging // 2 // ALIGN * ALIGN)
        self._buffers = [aligned_buffer(self._window) for _ in range(2)]
        self._thread = ThreadPoolExecutor(1, f"reads {self.name}")
        self.planned_requests = self.planned_bytes = 0

    def read(self, start: Int, count: Int, dtype: np.dtype[Any]) -> Array:
        """The elements [start, start + count) of each range, one range behind the other.

        Args:
            start: ascending; ranges do not overlap.
            count: elements of each.
            dtype: of an element.

        Raises:
            StorageError: the file cannot be read, or is another than when it was opened.
            FormatError: a block does not match its checksum.
        """
        some = count > 0
        start, count = start[some], count[some]
        made = np.empty(int(count.sum()), dtype)
        if not len(start):
            return made
        self._check_unchanged()
        width = dtype.itemsize
        begin = ALIGN + start * width
        plan = plan_ranges(begin, begin + count * width, self._gap, self._size)
        self.planned_requests += len(plan.offset)
        self.planned_bytes += int(plan.place[-1])
        out = np.cumsum(count) - count
        for low, high, window in self._windows(plan):
            _copy(made, out, plan.where, count * width, low, high, window)
        self._check_unchanged()
        return made

    def _windows(self, plan: RangePlan) -> Iterator[tuple[int, int, Array]]:
        """Reads window after window: the places of its first and its last byte, and the bytes."""
        waiting: tuple[int, int, Array, Future[None]] | None = None
        first = turn = 0
        while first < len(plan.offset):
            most = int(plan.place[first]) + self._window
            last = int(np.searchsorted(plan.place, most, "right")) - 1
            low, high = int(plan.place[first]), int(plan.place[last])
            buffer = self._buffers[turn % 2]
            destination = plan.place[first:last] - low
            asked = (plan.offset[first:last], plan.length[first:last], destination, buffer)
            coming = self._thread.submit(self._reader.read, *asked)
            if waiting is not None:
                yield self._arrived(waiting)
            waiting = (low, high, buffer, coming)
            first, turn = last, turn + 1
        if waiting is not None:
            yield self._arrived(waiting)

    @staticmethod
    def _arrived(waiting: tuple[int, int, Array, Future[None]]) -> tuple[int, int, Array]:
        low, high, buffer, coming = waiting
        coming.result()
        return low, high, buffer

    def counters(self) -> dict[str, Any]:
        """Requests, bytes, retries and seconds of the reader."""
        return dict(self._reader.counters())

    def close(self) -> None:
        """Waits for the read that is on, and ends the thread."""
        self._thread.shutdown()

    def _now(self) -> tuple[int, ...]:
        try:
            facts = os.stat(self._path)
        except OSError as error:
            raise StorageError(f"cannot open {self.name}: {error.strerror}") from error
        return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns

    def _check_unchanged(self) -> None:
        if self._now() != self._identity:
            raise StorageError(
                f"{self.name} was replaced or written to since it was opened; "
                "open the topology again"
            )


def _copy(
    made: Array, out: Int, where: Int, nbytes: Int, low: int, high: int, window: Array
) -> None:
    """Copies what a window has of each range to its place.

    Args:
        made: the elements of all ranges.
        out: where each range begins in it.
        where: where its bytes begin among those of all requests.
        nbytes: its bytes.
        low: the place of the window's first byte among those of all requests.
        high: that of its last byte, and one.
        window: its bytes.
    """
    width = made.dtype.itemsize
    first = int(np.searchsorted(where + nbytes, low, "right"))
    last = int(np.searchsorted(where, high, "left"))
    where, nbytes, out = where[first:last], nbytes[first:last], out[first:last]
    begin, end = np.maximum(where, low), np.minimum(where + nbytes, high)
    count = (end - begin) // width
    total = int(count.sum())
    source = np.arange(total) + np.repeat((begin - low) // width - np.cumsum(count) + count, count)
    to = int(out[0] + (begin[0] - where[0]) // width)  # ranges lie one behind the other there
    made[to : to + total] = window[: high - low].view(made.dtype)[source]
