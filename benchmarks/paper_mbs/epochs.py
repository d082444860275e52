"""Figures of whole epochs: their parts by ranks and mode, the phases of sampling, and scaling."""

from typing import Any

import numpy as np
from common.figures import Figure, Series

from foregather import Graph
from foregather.dist.forecast.cluster_forecast import Model
from foregather.plan.line import Line
from foregather.sampling import Neighbor
from foregather.units import format_bytes

from . import worlds
from .worlds import RATE, median_of, scenes, size_of, told

PARTS = ("sampling", "features", "propagation")
PHASES = ("frontier", "probability", "picks", "extraction")
NAMES = {"sage": "GraphSAGE (15, 10, 5)", "ladies": "LADIES (512, 512)"}
COMMAND = "python benchmarks/paper.py --paper mbs --only {}{}"
INSIDE = 4  # ranks of a machine, as in the published runs' nodes
FAST, SLOW, LATENCY = 25e9, 2.5e9, 20e-6  # bytes a second inside and between machines, seconds


def command(name: str, quick: bool) -> str:
    return COMMAND.format(name, " --quick" if quick else "")


def name_of(case: dict[str, Any]) -> str:
    link = "" if case["ranks"] == 1 else f", {case['rate'].replace('none', 'no limit')}"
    mode = "one rank" if case["ranks"] == 1 else case["mode"]
    return f"p = {case['ranks']}, {mode}{link}"


