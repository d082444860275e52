"""choice: finds the cheapest way of reading by planning a sample with each and comparing seconds.

Nothing is guessed: every alternative is a real plan of the same batches with the same cache, priced
by the disk's calibration: seconds of the disk, and those in which a core checks and copies what was
read. All alternatives stay in the `Choice`, in the order of what decides, so that its reasons can
be shown. Rows by 4 KiB are always among them: for rows of a page or more that is a read for each
row that is missed.
"""

import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from foregather import _core
from foregather.errors import InputError
from foregather.observe.calibration import Calibration
from foregather.plan.candidate import Candidate, Column, heading, row
from foregather.plan.cost import (
    ASSUMED_DISK,
    WRITE_BYTES,
    PlanCost,
    best_depth,
    plan_cost,
    repack_cost,
)
from foregather.plan.planner import MAX_REQUEST, PAGE, Rows, to_rows, with_block
from foregather.plan.thinning import thinned
from foregather.units import format_bytes, format_count

__all__ = ["BLOCK_SIZES", "Caching", "Choice", "ReadCandidate", "choose"]

#: Block sizes that are tried, 4 to 256 KiB.
BLOCK_SIZES = tuple(PAGE << k for k in range(7))

Caching = Literal["row", "page", "repack"]

# Repacking counts as if it took this many times as long, since it costs space and wear.
_REPACK_MARGIN = 1.5


@dataclass(frozen=True)
class ReadCandidate(Candidate):
    """A way of reading, with what the sample costs; `seconds` are those of disk and copying.

    Attributes:
        caching: "row" (with free riders), "page" (whole blocks), or "repack" (one sweep per bulk).
        block_bytes: unit of reading.
        merge_gap: bytes that may be thrown away to merge two blocks.
        depth: requests in flight.
        disk: seconds of the disk.
        copying: seconds in which a core checks and copies what was read.
    """

    caching: Caching
    block_bytes: int
    merge_gap: int
    depth: int
    _: KW_ONLY
    disk: float = 0.0
    copying: float = 0.0

    @property
    def predicted(self) -> PlanCost:
        """Cost of the sample."""
        return PlanCost(self.requests, self.bytes, self.disk, self.copying)

    @property
    def decides(self) -> float:
        """What is compared: the seconds, one and a half times as many for repacking."""
        return self.seconds * (_REPACK_MARGIN if self.caching == "repack" else 1.0)


_COLUMNS: tuple[Column[ReadCandidate], ...] = (
    Column("caching", "<8", lambda way: way.caching),
    Column("block", ">8", lambda way: f"{way.block_bytes >> 10} KiB"),
    Column("gap", ">8", lambda way: f"{way.merge_gap >> 10} KiB"),
    Column("depth", ">6", lambda way: str(way.depth)),
    Column("requests", ">10", lambda way: format_count(way.requests)),
    Column("bytes", ">10", lambda way: format_bytes(way.bytes)),
    Column("disk s", ">8", lambda way: f"{way.disk:.3f}"),
    Column("copying s", ">9", lambda way: f"{way.copying:.3f}"),
    Column("decides", ">8", lambda way: f"{way.decides:.3f}"),
)


@dataclass(frozen=True)
class Choice:
    """The cheapest alternative and all others.

    Attributes:
        best: the one to use: the first of the alternatives, unless another kind was asked for.
        alternatives: all alternatives tried, those first for which least `decides`.
        rows: feature rows of the sample.
        every: one of so many stretches of the file was planned, and costs multiplied; 1: all were.
        seconds: time spent choosing.
        assumed: the disk was not measured; default figures were used.
    """

    best: ReadCandidate
    alternatives: tuple[ReadCandidate, ...]
    rows: int
    every: int
    seconds: float
    assumed: bool

    def using(self, caching: Caching) -> "Choice":
        """Returns the same choice with the cheapest alternative of this kind as the best.

        Raises:
            InputError: none of this kind was tried.
        """
        ways = [way for way in self.alternatives if way.caching == caching]
        if not ways:
            raise InputError(f"{caching} was not among the alternatives tried; choose another")
        return replace(self, best=ways[0])

    def explain(self) -> str:
        """The alternatives as a table, cheapest first."""
        lines = [heading(_COLUMNS)]
        for way in self.alternatives:
            lines.append(row(_COLUMNS, way) + ("  <- chosen" if way is self.best else ""))
        part = f" in 1/{self.every} of the file" if self.every > 1 else ""
        lines.append(
            f"predicted from plans of {format_count(self.rows)} rows{part}, made in "
            f"{self.seconds:.2f} s;"
            " the sum of both kinds of seconds decides, and repacking, which costs space and wear, "
            f"counts {_REPACK_MARGIN:g} times"
        )
        if self.assumed:
            lines.append(
                "the disk was not measured, so default figures are used; run foregather doctor"
            )
        return "\n".join(lines)


