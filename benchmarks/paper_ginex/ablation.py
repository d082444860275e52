"""ablation: from a map to plans over ordered rows, one step after the other."""

import itertools
import sys
from dataclasses import asdict
from typing import Any

import numpy as np
from common.executed import run_trace
from common.facts import Facts
from common.figures import Figure, Holds, Series
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
    ("swept", "order, repack", "the same rows, always repacked"),
)
HEAD = {
    "sampling": ("sampling by map", "PyG's sampler"),
    "sampling, lists": ("neighbour cache", "lists by out-/in-degree"),
    "PyG+": ("map, sampling and rows", "64 threads fault rows in"),
}
SHARE = 0.1
QUICK, WHOLE = (128, 64), (256, 128)  # batches, those of a bulk and of a superbatch


def sampled(quick: bool) -> dict[str, Any]:
    """The topology's steps: PyG's sampler on a map, and with a neighbour cache; gather by map."""
    case = get_case("communities", quick)
    memory, least = memory_of(case, SHARE), 48 if quick else 128
    return turns(case, tuple(HEAD), "none", memory, 3, least=least)


def steps(quick: bool) -> dict[str, Any]:
    """All steps on one trace."""
    need_pyg_lib()
    case = get_case("communities", quick)
    base = sampled(quick)
    count, bulk = QUICK if quick else WHOLE
    trace, file = case.trace(count, bulk), FeatureFile.of(case.graph)
    places = to_places(find_order(case.graph, "communities"))
    moved = [[np.ascontiguousarray(places[one]).astype(np.uint32) for one in b] for b in trace]
    slots, disk = int(file.num_rows * SHARE), load_calibration(case.folder)
    found: dict[str, list[Any]] = {way: [] for way, _, _ in STEPS}
    for _ in range(3):
        for way in found:
            given = moved if way in ("order", "swept") else trace
            name = {"order": "ours", "swept": "repack"}.get(way, way)
            found[way].append(asdict(run_trace(name, given, file, slots, disk)))
            print("ablation", way, found[way][-1], file=sys.stderr, flush=True)
    about = f"{case.about}; a cache of {slots:,} rows ({SHARE:.0%})"
    memory = format_bytes(memory_of(case, SHARE))
    return {"base": base, "found": found, "about": about, "batch": case.batch, "memory": memory}


def ablation(facts: Facts, quick: bool) -> Figure:
    """From a map to plans over ordered rows."""
    kept, (count, bulk) = facts(steps, quick), QUICK if quick else WHOLE
    found, base = kept["found"], {name: middle(runs) for name, runs in kept["base"].items()}
    seconds = {way: sorted(one["seconds"] for one in runs) for way, runs in found.items()}
    half = {way: each[len(each) // 2] for way, each in seconds.items()}
    rows = [[*HEAD[name], cell(runs), "", "", ""] for name, runs in kept["base"].items()]
    rows += [
        [
            label,
            f"{about}: {found[way][0]['way']}",
            median_spread(seconds[way]),
            f"{100 * found[way][0]['misses']:.1f}",
            f"{found[way][0]['requests']:,.0f}",
            format_bytes(int(found[way][0]["bytes"])),
        ]
        for way, label, about in STEPS
    ]
    labels: list[float | str] = ["map", *(label for _, label, _ in STEPS)]
    by_map = base["PyG+"] - base["sampling"]
    order = ["lru", "ginex", "carried", "blocks", "ahead", "repack", "order"]
    slower = [(b, a) for b, a in itertools.pairwise(order) if half[a] > half[b]]
    holds: Holds = "partly" if slower else "yes"
    return Figure(
        key="ablation",
        paper="ginex",
        title="Ablation: seconds until a batch's rows are there",
        setting=f"{kept['about']}, {count} batches of {kept['batch']} in bulks of {bulk}, which "
        "are the superbatches of Ginex. The first three rows "
        f"ran in a cgroup with {kept['memory']} beside the process. From "
        "static rows on, our executor reads directly; the order is a renumbered trace on the same "
        "file, so its reads are those of a reordered folder. The bar of the map is what rows add "
        "to sampling. Rows that are read before the first batch are misses, too.",
        published=[],
        x_label="step",
        y_label="seconds of a batch, rows only",
        kind="bars",
        series=[Series("gather", labels, [by_map, *(half[way] for way, _, _ in STEPS)])],
        columns=["step", "what", "s a batch", "misses / 100 rows", "requests", "bytes"],
        rows=rows,
        holds=holds,
        explanation=f"LRU takes {half['lru'] / half['ginex']:.2f} times the seconds of Belady by "
        f"rows, that {half['ginex'] / half['ahead']:.2f} times those of blocks with look-ahead, "
        f"and those {half['ahead'] / half['order']:.2f} times those of ordered rows. "
        + _why_slower(slower, half, found),
        command=COMMAND,
    )


def _why_slower(
    slower: list[tuple[str, str]], half: dict[str, float], found: dict[str, list[Any]]
) -> str:
    """What the counts say about steps that cost more than the one before them."""
    names, told = {way: label for way, label, _ in STEPS}, []
    for before, after in slower:
        one, two = found[before][0], found[after][0]
        said = (
            f"{names[after]} takes {half[after]:.4f} s after {half[before]:.4f} s: "
            f"{two['requests']:,.0f} requests and {format_bytes(int(two['bytes']))} instead of "
            f"{one['requests']:,.0f} and {format_bytes(int(one['bytes']))}"
        )
        fewer = two["requests"] <= one["requests"] and two["bytes"] <= one["bytes"]
        if fewer:
            said += ", so it asks less of the disk (likely: a busy machine, or the cost of planned "
            said += "copies)"
        if after == "order":
            better = half["swept"] < half["order"]
            said += (
                f"; repacked, ordered rows take {half['swept']:.4f} s, so the cost model, which "
                f"predicted {two['predicted']:.4f} s for its choice and "
                f"{found['swept'][0]['predicted']:.4f} s for that, "
                + ("did not choose the fastest way" if better else "chose the faster way")
            )
        told.append(f"{said}.")
    return " ".join(told) or "No step costs more than the one before it."