def _epoch_rows(cases: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for case in cases:
        parts = [median_of(case, part) for part in PARTS]
        sent = [median_of(case, f"{part}_bytes") for part in ("sampling", "feature")]
        rows.append(
            [
                str(case["ranks"]),
                case["rate"],
                case["mode"],
                *(f"{s:.3f}" for s in parts),
                f"{sum(parts):.3f}",
                *(format_bytes(int(size)) for size in sent),
            ]
        )
    return rows


def _epoch(rule: str, quick: bool) -> Figure:
    """Epochs with one sampler, parts stacked."""
    cases = [case for case in scenes(quick) if case["rule"] == rule]
    drawn = [case for case in cases if case["ranks"] == 1 or case["rate"] == RATE]
    series = [
        Series(part, [name_of(c) for c in drawn], [median_of(c, part) for c in drawn])
        for part in PARTS
    ]
    total = {
        (c["ranks"], c["rate"], c["mode"]): sum(median_of(c, part) for part in PARTS) for c in cases
    }
    four = {mode: total[4, RATE, mode] for mode in worlds.MODES}
    free = {mode: total[4, "none", mode] for mode in worlds.MODES}
    falls = total[2, "none", "owner"] < total[1, "none", "replicated"]
    ahead = four["owner"] < four["paper"] and four["replicated"] < four["paper"]
    sampling = {
        c["mode"]: median_of(c, "sampling") for c in cases if (c["ranks"], c["rate"]) == (4, RATE)
    }
    text = (
        f"On 4 ranks with links of {RATE}, an epoch takes {four['replicated']:.2f} s with the "
        f"topology on every rank, {four['owner']:.2f} s partitioned (owners pick) and "
        f"{four['paper']:.2f} s by the published product; unlimited {free['replicated']:.2f}, "
        f"{free['owner']:.2f} and {free['paper']:.2f} s. "
        f"Sampling alone, shaped: {sampling['replicated']:.3f}, {sampling['owner']:.3f} and "
        f"{sampling['paper']:.3f} s. "
        + ("Two ranks are faster than one" if falls else "Two ranks are no faster than one")
        + "; four share two cores, so that going from two to four shows links and not speed."
    )
    return Figure(
        key="epoch" if rule == "sage" else "epoch_ladies",
        paper="mbs",
        title=f"Epoch by part: {NAMES[rule]}",
        setting=f"{told(quick)}; bulks of all of a rank's minibatches; parts kept apart by a "
        "barrier; published exchange of features in mode paper; in the others planned, with room "
        "for a quarter of all rows, empty at the start of an epoch",
        published=["mbs-quiver", "mbs-outside-ogb"] if rule == "sage" else [],
        x_label="",
        y_label="seconds an epoch",
        kind="stacked",
        series=series,
        columns=[
            "p",
            "link",
            "mode",
            *(f"{part}, s" for part in PARTS),
            "epoch, s",
            "sampling sent",
            "features sent",
        ],
        rows=_epoch_rows(cases),
        holds="yes" if ahead and falls else "partly",
        explanation=text,
        command=command("epoch" if rule == "sage" else "epoch_ladies", quick),
    )


def epoch(quick: bool) -> Figure:
    """GraphSAGE."""
    return _epoch("sage", quick)


def epoch_ladies(quick: bool) -> Figure:
    """LADIES."""
    return _epoch("ladies", quick)


def within_sampling(quick: bool) -> Figure:
    """Phases of sampling over a partition, computing and links apart."""
    cases = [c for c in scenes(quick) if c["ranks"] == 4 and c["mode"] != "replicated"]
    labels = [f"{c['rule']}, {c['mode']}, {c['rate'].replace('none', 'no limit')}" for c in cases]
    series, rows = [], []
    for phase in PHASES:
        for name in (phase, f"{phase} (links)"):
            spent = [median_of(case, name) for case in cases]
            if any(seconds > 1e-6 for seconds in spent):
                series.append(Series(name, labels, spent))
                rows.append([name, *(f"{seconds:.3f}" for seconds in spent)])
    links = [sum(median_of(c, f"{p} (links)") for p in PHASES) for c in cases]
    whole = [sum(median_of(c, p) for p in PHASES) for c in cases]
    share = [100 * on / max(1e-9, on + own) for on, own in zip(links, whole, strict=True)]
    rows.append(["share on links", *(f"{value:.0f} %" for value in share)])
    shaped = [s for s, c in zip(share, cases, strict=True) if c["rate"] == RATE]
    free = [s for s, c in zip(share, cases, strict=True) if c["rate"] == "none"]
    text = (
        f"Links of {RATE} take {min(shaped):.0f} to {max(shaped):.0f} % of sampling, "
        f"without a limit {min(free):.0f} to {max(free):.0f} % (the wait for ranks that share a "
        "core is in it). In the published product it is probability, the fetching of whole rows, "
        "that is on links; owners that pick send less, and have no phase of probability for "
        "GraphSAGE at all."
    )
    return Figure(
        key="within_sampling",
        paper="mbs",
        title="Inside sampling: phases, computing and links",
        setting=f"{told(quick)}; 4 ranks, topology partitioned; mean of the ranks",
        published=[],
        x_label="",
        y_label="seconds an epoch, mean of the ranks",
        kind="stacked",
        series=series,
        columns=["phase, s", *labels],
        rows=rows,
        holds="yes" if min(shaped) > 50 else "partly",
        explanation=text,
        command=command("within_sampling", quick),
    )


# ---- scaling -----------------------------------------------------------------------------------


def _links(graph: Graph, ranks: int, mode: str, line: Line, batches: int) -> tuple[float, int]:
    """Seconds on links of an epoch with the c that is fastest, and that c."""
    found = []
    for c in (1, 2, 4, 8):
        if ranks % (c * c) == 0:
            made = _model(graph, ranks, c, batches, line).forecast(grid_rows=2, bulks=1)
            costs = made.default if mode == "owner" else made.paper
            found.append((sum(cost.seconds for cost in costs.values()), c))
    return min(found)


def _two_classes(ranks: int) -> Line:
    """The peers of a rank in its own machine are as near as their share of all peers."""
    near = (min(INSIDE, ranks) - 1) / (ranks - 1)
    return Line(LATENCY, 1 / (near / FAST + (1 - near) / SLOW))


def _model(graph: Graph, ranks: int, c: int, batches: int, line: Line) -> Model:
    size = size_of(graph.num_nodes <= size_of(True).nodes)
    rng = np.random.default_rng(0)
    seeds = np.concatenate(
        [rng.choice(graph.num_nodes, size.seeds, replace=False) for _ in range(batches)]
    )
    return Model(
        graph,
        Neighbor(worlds.SAGE, expand="per-layer"),
        seeds,
        ranks,
        c,
        line,
        batch_size=size.seeds,
        bulk=max(1, batches // ranks),
        row_bytes=4 * size.width,
        memory=graph.num_nodes * 4 * size.width // 4 + (16 << 20),
    )


def scaling(quick: bool) -> Figure:
    """Modelled: computing as measured, links of two classes; checked where ranks were measured."""
    graph, size = Graph.open(worlds.graph_path(quick)), size_of(quick)
    cases = {(c["ranks"], c["rate"], c["mode"]): c for c in scenes(quick) if c["rule"] == "sage"}
    work = {}  # seconds of computing a minibatch, on the 2 ranks that had a core each
    for mode in ("owner", "paper"):
        one = cases[2, "none", mode]
        own = sum(median_of(one, p) for p in (*PHASES, "plan", "gather"))
        work[mode] = 2 * (own + median_of(one, "propagation")) / size.batches
    rows, checked = [], []
    for mode in ("owner", "paper"):
        for ranks in (2, 4):
            real = sum(median_of(cases[ranks, RATE, mode], part) for part in PARTS)
            crowd = max(1.0, ranks / 2)  # ranks that share a core
            both, wait, alone = cases[ranks, RATE, mode]["line"]
            line = Line(wait, both, one_way=alone)
            made = _model(graph, ranks, 1, size.batches, line).forecast(grid_rows=2, bulks=1)
            costs = made.default if mode == "owner" else made.paper
            links = sum(cost.seconds for cost in costs.values())
            said = work[mode] * size.batches / ranks * crowd + links
            checked.append(said / real)
            rows.append([f"{ranks}", mode, f"{RATE}, c = 1", f"{said:.2f}", f"{real:.2f}"])
    places, batches = [8, 16, 32, 64, 128], 128
    series = []
    for mode in ("owner", "paper"):
        spent = []
        for ranks in places:
            links, c = _links(graph, ranks, mode, _two_classes(ranks), batches)
            spent.append(work[mode] * batches / ranks + links)
            where = f"two classes, c = {c}"
            rows.append([f"{ranks}", mode, where, f"{spent[-1]:.3f}", "not measured"])
        series.append(Series(f"{mode}, modelled", [*places], spent))
    gains = [one.y[0] / one.y[-1] for one in series]
    gains = [g if g >= 1 else -1 / g for g in gains]
    told_gain = [f"{abs(g):.1f} times {'shorter' if g > 0 else 'longer'}" for g in gains]
    text = (
        f"Modelled, not measured: from 8 to 128 ranks an epoch gets {told_gain[0]} when owners "
        f"pick and {told_gain[1]} by the published product, each with its best c (16 would be "
        f"perfect). Checked on the 4 worlds that were measured, modelled over measured seconds are "
        f"{min(checked):.2f} to {max(checked):.2f}; the line there was measured between "
        "the ranks, 4 of which share two cores. Nothing here says how fast 128 GPUs are."
    )
    return Figure(
        key="scaling",
        paper="mbs",
        title="Scaling to 128 ranks, modelled",
        setting=f"{told(quick)}; modelled epoch of {batches} minibatches; computing as measured on "
        f"2 ranks of this CPU; {INSIDE} ranks a machine, {FAST / 1e9:g} GB/s inside and "
        f"{SLOW / 1e9:g} GB/s between machines, {LATENCY * 1e6:g} us a message; bytes and messages "
        "by rehearsal of two ranks",
        published=["mbs-quiver", "mbs-outside-ogb"],
        x_label="ranks",
        y_label="seconds an epoch, modelled",
        kind="line",
        series=series,
        columns=["p", "mode", "links", "modelled, s", "measured, s"],
        rows=rows,
        holds="needs GPUs",
        explanation=text,
        command=command("scaling", quick),
    )
