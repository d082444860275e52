"""policies: named cache policies that plan the same trace, for comparison.

A policy is a function from a trace (bulks of batches) and a cache size to one plan per bulk. The
online policies see only the current batch; `ginex` sees the bulk; `ours` sees the bulk and the next
one, as in the loader.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.plan.planner import MAX_REQUEST, PAGE, Rows, with_block

__all__ = ["POLICIES", "Policy", "Setting", "find_policy", "run_policy"]

Trace = Sequence[Sequence[Rows]]


@dataclass(frozen=True)
class Setting:
    """The input of every policy.

    Attributes:
        geometry: the layout of the rows; its block size is used by the policies that read blocks.
        num_slots: feature rows the cache holds.
        merge_gap: bytes between blocks that are read to merge them, where blocks are merged.
        hot: rows by falling popularity, for the static cache; None counts uses in the first bulk.
        share_pages: row policies read a page once per batch, and adjacent pages together; otherwise
            every missed row is a separate read.
        bounds: compute the lower bounds too.
    """

    geometry: _core.Geometry
    num_slots: int
    merge_gap: int = 0
    hot: Rows | None = None
    share_pages: bool = True
    bounds: bool = False


Plans = Iterator[_core.Plan]


@dataclass(frozen=True)
class Policy:
    """A policy: its name, a one-line description, and its function."""

    name: str
    about: str
    run: Callable[[Trace, Setting], Plans]


def run_policy(name: str, trace: Trace, setting: Setting) -> Plans:
    """Yields the plans of a trace, one per bulk.

    Raises:
        InputError: no policy has that name.
    """
    return find_policy(name).run(trace, setting)


def find_policy(name: str) -> Policy:
    """The policy of that name."""
    if name not in POLICIES:
        raise InputError(f"policy {name!r} was given; expected one of {', '.join(POLICIES)}")
    return POLICIES[name]


def _longest(geometry: _core.Geometry) -> int:
    return max(MAX_REQUEST // geometry.block_bytes, 1) * geometry.block_bytes


def _online(name: str) -> Callable[[Trace, Setting], Plans]:
    def run(trace: Trace, setting: Setting) -> Plans:
        geometry = with_block(setting.geometry, PAGE)  # an online cache asks for single rows
        hot = np.empty(0, np.uint32)
        if name == "static":
            hot = _hot(trace, setting)
        planner = _core.OnlinePlanner(
            geometry,
            setting.num_slots,
            name,
            hot,
            single=not setting.share_pages,
            bounds=setting.bounds,
        )
        for bulk in trace:
            yield planner.plan(list(bulk))

    return run


def _hot(trace: Trace, setting: Setting) -> npt.NDArray[np.uint32]:
    if setting.hot is not None:
        return np.ascontiguousarray(setting.hot[: setting.num_slots], np.uint32)
    counts = np.zeros(setting.geometry.num_rows, np.int64)
    for batch in trace[0] if trace else ():
        counts[batch] += 1
    order = np.argsort(-counts, kind="stable")[: setting.num_slots]
    return order[counts[order] > 0].astype(np.uint32)


def _ginex(trace: Trace, setting: Setting) -> Plans:
    planner = _core.Planner(
        with_block(setting.geometry, PAGE),
        setting.num_slots,
        riders=False,
        single=True,
        bounds=setting.bounds,
    )
    for bulk in trace:
        planner.clear()  # every superbatch starts with an empty cache and fills it first
        yield planner.plan(list(bulk), [], fill=True)


def _rows(riders: bool, block: int | None) -> Callable[[Trace, Setting], Plans]:
    def run(trace: Trace, setting: Setting) -> Plans:
        geometry = with_block(setting.geometry, block) if block else setting.geometry
        planner = _core.Planner(
            geometry,
            setting.num_slots,
            merge_gap=setting.merge_gap,
            max_request=_longest(geometry),
            riders=riders,
            bounds=setting.bounds,
        )
        for k, bulk in enumerate(trace):
            ahead = trace[k + 1] if k + 1 < len(trace) else []
            yield planner.plan(list(bulk), list(ahead))

    return run


def _page(trace: Trace, setting: Setting) -> Plans:
    planner = _core.PagePlanner(
        setting.geometry,
        setting.num_slots,
        merge_gap=setting.merge_gap,
        max_request=_longest(setting.geometry),
        bounds=setting.bounds,
    )
    for k, bulk in enumerate(trace):
        yield planner.plan(list(bulk), list(trace[k + 1]) if k + 1 < len(trace) else [])


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("static", "hot rows, chosen once and read in the first step", _online("static")),
        Policy("lru", "least recently used", _online("lru")),
        Policy("clock", "second chance", _online("clock")),
        Policy("sieve", "lazy promotion, quick demotion", _online("sieve")),
        Policy("s3fifo", "small, main and ghost queue", _online("s3fifo")),
        Policy("ginex", "Belady by rows, cold bulks, a read for every missed row", _ginex),
        Policy("belady", "Belady by rows, carried over, pages shared", _rows(False, PAGE)),
        Policy("page", "Belady by whole blocks", _page),
        Policy("ours", "Belady by rows with free riders, blocks merged", _rows(True, None)),
    )
}
