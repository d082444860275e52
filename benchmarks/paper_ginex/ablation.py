"""ablation: from a map to plans over ordered rows, one step after the other."""

import itertools
import sys
from typing import Any

import numpy as np
from common.executed import recut, run_trace
from common.figures import Figure, Series
from common.report import median_spread

from foregather.gather.feature_file import FeatureFile
from foregather.graph.order import find_order
from foregather.graph.order.find import to_places
from foregather.observe.calibration import load_calibration
from foregather.units import format_bytes

from .cases import get_case
from .end_to_end import COMMAND, cell, middle, need_pyg_lib
from .runs import memory_of, turns

__all__ = ["ablation"]

STEPS = (
    ("static", "static rows", "those that the first bulk uses most are in memory"),
    ("lru", "LRU", "the last ones used"),
    ("ginex", "Belady by rows", "cold superbatches, a read for every missed row (Ginex)"),
    ("carried", "carried over", "the cache lives on between bulks, pages are shared"),
    ("blocks", "blocks", "of the best size, with free riders"),
    ("ahead", "look-ahead", "the next bulk is known"),
    ("repack", "repack", "a bulk is swept into a scratch file and read from it"),
    ("order", "order", "rows lie by communities; the way that the cost model chooses"),
)
SHARE = 0.1


def sampled(quick: bool) -> tuple[list[list[str]], dict[str, float]]:
    """The topology's steps: PyG's sampler on a map, and with a neighbour cache; gather by map."""
    case = get_case("communities", quick)
    memory, more = memory_of(case, SHARE), {"seconds": 2.0 if quick else 4.0}
    names = ("sampling", "sampling, lists", "PyG+")
    found = turns(case, names, "none", memory, 1 if quick else 3, **more)
    rows = [
        ["sampling by map", "PyG's sampler", cell(found["sampling"]), "", "", ""],
        ["neighbour cache", "lists by out-/in-degree", cell(found["sampling, lists"]), "", "", ""],
        ["map, sampling and rows", "64 threads fault rows in", cell(found["PyG+"]), "", "", ""],
    ]
    return rows, {name: middle(found[name]) for name in names}


def ablation(quick: bool) -> Figure:
    """All steps on one trace."""
    need_pyg_lib()
    case = get_case("communities", quick)
    head, base = sampled(quick)
    count, bulk, size = (64, 32, 64) if quick else (256, 64, 128)
    trace, file = case.trace(count, bulk), FeatureFile.of(case.graph)
    places = to_places(find_order(case.graph, "communities"))
    moved = [[np.ascontiguousarray(places[one]).astype(np.uint32) for one in b] for b in trace]
    slots, disk = int(file.num_rows * SHARE), load_calibration(case.folder)
    found: dict[str, list[Any]] = {way: [] for way, _, _ in STEPS}
    for _ in range(1 if quick else 3):
        for way in found:
            given = moved if way == "order" else recut(trace, size) if way == "ginex" else trace
            name = "ours" if way == "order" else way
            found[way].append(run_trace(name, given, file, slots, disk))
            print("ablation", way, found[way][-1], file=sys.stderr, flush=True)
    seconds = {way: sorted(one.seconds for one in runs) for way, runs in found.items()}
    half = {way: each[len(each) // 2] for way, each in seconds.items()}
    rows = head + [
        [
            label,
            f"{about}: {found[way][0].way}",
            median_spread(seconds[way]),
            f"{100 * found[way][0].misses:.1f}",
            f"{found[way][0].requests:,.0f}",
            format_bytes(int(found[way][0].bytes)),
        ]
        for way, label, about in STEPS
    ]
    labels: list[float | str] = ["map", *(label for _, label, _ in STEPS)]
    by_map = base["PyG+"] - base["sampling"]
    order = ["lru", "ginex", "carried", "blocks", "ahead"]
    falls = [half[after] <= half[before] for before, after in itertools.pairwise(order)]
    return Figure(
        key="ablation",
        paper="ginex",
        title="One step after the other: seconds in which the rows of a batch are there",
        setting=f"{case.about}; a cache of {slots:,} rows ({SHARE:.0%}), {count} batches of "
        f"{case.batch} in bulks of {bulk}, superbatches of {size} for Ginex. The first three rows "
        f"ran in a cgroup with {format_bytes(memory_of(case, SHARE))} beside the process. From "
        "static rows on, our executor reads directly; the order is a renumbered trace on the same "
        "file, so its reads are those of a reordered folder. The bar of the map is what rows add "
        "to sampling.",
        published=["ginex-throughput-mean"],
        x_label="step",
        y_label="seconds of a batch, rows only",
        kind="bars",
        series=[Series("gather", labels, [by_map, *(half[way] for way, _, _ in STEPS)])],
        columns=["step", "what", "s a batch", "misses / 100 rows", "requests", "bytes"],
        rows=rows,
        holds="yes" if all(falls) else "partly",
        explanation=f"Belady by rows takes {half['lru'] / half['ginex']:.2f} times fewer seconds "
        f"than LRU; blocks with look-ahead {half['ginex'] / half['ahead']:.2f} times fewer than "
        f"Belady by rows; the order another {half['ahead'] / half['order']:.2f} times. A step that "
        "costs more than the one before it stays in the table.",
        command=COMMAND,
    )
