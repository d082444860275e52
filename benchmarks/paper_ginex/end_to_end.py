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

__all__ = ["COMMAND", "SUPERBATCHES", "end_to_end", "need_pyg_lib", "told_losses"]

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
FEW = (32, 128)  # in the quick form
ROUNDS = 3
_GINEX = LABELS[GINEX]
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


def best_superbatch(case: Any, memory: int, sizes: tuple[int, ...], least: int) -> int:
    """The superbatch with which Ginex's way is fastest in one run of each; they are not kept."""
    tried = {
        size: turns(case, (GINEX,), "SAGE", memory, 1, superbatch=size, least=least)[GINEX]
        for size in sizes
    }
    through = [size for size in sizes if not math.isnan(middle(tried[size]))]
    return min(through or sizes[:1], key=lambda size: middle(tried[size]))


@functools.cache
def epochs(quick: bool) -> dict[str, Any]:
    """Every system on every graph, by turns; in the quick form with GCN on the first graph alone.

    The superbatch of Ginex's way is chosen with SAGE: what it reads does not depend on the model.
    """
    need_pyg_lib()
    left = ("PyG+, own gather",) if quick else ()
    systems = tuple(system for system in SYSTEMS if system not in left)
    least, sizes = (48, FEW) if quick else (256, SUPERBATCHES)
    points, about, memories, disk = [], [], [], {}
    for name in NAMES:
        case = get_case(name, quick)
        memory = memory_of(case, SHARE)
        about.append(case.about)
        disk[name] = sum(path.stat().st_size for path in (case.folder / "graph").rglob("*.npy"))
        memories.append(format_bytes(memory))
        size = best_superbatch(case, memory, sizes, least)
        for model in ("SAGE",) if quick and name != NAMES[0] else ("SAGE", "GCN"):
            found = turns(case, systems, model, memory, ROUNDS, least=least, superbatch=size)
            found[GINEX] = [{**one, "superbatch": size} for one in found[GINEX]]
            points.append((f"{name}, {model}", found))
    made = {"points": points, "about": about, "memories": memories, "systems": systems}
    return {**made, "disk": disk, "batch": case.batch, "sizes": sizes}


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
                    _counted(found[system]),
                    f"{last['skipped']} in {last['before']:.1f} s" if "before" in last else "",
                    f"{last['rows']:,.0f}" if "rows" in last else "",
                    format_bytes(last["peak"]) if last.get("peak") else "",
                ]
            )
    return Figure(
        key="end_to_end",
        paper="ginex",
        title="Training from disk: seconds of a batch",
        setting=f"{'; '.join(about)}. Batches of {kept['batch']}, fan-out {FANOUT}, "
        "PyG's model with 64 hidden columns, trimmed, the same for all; each run is a process in a "
        "cgroup of what it holds after its "
        f"imports + {format_bytes(MODEL_BYTES)} for the model + {', '.join(memories)} by graph: a "
        f"tenth of the features beside tables and batches. Ginex's way has the superbatch of "
        f"{', '.join(map(str, kept['sizes']))} that is fastest with SAGE on each graph. Maps have "
        f"random advice. {ROUNDS} rounds, systems by turns, each run a new process. One rule for "
        "all: the first batches that a system makes together (a bulk, a superbatch), those it has "
        "in flight then, and what it does once are not timed and stand apart in the table; after "
        "them at least two whole bulks or superbatches are, and more batches would follow.",
        published=[
            *("ginex-throughput-mean", "ginex-throughput-max"),
            *("ginex-readme-pygplus", "ginex-readme-ginex"),
            *("ginex-diskgnn-diskgnn", "ginex-diskgnn-marius", "ginex-diskgnn-dgl-map"),
            *("ginex-diskgnn-ginex", "ginex-diskgnn-ginex-sampling"),
        ],
        x_label="graph and model",
        y_label="seconds of a batch",
        kind="bars",
        series=series,
        columns=[
            *("graph, model", "system", "s a batch", "times ours"),
            *("rows there, s", "training, s", "timed batches", "before them"),
            *("rows a batch", "peak"),
        ],
        rows=rows,
        command=COMMAND,
        **judge(points),
    )


def _label(system: str, run: dict[str, Any]) -> str:
    more = f", superbatch {run['superbatch']}" if "superbatch" in run else ""
    return f"{LABELS[system]}{more}"


def _counted(runs: list[dict[str, Any]]) -> str:
    """Rounds and timed batches of each."""
    counts = sorted({one["batches"] for one in runs if "batches" in one})
    return f"{len(runs)} x {', '.join(map(str, counts))}" if counts else ""


def judge(points: Points) -> dict[str, Any]:
    """Whether Ginex's way beats PyG+ as published, and what ours does."""
    cells = {label: [middle(f[one]) for one in (PYG, GINEX, OURS)] for label, f in points}
    known = {label: three for label, three in cells.items() if not any(map(math.isnan, three))}
    if not known:
        return {"holds": "no", "explanation": "No graph has figures of all three systems."}
    gain = [pyg / ginex for pyg, ginex, _ in known.values()]
    more = [pyg / ours for pyg, _, ours in known.values()]
    won, mean = sum(ratio > 1 for ratio in gain), statistics.geometric_mean(gain)
    holds: Holds = "yes" if won == len(gain) else "partly" if won else "no"
    beside = {label: ours / ginex for label, (_, ginex, ours) in known.items()}
    said = (
        f"Ginex's way has {mean:.2f} times the throughput of PyG+ in "
        f"the mean of {len(gain)} cells ({min(gain):.2f} to {max(gain):.2f}; ahead in {won}), and "
        f"ours {statistics.geometric_mean(more):.2f} times ({min(more):.2f} to {max(more):.2f}). "
        f"{told_losses(beside, _GINEX)} "
        "Ginex's way is its policy, its neighbour cache, its switch and its trace files with our "
        f"planner and reader under them; PyG's sampler is its own. {_why(points, mean)}"
    )
    return {"holds": holds, "explanation": said.strip()}


def told_losses(ratios: dict[str, float], other: str) -> str:
    """Where ours takes more seconds than another, from the ratios of ours to it."""
    lost = {label: ratio for label, ratio in ratios.items() if ratio > 1}
    if not lost:
        return f"Ours loses to {other} in none of {len(ratios)} cells."
    told = "; ".join(f"{label}: {ratio:.2f} times its seconds" for label, ratio in lost.items())
    return f"Ours loses to {other} in {len(lost)} of {len(ratios)} cells ({told})."


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