class _Sample:
    """The batches used for the comparison, and how each alternative reads them."""

    def __init__(
        self, bulks: list[list[Rows]], geometry: _core.Geometry, slots: int, disk: Calibration
    ) -> None:
        part = thinned(bulks, geometry)
        self.bulks, self.every, self._part = part.bulks, part.every, part
        self.geometry, self.slots, self.disk = geometry, part.slots(slots), disk

    @property
    def steps(self) -> int:
        """Of a plan and its look-ahead at most."""
        return max(len(bulk) + len(later) for bulk, later in self._pairs())

    def try_blocks(self, caching: Caching, block: int, gap: int) -> ReadCandidate:
        geometry = with_block(self.geometry, block)
        longest = max(MAX_REQUEST, block)
        planner: Any
        if caching == "page":
            planner = _core.PagePlanner(geometry, self.slots, gap, longest, bounds=False)
        else:
            planner = _core.Planner(
                geometry, self.slots, gap, longest, bounds=False, steps=self.steps
            )
        cost = plan_cost((planner.plan(*pair) for pair in self._pairs()), self.disk)
        return self._candidate(cost, caching, block, gap, best_depth(block, self.disk))

    def try_repack(self, gap: int, slots: int, write_bytes: int) -> ReadCandidate:
        own = self._part.slots(slots)
        planner = _core.Planner(self.geometry, own, riders=False, bounds=False, steps=self.steps)
        cost = PlanCost(0, 0, 0.0)
        for pair in self._pairs():
            repack = _core.make_repack(planner.plan(*pair), gap, MAX_REQUEST)
            cost += repack_cost(repack, self.disk, write_bytes, self.every)
        depth = best_depth(MAX_REQUEST, self.disk)
        return self._candidate(cost, "repack", self.geometry.block_bytes, gap, depth)

    def _candidate(
        self, cost: PlanCost, caching: Caching, block: int, gap: int, depth: int
    ) -> ReadCandidate:
        """A way with what the whole sample costs."""
        factor = self._part.factor
        disk, copying = cost.seconds * factor, cost.copying * factor
        return ReadCandidate(
            caching,
            block,
            gap,
            depth,
            seconds=disk + copying,
            disk=disk,
            copying=copying,
            bytes=round(cost.bytes * factor),
            requests=round(cost.requests * factor),
        )

    def _pairs(self) -> list[tuple[list[Rows], list[Rows]]]:
        return [
            (bulk, self.bulks[k + 1] if k + 1 < len(self.bulks) else [])
            for k, bulk in enumerate(self.bulks)
        ]


def choose(
    bulks: Sequence[Sequence[Any]],
    geometry: _core.Geometry,
    num_slots: int,
    disk: Calibration | None = None,
    *,
    repack: bool = True,
    repack_slots: int | None = None,
    write_bytes: int = WRITE_BYTES,
) -> Choice:
    """Plans the bulks in every promising way and returns the cheapest.

    It tries all block sizes with row caching first, then gap, page caching and repacking around the
    best.

    Args:
        bulks: sampled bulks, in order; one is enough.
        geometry: the layout of the rows; its block size does not matter.
        num_slots: feature rows the cache holds.
        disk: the disk's calibration; None uses default figures, and `explain` says so.
        repack: consider repacking, which writes a scratch file.
        repack_slots: feature rows the cache holds when repacking, since buffers take some of its
            memory.
        write_bytes: of the buffers through which a sweep writes.

    Raises:
        InputError: there is no bulk, or a row is out of range.
    """
    if not bulks:
        raise InputError("choosing needs at least one sampled bulk, and none was given")
    start = time.perf_counter()
    rows = [to_rows(bulk, geometry.num_rows) for bulk in bulks]
    used = disk or ASSUMED_DISK
    sample = _Sample(rows, with_block(geometry, PAGE), num_slots, used)
    gap = used.break_even_bytes // PAGE * PAGE
    ways = [sample.try_blocks("row", block, 0) for block in BLOCK_SIZES]
    best = min(ways, key=lambda way: way.decides).block_bytes
    ways += [sample.try_blocks("row", block, gap) for block in {PAGE, best} if gap > 0]
    ways += [sample.try_blocks("page", block, 0) for block in {PAGE, best}]
    if repack:
        slots = num_slots if repack_slots is None else repack_slots
        ways.append(sample.try_repack(gap, slots, write_bytes))
    found = tuple(sorted(ways, key=lambda way: way.decides))
    return Choice(
        best=found[0],
        alternatives=found,
        rows=sum(len(batch) for bulk in rows for batch in bulk),
        every=sample.every,
        seconds=time.perf_counter() - start,
        assumed=disk is None,
    )
