"""executed: plans a trace in a named way, carries it out on a feature file, counts and times.

All reads are direct, so nothing but the slots of the cache stays in memory between batches.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.gather.disk import DiskFeatures
from foregather.gather.feature_file import FeatureFile
from foregather.gather.repack import SWEEP_STAGING, WRITE_BYTES, RepackFeatures
from foregather.observe.calibration import Calibration
from foregather.plan import choose
from foregather.plan.baselines.policies import Setting, run_policy
from foregather.plan.cost import ASSUMED_DISK
from foregather.plan.planner import announce, with_block
from foregather.plan.repack import RepackPlanner

__all__ = ["Executed", "Planned", "carry_out", "plan_trace", "ready", "recut", "run_trace"]

Rows = npt.NDArray[np.uint32]
Trace = Sequence[Sequence[Rows]]
DEPTH, PAGE = 128, 4096
NOWHERE = 2**32 - 1  # the position in its batch of a row that is only kept


@dataclass(frozen=True)
class Planned:
    """Plans of a trace, and what carries them out.

    Attributes:
        plans: one a bulk.
        slots: rows of the cache.
        depth: reads in flight.
        repack: bulks are swept into a scratch file first.
        way: as it stands in a table.
        seconds: spent planning.
    """

    plans: list[Any]
    slots: int
    depth: int
    repack: bool
    way: str
    seconds: float


@dataclass(frozen=True)
class Executed:
    """What the batches of a trace took, each; bytes include those written.

    Attributes:
        seconds: of a batch.
        planning: seconds of a batch.
        misses: rows that were read because a batch asks for them, now or later, as a share of
            the rows asked for; see `announced`.
        requests: of a batch.
        bytes: of a batch.
        predicted: seconds of the disk, by its calibration.
        way: as it stands in a table.
    """

    seconds: float
    planning: float
    misses: float
    requests: float
    bytes: float
    predicted: float
    way: str


def recut(trace: Trace, size: int) -> list[list[Rows]]:
    """The same batches in bulks of another size."""
    flat = [batch for bulk in trace for batch in bulk]
    return [flat[k : k + size] for k in range(0, len(flat), size)]


def plan_trace(
    way: str, trace: Trace, file: FeatureFile, slots: int, disk: Calibration | None = None
) -> Planned:
    """Plans a trace: by a policy's name, or by one of the steps between Ginex's plans and ours.

    Those are "carried" (Belady by rows, the cache kept between bulks), "blocks" (blocks of the best
    size and free riders), "ahead" (the next bulk is known too), "repack", and "ours", which is what
    the cost model chooses. Buffers of repacking are taken from the rows of the cache.
    """
    block, gap, depth, pages = PAGE, 0, DEPTH, False
    if way in ("blocks", "ahead", "repack", "ours"):
        fewer = max(0, slots - (SWEEP_STAGING + WRITE_BYTES) // file.row_bytes)
        choice = choose(trace[:2], file.geometry(), slots, disk, repack_slots=fewer)
        best = {"repack": lambda: choice.using("repack").best, "ours": lambda: choice.best}.get(
            way, lambda: choice.using("row").best
        )()
        block, gap, depth = best.block_bytes, best.merge_gap, best.depth
        pages = best.caching == "page"
        if best.caching == "repack":
            way, slots = "repack", fewer
    begin = time.perf_counter()
    plans, said = _plans(way, trace, file.geometry(block), slots, gap, pages)
    return Planned(plans, slots, depth, way == "repack", said, time.perf_counter() - begin)


def _plans(
    way: str, trace: Trace, geometry: _core.Geometry, slots: int, gap: int, pages: bool
) -> tuple[list[Any], str]:
    later = [list(bulk) for bulk in trace[1:]] + [[]]
    pairs = list(zip(trace, later, strict=True))
    if way == "repack":
        planner = RepackPlanner(with_block(geometry, PAGE), slots, merge_gap=gap)
        return [planner.plan(bulk, ahead) for bulk, ahead in pairs], "repack"
    size = f"{geometry.block_bytes >> 10} KiB"
    if way == "ours" or way == "ahead":
        name = "page" if pages else "ours"
        plans = list(run_policy(name, trace, Setting(geometry, slots, gap)))
        return plans, f"{'blocks' if pages else 'rows'} by {size}"
    if way in ("carried", "blocks"):
        most = max(1, (1 << 20) // geometry.block_bytes) * geometry.block_bytes
        one = _core.Planner(
            geometry, slots, merge_gap=gap, max_request=most, riders=way == "blocks", bounds=False
        )
        return [one.plan(list(bulk), []) for bulk, _ in pairs], f"rows by {size}"
    single = Setting(geometry, slots, share_pages=False)
    return list(run_policy(way, trace, single)), "rows, one read each"


def ready(features: Any, plans: list[Any]) -> Iterator[Any]:
    """Swept bulks; the next one is swept while this one is read, as the Loader does."""
    with ThreadPoolExecutor(1) as pool:
        swept = pool.submit(features.prepare, plans[0])
        for plan in [*plans[1:], None]:
            now = swept.result()
            if plan is not None:
                swept = pool.submit(features.prepare, plan)
            yield now


def carry_out(file: FeatureFile, planned: Planned) -> tuple[float, dict[str, Any]]:
    """Gathers all batches, into two outputs by turns: seconds, and the executor's counters."""
    steps = [(plan.rows if planned.repack else plan).num_rows for plan in planned.plans]
    most = max(int(counts.max(initial=0)) for counts in steps)
    make: Any = RepackFeatures if planned.repack else DiskFeatures
    with make(file, planned.slots, depth=planned.depth) as features:
        outs = [np.zeros((most, file.width), file.gathered_dtype) for _ in range(2)]
        begin = time.perf_counter()
        bulks = ready(features, planned.plans) if planned.repack else planned.plans
        for plan, counts in zip(bulks, steps, strict=True):
            features.append(plan)
            for number, count in enumerate(counts.tolist()):
                features.step_into(outs[number % 2][:count])
        return time.perf_counter() - begin, features.counters()


