"""Figures of full-graph training over ranks by depth and by chunks, and memory of each rank."""

import itertools
import statistics
from typing import Any, Literal

from common.facts import Facts
from common.figures import Figure, Series
from common.report import median_spread
from common.results import published

from foregather.units import format_bytes

from .schemes import RANKS, RATE, SCHEMES, case, command, middle, repeats, setting, world

LOGGED = (8, 16, 32, 64, 128)  # depths of the authors' logs
OUTLIER = 1.5  # times the mean of the others
TOLD = {
    "yes": "It rises at every step, and from first to last by more than the spread: graph "
    "parallelism sends boundary rows at every layer, the pipeline only between stages.",
    "partly": "From first to last it rises, but a step falls or the spread is as large, so that "
    "these epochs do not show that it rises.",
    "no": "It does not rise with depth here: a step falls by more than the spread, or the last "
    "gain is no larger than the first.",
}


def depths(quick: bool) -> list[dict[str, Any]]:
    """Both schemes by depth, their epochs by turns."""
    tried = LOGGED[:3] if quick else LOGGED
    cases = [case("gcnii", s, d) for d in tried for s in ("graph-parallel", "pipeline")]
    return world(RATE, cases, repeats(quick))


def gain_of(graph: list[float], pipe: list[float]) -> tuple[float, float, float]:
    """Ratio of the medians, and the least and largest of epochs that followed each other."""
    each = [one / two for one, two in zip(graph, pipe, strict=True)]
    return statistics.median(graph) / statistics.median(pipe), min(each), max(each)


def trend(gains: list[tuple[float, float, float]]) -> Literal["yes", "partly", "no"]:
    """Whether gains rise: "yes" if each does and the last is above the first beyond the spread."""
    steps = list(itertools.pairwise(gains))
    clear = gains[-1][1] > gains[0][2]
    if clear and all(after[0] >= before[0] for before, after in steps):
        return "yes"
    fallen = any(after[2] < before[1] for before, after in steps)  # beyond the spread
    return "partly" if gains[-1][0] > gains[0][0] and not fallen else "no"


def depth(facts: Facts, quick: bool) -> Figure:
    """Gain by depth; every depth of the logs has its row, run here or not."""
    found, numbers = facts(depths, quick), published()
    times = {(one["depth"], one["scheme"]): one["seconds"] for one in found}
    tried = sorted({one["depth"] for one in found})
    both = {d: [times[d, s] for s in ("graph-parallel", "pipeline")] for d in tried}
    gains = [gain_of(*both[d]) for d in tried]
    ids = [f"gnnpipe-log-depth-squirrel-{d}" for d in LOGGED]
    theirs = [numbers[key].value for key in ids]
    rows = []
    for d, beside in zip(LOGGED, theirs, strict=True):
        own = ["not run at this size", "", ""]
        if d in tried:
            ratio, low, high = gains[tried.index(d)]
            own = [*map(median_spread, both[d]), f"{ratio:.2f} ({low:.2f} to {high:.2f})"]
        rows.append([str(d), *own, f"{beside:g}"])
    holds = trend(gains)
    told = ", ".join(
        f"{ratio:.2f} ({low:.2f} to {high:.2f}) with {d}"
        for d, (ratio, low, high) in zip(tried, gains, strict=True)
    )
    return Figure(
        key="depth",
        paper="gnnpipe",
        title="Gain of the pipeline by depth, GCNII",
        setting=f"{setting(quick)}, and depths; links of {RATE}",
        published=ids,
        x_label="layers",
        y_label="epoch, graph-parallel / pipeline",
        kind="line",
        series=[
            Series("ours, 4 ranks", [*tried], [ratio for ratio, _, _ in gains]),
            Series("authors' logs, 8 GPUs", [*LOGGED], theirs),
        ],
        columns=["layers", "graph-parallel, s", "pipeline, s", "graph / pipeline", "logs"],
        rows=rows,
        holds=holds,
        explanation=f"Gain by layers, with the range of epochs that followed each other: {told}. "
        + TOLD[holds],
        command=command("depth", quick),
    )


def by_chunks(quick: bool) -> list[dict[str, Any]]:
    """The pipeline with K = S to 8 S."""
    cases = [case("gcnii", "pipeline", chunks=k) for k in (4, 8, 16, 32)]
    return world(RATE, cases, repeats(quick))


