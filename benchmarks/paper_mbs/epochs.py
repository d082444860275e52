"""Figures of whole epochs: their parts by ranks and mode, the phases of sampling, and scaling."""

from typing import Any

import numpy as np
from common.facts import Facts
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
PLACES, BATCHES = (8, 16, 32, 64, 128), 128  # modelled ranks, minibatches of their epoch
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


def _epoch(rule: str, facts: Facts, quick: bool) -> Figure:
    """Epochs with one sampler, parts stacked."""
    cases = [case for case in facts(scenes, quick) if case["rule"] == rule]
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
        f"{sampling['paper']:.3f} s. {_more_ranks(cases, falls)}{_eight(cases)}"
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


def _more_ranks(cases: list[dict[str, Any]], falls: bool) -> str:
    """Whether two ranks are faster than one, and where it is lost if they are not."""
    by = {(c["ranks"], c["rate"], c["mode"]): c for c in cases}
    one, two = by[1, "none", "replicated"], by[2, "none", "owner"]
    shared = "more than two share two cores, so that they show links and not speed."
    if falls:
        return f"Two ranks are faster than one; {shared}"
    lost = {part: median_of(two, part) - median_of(one, part) for part in PARTS}
    worst = max(lost, key=lambda part: lost[part])
    links = sum(median_of(two, f"{phase} (links)") for phase in PHASES)
    return (
        f"Two ranks that hold half of the topology each are no faster than one that holds all of "
        f"it: {worst} takes {median_of(two, worst):.3f} s instead of {median_of(one, worst):.3f} "
        f"s, of which {links:.3f} s are messages of sampling even without a limit, and the whole "
        f"epoch of one rank is only {sum(median_of(one, p) for p in PARTS):.3f} s, so that there "
        f"is less to divide than ranks say to each other; {shared}"
    )


def _eight(cases: list[dict[str, Any]]) -> str:
    """What 8 ranks add."""
    found = {c["mode"]: c for c in cases if c["ranks"] == 8}
    if not found:
        return ""
    spent = {mode: sum(median_of(c, part) for part in PARTS) for mode, c in found.items()}
    told = ", ".join(f"{mode} {seconds:.2f} s" for mode, seconds in spent.items())
    return f" On 8 ranks, with links of {RATE}: {told}."


def epoch(facts: Facts, quick: bool) -> Figure:
    """GraphSAGE."""
    return _epoch("sage", facts, quick)


def epoch_ladies(facts: Facts, quick: bool) -> Figure:
    """LADIES."""
    return _epoch("ladies", facts, quick)


def within_sampling(facts: Facts, quick: bool) -> Figure:
    """Phases of sampling over a partition, computing and links apart."""
    found = facts(scenes, quick)
    cases = [c for c in found if c["ranks"] == 4 and c["mode"] != "replicated"]
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
        f"core is in it). {_most_on_links(cases)} Owners that pick have no phase of probability "
        "for GraphSAGE at all. Products, sums over columns and picks are in C++ in both modes; "
        "NumPy sorts ids and copies messages."
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


def _most_on_links(cases: list[dict[str, Any]]) -> str:
    """The phase with most seconds on links, of the published product and of owners."""
    told = []
    for mode, name in (("paper", "the published product"), ("owner", "owners that pick")):
        (one,) = [c for c in cases if (c["rule"], c["mode"], c["rate"]) == ("sage", mode, RATE)]
        on = {phase: median_of(one, f"{phase} (links)") for phase in PHASES}
        most = max(on, key=lambda phase: on[phase])
        sent = format_bytes(int(median_of(one, "sampling_bytes")))
        told.append(f"of {name} it is {most} ({on[most]:.3f} s, {sent} sent in all phases)")
    return f"For GraphSAGE the phase that is longest on links: {'; '.join(told)}."


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


def _work(cases: dict[tuple[int, str, str], dict[str, Any]], mode: str, batches: int) -> float:
    """Seconds of computing a minibatch, on the 2 ranks that had a core each."""
    one = cases[2, "none", mode]
    own = sum(median_of(one, p) for p in (*PHASES, "plan", "gather"))
    return 2 * (own + median_of(one, "propagation")) / batches


