"""end_to_end: an epoch's batches from the first sample to the optimiser, by system and graph."""

import functools
import math
import statistics
from typing import Any

from common import results
from common.facts import Facts
from common.figures import Figure, Holds, Series
from common.report import median_spread
from common.skip import skip

from foregather.units import format_bytes

from .cases import FANOUT, NAMES, get_case
from .runs import MODEL_BYTES, memory_of, turns

__all__ = ["COMMAND", "SUPERBATCHES", "end_to_end", "need_pyg_lib"]

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
SUPERBATCHES = (32, 128, 256)  # Ginex's way is taken with the best of them
Cells = dict[str, list[dict[str, Any]]]
Points = list[tuple[str, Cells]]


def need_pyg_lib() -> None:
    """Skips where PyG cannot sample."""
    from torch_geometric.typing import WITH_PYG_LIB

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


def best_ginex(case: Any, model: str, memory: int, rounds: int) -> list[dict[str, Any]]:
    """Runs of Ginex's way with the superbatch that is fastest in a first round of each."""
    tried = {
        size: turns(case, (GINEX,), model, memory, 1, superbatch=size)[GINEX]
        for size in SUPERBATCHES
    }
    through = {size: runs for size, runs in tried.items() if not math.isnan(middle(runs))}
    best = min(through or tried, key=lambda size: middle(tried[size]))
    if rounds > 1 and through:
        more = turns(case, (GINEX,), model, memory, rounds - 1, superbatch=best)
        tried[best] += more[GINEX]
    return [{**one, "superbatch": best} for one in tried[best]]


@functools.cache
def epochs(quick: bool) -> dict[str, Any]:
    """Every system on every graph with both models, by turns.

    The superbatch of Ginex's way is chosen with SAGE: what it reads does not depend on the model.
    """
    need_pyg_lib()
    left = ("PyG+, own gather", "lists, LRU") if quick else ()
    systems = tuple(system for system in SYSTEMS if system not in left)
    others = tuple(system for system in systems if system != GINEX)
    rounds, seconds = (1, 1.0) if quick else (3, 4.0)
    points, about, memories, disk = [], [], [], {}
    for name in NAMES:
        case = get_case(name, quick)
        memory = memory_of(case, SHARE)
        about.append(case.about)
        disk[name] = sum(path.stat().st_size for path in (case.folder / "graph").rglob("*.npy"))
        memories.append(format_bytes(memory))
        ginex = best_ginex(case, "SAGE", memory, rounds)
        for model in ("SAGE", "GCN"):
            found = turns(case, others, model, memory, rounds, seconds=seconds)
            if model != "SAGE":
                size = ginex[0]["superbatch"]
                again = turns(case, (GINEX,), model, memory, rounds, superbatch=size)[GINEX]
                ginex = [{**one, "superbatch": size} for one in again]
            points.append((f"{name}, {model}", {**found, GINEX: ginex}))
    made = {"points": points, "about": about, "memories": memories, "systems": systems}
    return {**made, "disk": disk}


def end_to_end(facts: Facts, quick: bool) -> Figure:
    """Seconds of a batch by graph, model and system."""
    kept = facts(epochs, quick)
    points, systems = kept["points"], kept["systems"]
    about, memories = kept["about"], kept["memories"]
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
            parts = [last.get("gather"), last.get("training")]
            rows.append(
                [
                    label,
                    _label(system, last),
                    cell(found[system]),
                    "" if math.isnan(ratio) else f"{ratio:.2f}",
                    *("" if part is None else f"{part:.4f}" for part in parts),
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
        f"tenth of the features beside tables and batches. Ginex's way has the superbatch of "
        f"{', '.join(map(str, SUPERBATCHES))} that is fastest with SAGE on each graph. Maps have "
        "random advice.",
        published=[
            *("ginex-throughput-mean", "ginex-throughput-max"),
            *("ginex-readme-pygplus", "ginex-readme-ginex"),
            *("ginex-diskgnn-diskgnn", "ginex-diskgnn-marius", "ginex-diskgnn-dgl-map"),
        ],
        x_label="graph and model",
        y_label="seconds of a batch",
        kind="bars",
        series=series,
        columns=[
            *("graph, model", "system", "s a batch", "times ours"),
            *("rows there, s", "training, s", "rows a batch", "peak"),
        ],
        rows=rows,
        command=COMMAND,
        **judge(points),
    )


def _label(system: str, run: dict[str, Any]) -> str:
    more = f", superbatch {run['superbatch']}" if "superbatch" in run else ""
    return f"{LABELS[system]}{more}"


def judge(points: Points) -> dict[str, Any]:
    """Whether Ginex's way beats PyG+ as published, and what ours does."""
    pairs = [(middle(f[PYG]), middle(f[GINEX]), middle(f[OURS])) for _, f in points]
    known = [pair for pair in pairs if not any(map(math.isnan, pair))]
    if not known:
        return {"holds": "no", "explanation": "No graph has figures of all three systems."}
    gain = [pyg / ginex for pyg, ginex, _ in known]
    more = [pyg / ours for pyg, _, ours in known]
    won, mean = sum(ratio > 1 for ratio in gain), statistics.geometric_mean(gain)
    holds: Holds = "yes" if won == len(gain) else "partly" if won else "no"
    said = (
        f"Ginex's way has {mean:.2f} times the throughput of PyG+ in "
        f"the mean of {len(gain)} cells ({min(gain):.2f} to {max(gain):.2f}; ahead in {won}), and "
        f"ours {statistics.geometric_mean(more):.2f} times ({min(more):.2f} to {max(more):.2f}). "
        "Ginex's way is its policy, its neighbour cache, its switch and its trace files with our "
        f"planner and reader under them; PyG's sampler is its own. {_why(points, mean)}"
    )
    return {"holds": holds, "explanation": said}


def _why(points: Points, mean: float) -> str:
    """Why the gain is smaller than the published one: what a batch is spent on."""
    published = results.published()["ginex-throughput-mean"].value
    both = [(found[PYG], found[GINEX]) for _, found in points]
    timed = [pair for pair in both if all("gather" in one for runs in pair for one in runs)]
    if mean >= published or not timed:
        return ""
    share = {
        part: [statistics.median(one[part] / one["seconds"] for one in pyg) for pyg, _ in timed]
        for part in ("gather", "training")
    }
    faster = [
        statistics.median(one["gather"] for one in pyg)
        / statistics.median(one["gather"] for one in ginex)
        for pyg, ginex in timed
    ]
    bound = statistics.geometric_mean(1 / max(1e-9, 1 - one) for one in share["gather"])
    return (
        f"The published mean is {published:g}. What a batch of PyG+ is spent on bounds the gain "
        f"here: rows take {100 * min(share['gather']):.0f} to {100 * max(share['gather']):.0f} % "
        f"of it and training on the CPU {100 * min(share['training']):.0f} to "
        f"{100 * max(share['training']):.0f} %, so that rows in no time at all would give "
        f"{bound:.2f} times the throughput; Ginex's way has its rows in "
        f"{statistics.geometric_mean(faster):.2f} times fewer seconds. Likely beside it: our "
        "graphs fit in few pages, so that a map with 64 threads faults less than at a billion "
        "edges, and training is on a GPU in the paper."
    )
