"""end_to_end: an epoch's batches from the first sample to the optimiser, by system and graph."""

import math
import statistics
from typing import Any

from common.figures import Figure, Holds, Series
from common.report import median_spread
from common.skip import skip
from torch_geometric.typing import WITH_PYG_LIB

from foregather.units import format_bytes

from .cases import FANOUT, NAMES, get_case
from .runs import MODEL_BYTES, memory_of, turns

__all__ = ["COMMAND", "end_to_end", "need_pyg_lib"]

COMMAND = "python benchmarks/paper.py --paper ginex"
OURS, PYG, GINEX = "ours", "PyG+", "ginex"
SYSTEMS = (OURS, PYG, "PyG+, own gather", "lists, static", "lists, LRU", GINEX)
LABELS = {
    OURS: "foregather",
    PYG: "PyG+, 64 threads",
    "PyG+, own gather": "PyG+, PyG's own gather",
    "lists, static": "neighbour cache and static rows (Ali+PG)",
    "lists, LRU": "neighbour cache and LRU rows",
    GINEX: "Ginex's way",
}
SHARE = 0.1


def need_pyg_lib() -> None:
    """Skips where PyG cannot sample."""
    if not WITH_PYG_LIB:
        skip("PyG samples with pyg-lib, which Python does not find (see benchmarks/beside)")


def middle(runs: list[dict[str, Any]]) -> float:
    """Median seconds of a batch; NaN where a run did not get through."""
    if any("error" in one for one in runs):
        return math.nan
    return statistics.median(one["seconds"] for one in runs)


def cell(runs: list[dict[str, Any]]) -> str:
    """Median and range, or why there is none."""
    for one in runs:
        if "error" in one:
            return f"none: {one['error'][:80]}"
    return median_spread([one["seconds"] for one in runs])


def end_to_end(quick: bool) -> Figure:
    """Every system on every graph with both models, by turns."""
    need_pyg_lib()
    left = ("PyG+, own gather", "lists, LRU") if quick else ()
    systems = tuple(system for system in SYSTEMS if system not in left)
    rounds, size = (1, 32) if quick else (3, 128)
    points: list[tuple[str, dict[str, list[dict[str, Any]]]]] = []
    about, memories = [], []
    for name in NAMES:
        case = get_case(name, quick)
        memory = memory_of(case, SHARE)
        about.append(case.about)
        memories.append(format_bytes(memory))
        for model in ("SAGE", "GCN"):
            seconds = 1.0 if quick else 4.0
            more = {"superbatch": size, "seconds": seconds}
            found = turns(case, systems, model, memory, rounds, **more)
            points.append((f"{name}, {model}", found))
    labels: list[float | str] = [label for label, _ in points]
    series = [
        Series(LABELS[system], labels, [middle(found[system]) for _, found in points])
        for system in systems
    ]
    rows = []
    for label, found in points:
        base = middle(found[OURS])
        for system in systems:
            ratio = middle(found[system]) / base
            last = found[system][-1]
            rows.append(
                [
                    label,
                    LABELS[system],
                    cell(found[system]),
                    "" if math.isnan(ratio) else f"{ratio:.2f}",
                    f"{last['rows']:,.0f}" if "rows" in last else "",
                    format_bytes(last["peak"]) if last.get("peak") else "",
                ]
            )
    return Figure(
        key="end_to_end",
        paper="ginex",
        title="Training from disk, seconds of a batch, by system",
        setting=f"{'; '.join(about)}. Fan-out {FANOUT}, PyG's model with 64 hidden columns, "
        "trimmed, the same for all; each run is a process in a cgroup of what it holds after its "
        f"imports + {format_bytes(MODEL_BYTES)} for the model + {', '.join(memories)} by graph: a "
        f"tenth of the features beside tables and batches. Superbatches of {size} for Ginex. "
        "Maps have random advice.",
        published=[
            *("ginex-throughput-mean", "ginex-throughput-max"),
            *("ginex-readme-pygplus", "ginex-readme-ginex"),
            *("ginex-diskgnn-diskgnn", "ginex-diskgnn-marius", "ginex-diskgnn-dgl-map"),
        ],
        x_label="graph and model",
        y_label="seconds of a batch",
        kind="bars",
        series=series,
        columns=["graph, model", "system", "s a batch", "times ours", "rows a batch", "peak"],
        rows=rows,
        command=COMMAND,
        **judge(points),
    )


def judge(points: list[tuple[str, dict[str, list[dict[str, Any]]]]]) -> dict[str, Any]:
    """Whether Ginex's way beats PyG+ as published, and what ours does."""
    pairs = [(middle(f[PYG]), middle(f[GINEX]), middle(f[OURS])) for _, f in points]
    known = [pair for pair in pairs if not any(map(math.isnan, pair))]
    if not known:
        return {"holds": "no", "explanation": "No graph has figures of all three systems."}
    gain = [pyg / ginex for pyg, ginex, _ in known]
    more = [pyg / ours for pyg, _, ours in known]
    won = sum(ratio > 1 for ratio in gain)
    holds: Holds = "yes" if won == len(gain) else "partly" if won else "no"
    said = (
        f"Ginex's way has {statistics.geometric_mean(gain):.2f} times the throughput of PyG+ in "
        f"the mean of {len(gain)} cells ({min(gain):.2f} to {max(gain):.2f}), and ours "
        f"{statistics.geometric_mean(more):.2f} times ({min(more):.2f} to {max(more):.2f}). "
        "Ginex's way is its policy, its neighbour cache, its switch and its trace files with our "
        "planner and reader under them; PyG's sampler is its own."
    )
    return {"holds": holds, "explanation": said}