def modelled(quick: bool) -> dict[str, list[Any]]:
    """Seconds on links by the model: of the worlds that were measured, and of 8 to 128 ranks."""
    graph, size = Graph.open(worlds.graph_path(quick)), size_of(quick)
    lines = {c["ranks"]: c["line"] for c in scenes(quick) if "line" in c and c["rate"] == RATE}
    real, more = [], []
    for mode in ("owner", "paper"):
        for ranks, (both, wait, alone) in lines.items():
            line = Line(wait, both, one_way=alone)
            made = _model(graph, ranks, 1, size.batches, line).forecast(grid_rows=2, bulks=1)
            costs = made.default if mode == "owner" else made.paper
            real.append([mode, ranks, sum(cost.seconds for cost in costs.values())])
        for ranks in PLACES:
            seconds, c = _links(graph, ranks, mode, _two_classes(ranks), BATCHES)
            more.append([mode, ranks, seconds, c])
    return {"real": real, "more": more}


def scaling(facts: Facts, quick: bool) -> Figure:
    """Modelled: computing as measured, links of two classes; checked where ranks were measured."""
    size, told_by = size_of(quick), facts(modelled, quick)
    found = facts(scenes, quick)
    cases = {(c["ranks"], c["rate"], c["mode"]): c for c in found if c["rule"] == "sage"}
    work = {mode: _work(cases, mode, size.batches) for mode in ("owner", "paper")}
    rows, checked = [], {}
    points: dict[str, list[tuple[int, float]]] = {}
    for mode, ranks, links in told_by["real"]:
        real = sum(median_of(cases[ranks, RATE, mode], part) for part in PARTS)
        crowd = max(1.0, ranks / 2)  # ranks that share a core
        said = work[mode] * size.batches / ranks * crowd + links
        checked[ranks, mode] = said / real
        points.setdefault(f"{mode}, measured, {RATE}", []).append((ranks, real))
        points.setdefault(f"{mode}, modelled, {RATE}", []).append((ranks, said))
        rows.append([f"{ranks}", mode, f"{RATE}, c = 1", f"{said:.2f}", f"{real:.2f}"])
    series = []
    for mode in ("owner", "paper"):
        own = [one for one in told_by["more"] if one[0] == mode]
        spent = [work[mode] * BATCHES / ranks + links for _, ranks, links, _ in own]
        for (_, ranks, _, c), seconds in zip(own, spent, strict=True):
            where = f"two classes, c = {c}"
            rows.append([f"{ranks}", mode, where, f"{seconds:.3f}", "not measured"])
        series.append(Series(f"{mode}, modelled, fast links", [*PLACES], spent))
    gains = [one.y[0] / one.y[-1] for one in series]
    series += [Series(n, [p for p, _ in own], [y for _, y in own]) for n, own in points.items()]
    gains = [g if g >= 1 else -1 / g for g in gains]
    told_gain = [f"{abs(g):.1f} times {'shorter' if g > 0 else 'longer'}" for g in gains]
    text = (
        f"Modelled, not measured: from 8 to 128 ranks an epoch gets {told_gain[0]} when owners "
        f"pick and {told_gain[1]} by the published product, each with its best c (16 would be "
        f"perfect). Checked on the {len(checked)} worlds that were measured, up to "
        f"{max(ranks for ranks, _ in checked)} ranks, modelled over measured seconds are "
        f"{min(checked.values()):.2f} to {max(checked.values()):.2f}; the line there was measured "
        "between the ranks, of which more than two share two cores. Nothing here says how fast 128 "
        "GPUs are."
    )
    return Figure(
        key="scaling",
        paper="mbs",
        title="Scaling to 128 ranks, modelled",
        setting=f"{told(quick)}; modelled epoch of {BATCHES} minibatches; computing as measured on "
        f"2 ranks of this CPU; {INSIDE} ranks a machine, {FAST / 1e9:g} GB/s inside and "
        f"{SLOW / 1e9:g} GB/s between machines, {LATENCY * 1e6:g} us a message; bytes and messages "
        "by rehearsal of two ranks",
        published=["mbs-quiver", "mbs-outside-ogb"],
        x_label="ranks",
        y_label="seconds an epoch",
        kind="line",
        series=series,
        columns=["p", "mode", "links", "modelled, s", "measured, s"],
        rows=rows,
        holds="needs GPUs",
        explanation=text,
        command=command("scaling", quick),
    )
