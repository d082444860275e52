"""layout: what stays in memory under a budget; decided before anything is read.

A `Layout` divides the budget by purpose, to the byte, and never exceeds it: if the required parts
do not fit, the BudgetError states the minimum budget. Pure: nothing is allocated or read here.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from typing import Literal

from foregather import _core
from foregather.gather.disk import DEPTH
from foregather.gather.repack import SWEEP_STAGING, WRITE_BYTES
from foregather.graph.graph import Graph
from foregather.graph.integrity.blocks import most_sums_bytes
from foregather.loader.lookahead import planned_bulks
from foregather.loader.memory.division import (
    AHEAD_SHARE,
    BULKS,
    MOST_BULK,
    PLAN_BYTES,
    REPACK_BYTES,
    CacheNeed,
    longest_request,
    planned_steps,
    refusal,
    staging_bytes,
)
from foregather.plan.choice import Caching
from foregather.units import format_bytes

__all__ = [
    "BatchSize",
    "Layout",
    "Place",
    "divide",
    "held_bytes",
    "label_bytes",
    "least_bytes",
    "sweep_bytes",
    "topology_bytes",
    "with_sweep",
    "write_bytes",
]

#: "memory": in memory, or mapped with room for all of it in the budget. "mapped": mapped, and the
#: kernel keeps what it can. "disk": read according to a plan.
Place = Literal["memory", "mapped", "disk"]

_BLOCK = 32 << 10  # until a choice was made
_STAGING_FREE = 4  # one part in this many of what is free beyond the minimum is staging
_LARGER_FREE = 16  # likewise for batches larger than the first ones, up to twice as large


@dataclass(frozen=True)
class BatchSize:
    """The size of one batch: rows, bytes of its sample, bytes of the finished batch.

    `scratch` are bytes of rows that are read for one batch at a time and not part of it.
    """

    rows: int
    sample: int
    batch: int
    scratch: int = 0

    def grown(self, times: float) -> "BatchSize":
        """That of a batch which is larger by this factor."""
        return BatchSize(*(int(part * times) for part in astuple(self)))


@dataclass(frozen=True)
class Layout:
    """How a budget is divided.

    Attributes:
        memory: the budget in bytes.
        topology: where neighbour lists are.
        features: where feature rows are.
        bulk: batches sampled and planned together, at most.
        flight: finished batches alive at once.
        num_slots: feature rows the cache holds.
        staging: bytes to read ahead into.
        depth: requests in flight.
        block: bytes of a block of the feature file.
        gap: unneeded bytes that may be read to merge two requests.
        caching: what is cached: single rows, or rows of whole blocks; or "repack".
        rows: rows of a batch, with a reserve.
        shares: bytes by purpose; their sum is at most `memory`.
    """

    memory: int
    topology: Place
    features: Place
    bulk: int
    flight: int
    num_slots: int
    staging: int
    shares: dict[str, int]
    depth: int = DEPTH
    block: int = _BLOCK
    gap: int = 0
    caching: Caching = "row"
    rows: int = 0

    @property
    def steps(self) -> int:
        """Batches that the planner sees at once: of a bulk and of the one ahead."""
        return planned_steps(self.bulk)

    def bulks(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The first batch and the size of each bulk of a loop that begins with batch `first`."""
        return planned_bulks(first, end, self.bulk, self.caching == "repack")

    def summary(self) -> str:
        """Describes the division as text."""
        words = {"memory": "in memory", "mapped": "mapped", "disk": "on disk"}
        parts = ", ".join(f"{name} {format_bytes(n)}" for name, n in self.shares.items() if n)
        return (
            f"memory {format_bytes(self.memory)}: topology {words[self.topology]}, features "
            f"{words[self.features]}; {parts}"
        )


def topology_bytes(graph: Graph) -> int:
    """Bytes that sampling reads: rows, and weights if there are any."""
    weights = 0 if graph.edge_weight is None else int(graph.edge_weight.nbytes)
    return int(graph.indptr.nbytes) + int(graph.indices.nbytes) + weights


def label_bytes(graph: Graph) -> int:
    """Bytes of labels, which are always in memory."""
    return 0 if graph.labels is None else int(graph.labels.nbytes)


def held_bytes(graph: Graph, edge_attr: bool = True) -> int:
    """Bytes of topology, labels and feature rows, including those of edges unless left out."""
    rows = [graph.features, graph.edge_features if edge_attr else None]
    held = sum(part.nbytes for part in rows if part is not None)
    return topology_bytes(graph) + label_bytes(graph) + held


