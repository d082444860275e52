"""planner: turns the batches of a bulk into a plan; cache contents carry over between bulks.

A `Planner` belongs to one feature file and one cache. Its plans must be executed in the order in
which they were made; each starts with the cache contents left by the previous one.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.observe.calibration import Calibration
from foregather.plan.cost import PlanCost, plan_cost
from foregather.units import format_bytes, format_count, format_number

__all__ = [
    "BulkPlanner",
    "PlanSummary",
    "Planner",
    "announce",
    "file_geometry",
    "plan_bulk",
    "summarize",
    "to_rows",
    "with_block",
]

PAGE = 4096
MAX_REQUEST = 1 << 20

Rows = npt.NDArray[np.uint32]
PlanT = TypeVar("PlanT")


@dataclass(frozen=True)
class PlanSummary:
    """Counts of what a plan will do; `+` sums over bulks.

    Attributes:
        steps: batches.
        rows: feature rows of all batches; hits + misses.
        hits: rows that are in the cache when their batch is due.
        misses: rows read for their batch.
        riders: rows kept although their batch did not request them.
        kept: rows written to the cache, riders included.
        requests: reads.
        blocks: blocks those reads touch.
        bytes: bytes they move.
        useful_bytes: bytes of the rows that are copied out of them.
        longest: bytes of the longest request.
        row_bound: fewest reads of any policy that reads this one bulk row by row and begins with
            the same cache; -1 for several bulks, or if not computed.
        block_bound: fewest blocks that any policy reads with the same memory, for all bulks since
            the bound began (see `Planner.begin_bound`); -1 if not computed.
    """

    steps: int
    rows: int
    hits: int
    misses: int
    riders: int
    kept: int
    requests: int
    blocks: int
    bytes: int
    useful_bytes: int
    longest: int
    row_bound: int
    block_bound: int

    @property
    def ratio(self) -> float | None:
        """Blocks read / block bound: 1 is perfect; None if no bound is known."""
        if self.block_bound < 0:
            return None
        return 1.0 if self.blocks == self.block_bound else self.blocks / max(1, self.block_bound)

    def __add__(self, other: "PlanSummary") -> "PlanSummary":
        mine, theirs = dataclasses.asdict(self), dataclasses.asdict(other)
        total = {name: mine[name] + theirs[name] for name in mine}
        total["longest"] = max(self.longest, other.longest)
        if min(self.block_bound, other.block_bound) < 0:
            total["block_bound"] = -1
        # each supposes what our own plans left in the cache, so several say nothing of a policy
        # that kept something else
        if min(self.row_bound, other.row_bound) < 0 or (self.steps and other.steps):
            total["row_bound"] = -1
        return PlanSummary(**total)

    def explain(self) -> str:
        """Describes the plan in a few lines."""
        share = self.hits / max(1, self.rows)
        lines = [
            f"plan of {format_number(self.steps, 'batch')}, {format_number(self.rows, 'row')}",
            f"  hits      {format_count(self.hits)} ({share:.0%}), "
            f"misses {format_count(self.misses)}, free riders kept {format_count(self.riders)}",
            f"  requests  {format_count(self.requests)} for {format_count(self.blocks)} blocks, "
            f"{format_bytes(self.bytes)}, of which {format_bytes(self.useful_bytes)} are used",
        ]
        if self.ratio is not None:
            lines.append(
                f"  bound     at least {format_count(self.block_bound)} blocks with this memory, "
                f"whatever is kept: ratio {self.ratio:.2f}"
            )
        return "\n".join(lines)


def summarize(plan: _core.Plan) -> PlanSummary:
    """Returns the counts of one plan."""
    return PlanSummary(
        steps=len(plan), **plan.counts(), row_bound=plan.row_bound, block_bound=plan.block_bound
    )


def announce(plan: _core.Plan, disk: Calibration) -> tuple[PlanSummary, PlanCost]:
    """What a plan says it will do, and what that is predicted to cost."""
    return summarize(plan), plan_cost([plan], disk)


def file_geometry(
    num_rows: int,
    row_bytes: int,
    block_bytes: int = PAGE,
    payload: int = PAGE,
    file_bytes: int | None = None,
) -> _core.Geometry:
    """The layout of rows in an array file: payload at byte 4096, tail padded to whole pages.

    Raises:
        InputError: sizes are not positive, or the rows do not fit in `file_bytes`.
    """
    if file_bytes is None:
        file_bytes = -(-(payload + num_rows * row_bytes) // PAGE) * PAGE
    return _core.Geometry(num_rows, row_bytes, payload, file_bytes, block_bytes)


def with_block(geometry: _core.Geometry, block_bytes: int) -> _core.Geometry:
    """The same file, read in blocks of another size."""
    return _core.Geometry(
        geometry.num_rows, geometry.row_bytes, geometry.payload, geometry.file_bytes, block_bytes
    )


def to_rows(batches: Iterable[Any], num_rows: int) -> list[Rows]:
    """Returns the ids of each batch as uint32, from samples (their `node`) or whole numbers.

    Raises:
        InputError: ids are not whole numbers from 0 to num_rows - 1.
    """
    return [_narrow(getattr(batch, "node", batch), num_rows) for batch in batches]


def _narrow(ids: Any, num_rows: int) -> Rows:
    array = np.asarray(ids)
    if array.dtype == np.uint32 and array.ndim == 1:
        return np.ascontiguousarray(array)  # the core checks the range
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(
            f"a batch is {array.dtype} of shape {array.shape}, expected a list of row ids"
        )
    if array.size and not (int(array.min()) >= 0 and int(array.max()) < num_rows):
        raise InputError(
            f"a batch asks for rows {array.min()} to {array.max()}; expected 0 to {num_rows - 1}"
        )
    return array.astype(np.uint32)


class BulkPlanner(Protocol[PlanT]):
    """Makes plans of one kind, bulk after bulk, for the executor of that kind."""

    def plan(self, batches: Iterable[Any], ahead: Iterable[Any] = ()) -> PlanT:
        """The plan of a bulk; `ahead` are the batches after it, as far as they are known."""

    def announce(self, plan: PlanT, disk: Calibration) -> tuple[PlanSummary, PlanCost]:
        """What a plan says it will do, and what that is predicted to cost."""

    def begin_bound(self) -> None:
        """Begins the block bound anew; those of the plans from now on add up to a bound."""


class Planner:
    """Plans one bulk after the other for one feature file and one cache.

    Args:
        geometry: the layout of the rows, and the block size.
        num_slots: feature rows the cache holds.
        merge_gap: two blocks are read in one request if at most this many bytes lie between them.
        max_request: the longest request, except for wider rows.
        popularity: prior knowledge about rows, such as degrees, one number per row; it ranks rows
            whose next use is not known.
        bounds: compute the lower bounds too (a few percent of the time).
        pages: keep whole blocks instead of single rows; ignores `popularity`.
        steps: batches of a bulk and its look-ahead at most, None: any number; up to 14 halve the
            tables. Plans do not depend on it.

    Raises:
        InputError: a size is impossible.
    """

    def __init__(
        self,
        geometry: _core.Geometry,
        num_slots: int,
        *,
        merge_gap: int = 0,
        max_request: int = MAX_REQUEST,
        popularity: npt.ArrayLike | None = None,
        bounds: bool = True,
        pages: bool = False,
        steps: int | None = None,
    ) -> None:
        longest = max(max_request // geometry.block_bytes, 1) * geometry.block_bytes
        ranks = None if popularity is None else _ranks(np.asarray(popularity))

        def make() -> _core.Planner | _core.PagePlanner:
            if pages:
                return _core.PagePlanner(geometry, num_slots, merge_gap, longest, bounds=bounds)
            made = _core.Planner(
                geometry, num_slots, merge_gap, longest, bounds=bounds, steps=steps or 0
            )
            if ranks is not None:
                made.set_popularity(ranks)
            return made

        #: The layout of the rows, and how many the cache holds.
        self.geometry, self.num_slots = geometry, num_slots
        self._make = make
        self._core = make()

    def plan(self, batches: Iterable[Any], ahead: Iterable[Any] = ()) -> _core.Plan:
        """Plans a bulk.

        Args:
            batches: a `Bulk`, or the rows of each batch in the order of their outputs.
            ahead: the following batches, as far as known: rows they need are kept.

        Raises:
            InputError: a row is out of range, or twice in a batch; the planner is unchanged.
        """
        count = self.geometry.num_rows
        return self._core.plan(to_rows(batches, count), to_rows(ahead, count))

    def announce(self, plan: _core.Plan, disk: Calibration) -> tuple[PlanSummary, PlanCost]:
        """What a plan says it will do, and what that is predicted to cost."""
        return announce(plan, disk)

    def begin_bound(self) -> None:
        """Begins the block bound anew: call it where an epoch begins.

        The block bounds of the plans from now on add up to the fewest blocks that any policy reads
        for all of them if it begins with what is in the cache now; that of a later plan alone is
        no bound. Whole blocks (`pages`) are bounded from the first plan on.
        """
        if isinstance(self._core, _core.Planner):
            self._core.begin_bound()

    def clear(self) -> None:
        """Forgets the cache, for plans that were made but not executed."""
        self._core = self._make()


def _ranks(popularity: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Ranks from 0 to 2047 on a logarithmic scale; uses, which are added, soon outweigh it."""
    if popularity.dtype.kind not in "iuf" or popularity.size == 0 or popularity.min() < 0:
        raise InputError("popularity must have one number of at least 0 per row")
    logs = np.log2(1 + popularity.astype(np.float64))
    return np.rint(logs * (2047 / max(1.0, float(logs.max())))).astype(np.uint16)


def plan_bulk(
    batches: Sequence[Any],
    geometry: _core.Geometry,
    num_slots: int,
    *,
    merge_gap: int = 0,
) -> _core.Plan:
    """Plans a single bulk that starts with an empty cache."""
    return Planner(geometry, num_slots, merge_gap=merge_gap).plan(batches)