def chunks(facts: Facts, quick: bool) -> Figure:
    """Seconds by the number of chunks."""
    found = facts(by_chunks, quick)
    counts = [one["chunks"] for one in found]
    spent = [middle(one) for one in found]
    rows = [
        [str(k), f"{(RANKS - 1) / (k + RANKS - 1):.0%}", f"{s:.2f}", f"{middle(one, 'waited'):.2f}"]
        for k, s, one in zip(counts, spent, found, strict=True)
    ]
    best = counts[spent.index(min(spent))]
    return Figure(
        key="chunks",
        paper="gnnpipe",
        title="Epoch of the pipeline by chunks, GCNII",
        setting=f"{setting(quick)}; links of {RATE}; 32 layers, K = S to 8 S",
        published=[],
        x_label="K, chunks",
        y_label="seconds an epoch",
        kind="line",
        series=[Series("pipeline, 4 stages", [*counts], spent)],
        columns=["K", "bubble by the formula", "epoch, s", "on messages, s"],
        rows=rows,
        holds="yes" if best > counts[0] else "partly",
        explanation=f"K = {best} is fastest of {', '.join(map(str, counts))}: more chunks make the "
        "bubble smaller, (S-1)/(K+S-1) of a phase, and each chunk's work less efficient. The "
        "authors take 4 chunks a device."
        + ("" if best > counts[0] else " Here no bubble is worth closing (likely: 4 ranks share 2 "
           "cores, so a waiting stage leaves its core to another)."),
        command=command("chunks", quick),
    )  # fmt: skip


def peaks() -> dict[str, list[int]]:
    """What each rank takes, a world for each scheme."""
    made = {}
    for s in SCHEMES:  # a small run first, so that what torch allocates once is there before
        cases = [case("gcnii", s, 4, width=8), case("gcnii", s, width=64)]
        made[s] = world(None, cases, 1)[1]["memory"]
    return made


def memory(facts: Facts, quick: bool) -> Figure:
    """Memory by scheme and rank."""
    worlds = facts(peaks)
    worst = {name: max(ranks) for name, ranks in worlds.items()}
    ratio = worst["graph-parallel"] / worst["pipeline"]
    mean = sum(worlds["graph-parallel"]) / max(1, sum(worlds["pipeline"]))
    fullest, others = _fullest(worlds["graph-parallel"])
    ids = [f"gnnpipe-log-memory-reddit-{way}" for way in ("graph", "pipe", "hybrid")]
    graph, pipe, both = (published()[key].value for key in ids)
    rows = [
        [name, *(format_bytes(max(0, one)) for one in ranks), format_bytes(worst[name])]
        for name, ranks in worlds.items()
    ]
    return Figure(
        key="memory",
        paper="gnnpipe",
        title="Memory of each rank, GCNII with 32 layers",
        setting="squirrel, width 64, features reduced to 64 columns; 4 ranks, two epochs; peak of "
        "the process minus what it had before the run was made, after a small run in the same "
        "scheme; the cutting into chunks is in it; nothing recomputed",
        published=ids,
        x_label="",
        y_label="MB",
        kind="bars",
        series=[
            Series(f"rank {rank}", list(worlds), [max(0, w[rank]) / 1e6 for w in worlds.values()])
            for rank in range(RANKS)
        ],
        columns=["scheme", *(f"rank {rank}" for rank in range(RANKS)), "largest"],
        rows=rows,
        holds="yes" if min(ratio, mean) > 1.2 else "partly" if max(ratio, mean) > 1.2 else "no",
        explanation=f"The largest rank of graph parallelism takes {ratio:.2f} times what that of "
        f"the pipeline takes, the mean of its ranks {mean:.2f} "
        f"times ({graph:g} / {pipe:g} = {graph / pipe:.1f} in the logs, on Reddit, "
        f"where the hybrid has {both:g} GB). Here a way holds only its "
        "own rows and those it reads, where every GPU of the authors' holds room for all rows; a "
        f"stage keeps two buffers an aggregation. {_hubs(fullest, others)}",
        command=command("memory", quick),
    )


def _fullest(ranks: list[int]) -> tuple[int, float]:
    """Bytes of the fullest rank, and the mean of the others."""
    rest = sorted(ranks)[:-1]
    return max(ranks), statistics.mean(rest)


def _hubs(fullest: int, others: float) -> str:
    """Whether one way carries the ratio, and why."""
    if fullest < OUTLIER * others:
        return "No way stands out from the others."
    return (
        f"The ratio of the largest is that of one way, which takes {format_bytes(fullest)} where "
        f"the others take {format_bytes(int(others))} in the mean: ways are balanced by edges, so "
        "that on a graph with a few hubs one way has most of the nodes, and most of the memory."
    )
