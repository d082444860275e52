"""cost: predicts how long a plan's reads take on a disk, from its calibration.

Seconds are those of the disk alone, with enough requests in flight: the cost of a request is
interpolated from the calibration by its size, so bytes below break-even are free and requests are
not. For a disk that was never measured, figures of an average cloud disk are used, and every text
says so.
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
    "plan_cost",
    "repack_cost",
    "request_seconds",
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


@dataclass(frozen=True)
class PlanCost:
    """The cost of a way of reading, predicted from a plan or measured by an executor.

    Attributes:
        requests: reads (and writes, of a repacked bulk).
        bytes: bytes read and written.
        seconds: of the disk.
    """

    requests: int
    bytes: int
    seconds: float

    def __add__(self, other: "PlanCost") -> "PlanCost":
        return PlanCost(
            self.requests + other.requests, self.bytes + other.bytes, self.seconds + other.seconds
        )


def request_seconds(lengths: npt.NDArray[np.int64], disk: Calibration) -> float:
    """Seconds for random reads of these lengths, many in flight."""
    sizes, counts = np.unique(lengths, return_counts=True)
    return float(
        sum(disk.seconds(int(n), int(size)) for size, n in zip(sizes, counts, strict=True))
    )


def plan_cost(plans: Iterable[_core.Plan], disk: Calibration) -> PlanCost:
    """Computes requests, bytes and seconds of some plans."""
    cost = PlanCost(0, 0, 0.0)
    for plan in plans:
        lengths = plan.request_length
        total = int(lengths.sum())
        cost += PlanCost(len(lengths), total, request_seconds(lengths, disk))
    return cost


def repack_cost(repack: _core.RepackPlan, disk: Calibration) -> PlanCost:
    """Computes the same for a repacked bulk: the sweep, its writes, and reading it back in order.

    The sweep and the runs are reads in ascending order, so both run at the sequential rate, or at
    the request rate if they are short.
    """
    swept, back = repack.request_length, repack.scratch.request_length
    written = repack.scratch.geometry.file_bytes
    seconds = written / disk.sequential_write
    for lengths in (swept, back):
        seconds += max(int(lengths.sum()) / disk.sequential_read, len(lengths) / disk.iops)
    writes = -(-written // (1 << 20))
    return PlanCost(
        len(swept) + len(back) + writes, int(swept.sum()) + int(back.sum()) + written, seconds
    )


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
    """The best number of requests in flight for the nearest measured size."""
    rate = min(disk.rates, key=lambda r: abs(np.log2(r.block_bytes) - np.log2(block_bytes)))
    return rate.depth