def run_trace(
    way: str, trace: Trace, file: FeatureFile, slots: int, disk: Calibration | None = None
) -> Executed:
    """Plans and carries out; what was read must be what was announced."""
    planned = plan_trace(way, trace, file, slots, disk)
    seconds, counted = carry_out(file, planned)
    said = announced(planned, disk or ASSUMED_DISK)
    assert (counted["requests"], counted["bytes"]) == (said["requests"], said["bytes"])
    count = sum(len(bulk) for bulk in trace)
    return Executed(
        seconds / count,
        planned.seconds / count,
        said["misses"],
        said["requests"] / count,
        (said["bytes"] + counted.get("written", 0)) / count,
        said["seconds"] / count,
        planned.way,
    )


def announced(planned: Planned, disk: Calibration) -> dict[str, Any]:
    """What plans say before they run: requests, bytes, share of misses, seconds of the disk.

    Misses are counted alike for every way: rows that their batch does not find in the cache, and
    rows that were read ahead by requests of their own (a static cache or Ginex's, before the first
    batch). Rows that come along with a block which is read for another are no misses.
    """
    rows = requests = read = misses = 0
    seconds = 0.0
    for plan in planned.plans:
        total = plan.summary() if planned.repack else announce(plan, disk)[0]
        cost = plan.cost(disk) if planned.repack else announce(plan, disk)[1]
        by_rows = announce(plan.rows, disk)[0] if planned.repack else total
        rows, misses = rows + by_rows.rows, misses + by_rows.misses
        misses += read_ahead(plan.rows if planned.repack else plan)
        requests, read = requests + total.requests, read + total.bytes
        seconds += cost.seconds
    return {
        "requests": requests,
        "bytes": read,
        "misses": misses / max(rows, 1),
        "seconds": seconds,
    }


def read_ahead(plan: Any) -> int:
    """Rows of requests that bring none which the batch of their step asks for."""
    ptr = np.asarray(plan.copy_ptr)
    wanted = np.concatenate([[0], np.cumsum(np.asarray(plan.copy_position) != NOWHERE)])
    none = wanted[ptr[1:]] == wanted[ptr[:-1]]
    return int(np.diff(ptr)[none].sum())