def divide(
    memory: int,
    size: BatchSize,
    *,
    topology: Place,
    topology_share: int,
    geometry: "_core.Geometry | None",
    flight: int,
    batches: int,
    bulk: int | None = None,
    features_share: int = 0,
    checks_share: int = 0,
    edges_share: int = 0,
    nodes_share: int = 0,
) -> Layout:
    """Divides the budget; feature rows are on disk if a geometry is given.

    Args:
        memory: the budget.
        size: size of a batch, with a reserve.
        topology: where neighbour lists are.
        topology_share: bytes for sampling, including its tables.
        geometry: layout of the feature file; None leaves the features where they are.
        flight: finished batches alive at once.
        batches: batches per epoch.
        bulk: batches per bulk; None chooses.
        features_share: bytes of feature rows that stay in memory.
        checks_share: bytes of the block checksums of the feature file.
        edges_share: bytes for reading edge features.
        nodes_share: bytes of labels, and of degrees if needed.

    Raises:
        BudgetError: the required parts do not fit.
    """
    held = topology_share + features_share + checks_share + edges_share + nodes_share
    need = _Parts(size, geometry, flight)
    asked = 1 if bulk is None else min(bulk, max(1, batches))
    least = held + need.least(asked)
    if memory < least:
        raise refusal(
            f"memory is {format_bytes(memory)} ({memory} bytes), but batches of about "
            f"{size.rows:,} nodes, {asked} per bulk, need {format_bytes(least)} ({least} bytes); "
            "give more, or a smaller batch_size, fan-out, bulk or prefetch",
            least,
        )
    size = _roomier(size, geometry, flight, asked, memory - least)
    need = _Parts(size, geometry, flight)
    need.stage(memory - held - need.least(asked))
    fixed = held + need.fixed
    if bulk is None:
        more = need.each + need.tables(2, 1) - need.tables(1, 1)
        wanted = int((memory - fixed) * AHEAD_SHARE / max(more, 1))
        asked = max(1, min(MOST_BULK, batches, wanted))
        while asked > 1 and held + need.least(asked) > memory:
            asked -= 1  # the planner's tables grow in steps, so the share can overshoot
    spent = fixed + asked * need.each
    cache = need.cache(asked)
    slots = 0 if cache is None else max(1, cache.slots(memory - spent))
    shares = {
        "topology": topology_share,
        "features": features_share,
        "edge features": edges_share,
        "labels": nodes_share,
        "batches": flight * size.batch,
        "leaf rows": need.scratch,
        "samples and plans": asked * need.each,
        "planner": need.tables(asked, slots),
        "staging": need.staging,
        "checksums": checks_share,
        "cache": 0 if cache is None else slots * cache.row_bytes,
    }
    place: Place = "disk" if geometry is not None else "memory"
    return Layout(
        memory, topology, place, asked, flight, slots, need.staging, shares, rows=size.rows
    )


def _roomier(
    size: BatchSize, geometry: "_core.Geometry | None", flight: int, bulk: int, free: int
) -> BatchSize:
    """The size to make room for where memory is free: later batches may be larger than any seen."""
    least = least_bytes(size, geometry, flight, bulk)
    most = least_bytes(size.grown(2), geometry, flight, bulk) - least
    room = free // _LARGER_FREE
    larger = size.grown(1 + min(1.0, room / max(1, most)))
    # the planner's tables grow in steps
    fits = least_bytes(larger, geometry, flight, bulk) - least <= free
    return larger if fits else size


def with_sweep(layout: Layout, row_bytes: int) -> Layout | None:
    """Returns the same budget with room to sweep, taken from the cache if needed.

    None if too small.
    """
    plans = layout.bulk * layout.rows * REPACK_BYTES
    scratch = BULKS * layout.bulk * layout.rows * row_bytes  # files alive at once, at most
    need = sweep_bytes(row_bytes) + write_bytes(layout) + plans + most_sums_bytes(scratch)
    free = layout.memory - sum(layout.shares.values())
    slots = layout.num_slots - max(0, -(-(need - free) // row_bytes))
    if slots < 1:
        return None
    shares = layout.shares | {"cache": slots * row_bytes, "sweep": need}
    return replace(layout, num_slots=slots, shares=shares, caching="repack")


def sweep_bytes(row_bytes: int) -> int:
    """Staging of a sweep: at least two of the longest requests."""
    return max(SWEEP_STAGING, 2 * longest_request(row_bytes))


def write_bytes(layout: Layout) -> int:
    """Buffers of a sweep, one per batch of a bulk; longer writes if memory is plentiful."""
    least = int(_core.Sweeper.least_write_bytes(layout.bulk))
    return max(WRITE_BYTES, least, min(4 * WRITE_BYTES, layout.memory // 32))


def least_bytes(
    size: BatchSize, geometry: "_core.Geometry | None", flight: int, bulk: int | None
) -> int:
    """The minimum budget without the topology's share."""
    return _Parts(size, geometry, flight).least(bulk or 1)


class _Parts:
    """Bytes of the parts other than the topology."""

    def __init__(self, size: BatchSize, geometry: "_core.Geometry | None", flight: int) -> None:
        self.geometry, self.rows = geometry, size.rows
        plan = 0 if geometry is None else size.rows * PLAN_BYTES
        #: for each batch of a bulk
        self.each = BULKS * (size.sample + plan)
        self.staging = 0
        self.scratch = 0 if geometry is None else size.scratch
        self._batches = flight * size.batch
        self.stage(0)

    def stage(self, free: int) -> None:
        """Reads ahead into the least that works and a part of what is free beyond the minimum."""
        if self.geometry is not None:
            self.staging = staging_bytes(self.geometry.row_bytes, free // _STAGING_FREE)

    @property
    def fixed(self) -> int:
        """Bytes that do not depend on the bulk or the cache."""
        return self._batches + self.scratch + self.staging

    def cache(self, bulk: int) -> CacheNeed | None:
        """Of feature rows, planned for a bulk and the one ahead."""
        if self.geometry is None:
            return None
        steps = planned_steps(bulk)
        return CacheNeed(self.geometry, self.geometry.row_bytes, steps * self.rows, steps)

    def tables(self, bulk: int, slots: int) -> int:
        """Of the planner."""
        cache = self.cache(bulk)
        return 0 if cache is None else cache.tables(slots)

    def least(self, bulk: int) -> int:
        """The minimum, with a cache of one row."""
        cache = self.cache(bulk)
        return self.fixed + bulk * self.each + (0 if cache is None else cache.bytes(1))
