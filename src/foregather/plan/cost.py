"""cost: predicts how long a plan's reads take on a disk, from its calibration.

Seconds of the disk are those with enough requests in flight: the cost of a request is interpolated
from the calibration by its size, so bytes below break-even are free and requests are not. A core
then checks what was read and copies rows, to batches and to the cache: those bytes are counted
apart, as a disk reads on meanwhile, but they are not free where blocks bring much that nobody
asked for. For a disk that was never measured, figures of an average cloud disk are used, and every
text says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.observe.calibration import BlockRate, Calibration

__all__ = [
    "ASSUMED_DISK",
    "PlanCost",
    "best_depth",
    "WRITE_BYTES",
    "plan_cost",
    "repack_cost",
    "request_seconds",
    "run_writes",
    "slowed",
]

#: The figures assumed for a disk that was never measured with `foregather doctor`.
ASSUMED_DISK = Calibration(
    device="assumed",
    filesystem="",
    backend="io_uring",
    alignment=4096,
    date="",
    file_bytes=1 << 30,
    rates=(
        BlockRate(4 << 10, 100_000.0, 64),
        BlockRate(16 << 10, 90_000.0, 64),
        BlockRate(64 << 10, 38_000.0, 32),
        BlockRate(256 << 10, 10_000.0, 16),
        BlockRate(1 << 20, 2_600.0, 8),
    ),
    latency=120e-6,
    sequential_read=2.6e9,
    sequential_write=1.0e9,
    notes=("assumed, not measured; run foregather doctor",),
)


_PAGE = 4096
_LONGEST = 1 << 20  # of a request, as of all plans
_PIECE = (2, 256)  # pages of the buffer of a run

#: Bytes of the buffers through which a sweep writes, if nothing else was said.
WRITE_BYTES = 8 << 20


@dataclass(frozen=True)
class PlanCost:
    """The cost of a way of reading, predicted from a plan or measured by an executor.

    Attributes:
        requests: reads (and writes, of a repacked bulk).
        bytes: bytes read and written.
        seconds: of the disk.
        copying: seconds in which a core checks and copies what was read; not of the disk.
    """

    requests: int
    bytes: int
    seconds: float
    copying: float = 0.0

    def __add__(self, other: "PlanCost") -> "PlanCost":
        return PlanCost(
            self.requests + other.requests,
            self.bytes + other.bytes,
            self.seconds + other.seconds,
            self.copying + other.copying,
        )


def request_seconds(lengths: npt.NDArray[np.int64], disk: Calibration) -> float:
    """Seconds for random reads of these lengths, many in flight."""
    sizes, counts = np.unique(lengths, return_counts=True)
    return float(
        sum(disk.seconds(int(n), int(size)) for size, n in zip(sizes, counts, strict=True))
    )


def plan_cost(plans: Iterable[_core.Plan], disk: Calibration) -> PlanCost:
    """Computes requests, bytes, seconds and copying of some plans."""
    cost = PlanCost(0, 0, 0.0)
    for plan in plans:
        lengths = plan.request_length
        total = int(lengths.sum())
        seconds = request_seconds(lengths, disk)
        cost += PlanCost(len(lengths), total, seconds, _handled(plan) / disk.copying)
    return cost


def _handled(plan: _core.Plan) -> int:
    """Bytes that a core checks and copies: all that is read, rows of batches, rows kept."""
    counts = plan.counts()
    copied = counts["rows"] + counts["kept"]
    return int(counts["bytes"] + copied * plan.geometry.row_bytes)


def repack_cost(
    repack: _core.RepackPlan, disk: Calibration, write_bytes: int = WRITE_BYTES, every: int = 1
) -> PlanCost:
    """Computes the same for a repacked bulk: the sweep, its writes, and reading it back in order.

    The sweep and the runs are reads in ascending order, so both run at the sequential rate, or at
    the request rate if they are short. Writes wait for each other, so each takes the latency of a
    request as well: with many batches in a bulk, buffers and writes are short.

    Args:
        repack: the sweep, and the plan over the scratch file.
        disk: its calibration.
        write_bytes: of the buffers through which the sweep writes.
        every: the bulk is this part of one whose runs are so many times as long.
    """
    swept, back = repack.request_length, repack.scratch.request_length
    written, row = repack.scratch.geometry.file_bytes, repack.source.row_bytes
    writes = round(run_writes(repack.run_ptr * (row * every), write_bytes) / every)
    seconds = written / disk.sequential_write + writes * disk.latency
    reads = len(back) if every == 1 else _run_reads(repack.run_ptr, row, every)
    for lengths, count in ((swept, len(swept)), (back, reads)):
        seconds += max(int(lengths.sum()) / disk.sequential_read, count / disk.iops)
    # checked, copied to a buffer, checked before it is written
    moved = int(swept.sum()) + len(repack.move_row) * row + written
    return PlanCost(
        len(swept) + reads + writes,
        int(swept.sum()) + int(back.sum()) + written,
        seconds,
        (moved + _handled(repack.scratch)) / disk.copying,
    )


def _run_reads(run_ptr: npt.NDArray[np.int64], row_bytes: int, every: int) -> int:
    """In how many requests runs are read back that are so many times as long, for a part of it."""
    each = max(1, (_LONGEST - 2 * _PAGE) // row_bytes)
    return round(int(np.sum(-(-np.diff(run_ptr) * every // each))) / every)


def run_writes(ends: npt.NDArray[np.int64], write_bytes: int) -> int:
    """How many writes a sweep makes: exactly those of `csrc/io/repacking/run_writer.hpp`.

    Args:
        ends: byte of the scratch file where each run begins, and the end of the last.
        write_bytes: of all buffers.
    """
    count = len(ends) - 1
    pages = np.clip((write_bytes // max(count, 1) - _PAGE) // _PAGE, *_PIECE)
    first = np.maximum(1, pages * np.arange(1, count + 1) // max(count, 1))  # they take turns
    inner = np.maximum(0, ends[1:] // _PAGE - -(-ends[:-1] // _PAGE))  # whole pages of a run
    pieces = (inner > 0) + np.maximum(0, -(-(inner - first) // pages))
    shared = np.unique(ends[ends % _PAGE != 0] // _PAGE)  # written last, neighbours together
    return int(pieces.sum()) + int(len(shared) > 0) + int((np.diff(shared) > 1).sum())


def slowed(disk: Calibration, block_bytes: int, iops: float, smaller: bool = True) -> Calibration:
    """The calibration of a disk that did only `iops` requests per second of about this size.

    Larger blocks are supposed to do no better, and no worse than they were measured: whether
    requests or bytes are short is known once one was tried. Smaller ones are as much slower, but
    not slower than this size; unless `smaller` is False, since they were tried already.
    """
    at = min(disk.rates, key=lambda rate: abs(np.log2(rate.block_bytes / block_bytes)))
    if iops >= at.iops:
        return disk
    factor = iops / at.iops

    def corrected(rate: BlockRate) -> float:
        if rate.block_bytes >= at.block_bytes:
            return min(rate.iops, iops)
        return max(iops, rate.iops * factor) if smaller else rate.iops

    rates = tuple(replace(rate, iops=corrected(rate)) for rate in disk.rates)
    note = f"{iops:,.0f} requests/s of about {block_bytes >> 10} KiB in this run"
    return replace(disk, rates=rates, notes=(*disk.notes, note))


def best_depth(block_bytes: int, disk: Calibration) -> int:
    """The best number of requests in flight for the nearest measured size.

    At least that of every larger size: what many large requests gain, more small ones do not lose,
    and a few that seemed to be enough are too few when the machine is busy.
    """
    sizes = [abs(np.log2(rate.block_bytes) - np.log2(block_bytes)) for rate in disk.rates]
    return max(rate.depth for rate in disk.rates[int(np.argmin(sizes)) :])
