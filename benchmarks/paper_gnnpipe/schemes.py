"""Figures of full-graph training over ranks: volume, seconds, overhead, depth, chunks, memory."""

import functools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from common.figures import Figure, Series
from common.graphs import data_folder
from common.namespaces import why_not
from common.results import published
from common.skip import skip
from common.world import run_over_links

from foregather.units import format_bytes

RANKS, RATE, WIDTH, DEPTH = 4, "200mbit", 32, 32
NAMES = {"gcn": "GCN", "sage": "GraphSAGE", "gcnii": "GCNII", "resgcn": "ResGCN+"}
SCHEMES = {
    "graph-parallel": {"mode": "exact", "ways": 4, "chunks": 4},
    "pipeline": {"mode": "fast", "ways": 1, "chunks": 16},
    "hybrid 2 x 2": {"mode": "fast", "ways": 2, "chunks": 16},
}
ABSTRACTS = ("v1", "v2")


def command(name: str, quick: bool) -> str:
    return f"python benchmarks/paper.py --paper gnnpipe --only {name}{' --quick' if quick else ''}"


def repeats(quick: bool) -> int:
    """Measured epochs of a case."""
    return 3 if quick else 7


def setting(quick: bool) -> str:
    """What all figures over ranks share."""
    return (
        f"squirrel (5,201 nodes, 401,907 edges with reverse ones), features reduced to 64 columns, "
        f"width {WIDTH}; {RANKS} gloo ranks with a thread each on 2 cores, in network namespaces; "
        "chunks by METIS; graph-parallel: 4 ways; pipeline: 4 stages, 16 chunks, mode fast; "
        "hybrid: 2 stages of 2 ways, 16 chunks; median of "
        f"{repeats(quick)} epochs on the slowest rank"
    )


def world(rate: str | None, cases: list[dict[str, Any]], turns: int) -> list[dict[str, Any]]:
    """Cases in one world of ranks."""
    if reason := why_not():
        skip(reason)
    data_folder()
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "spec.json"
        spec.write_text(json.dumps({"graph": "squirrel", "cases": cases, "repeats": turns}))
        run_over_links(str(Path(__file__).with_name("rank.py")), RANKS, rate, [str(spec)], 3600)
        found: list[dict[str, Any]] = json.loads((Path(folder) / "found.json").read_text())
    for one in found:
        told = f"{one['model']} {one['depth']} {one['scheme']} K={one['chunks']}"
        print(rate, told, one["seconds"], one["waited"], flush=True)
    return found


def case(model: str, scheme: str, depth: int = DEPTH, **more: Any) -> dict[str, Any]:
    made = {"model": model, "scheme": scheme, "depth": depth, "width": WIDTH}
    return made | SCHEMES[scheme] | more


@functools.cache
def epochs(quick: bool) -> list[dict[str, Any]]:
    """All models and schemes, links shaped and not."""
    made = []
    for rate in (RATE, None):
        models = NAMES if rate or not quick else ("gcnii",)
        cases = [case(model, scheme) for model in models for scheme in SCHEMES]
        made += [{**one, "rate": rate or "none"} for one in world(rate, cases, repeats(quick))]
    return made


def middle(one: dict[str, Any], name: str = "seconds") -> float:
    return statistics.median(one[name])


def _by(found: list[dict[str, Any]], rate: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["model"], one["scheme"]): one for one in found if one["rate"] == rate}


def geometric(values: list[float]) -> float:
    return statistics.geometric_mean(values)


# ---- figures -----------------------------------------------------------------------------------


def volume(quick: bool) -> Figure:
    """Bytes by graph and model, the logs' cells beside."""
    import pipeline_volume

    data_folder()
    graphs = {"squirrel": "squirrel", "coauthor_physics": "physics", "blogcatalog": ""}
    if not quick:
        graphs |= {"photo": "", "ogbn_arxiv": ""}
    numbers, rows, ratios, theirs = published(), [], {}, {}
    cited = [f"gnnpipe-{v}-volume-{kind}" for v in ABSTRACTS for kind in ("max", "mean")]
    for name, short in graphs.items():
        wide = 1000 if name == "squirrel" else 100  # as the authors ran them
        found = pipeline_volume.cell(name, wide)
        for model, shown in NAMES.items():
            cuts, pipe = found[model]["graph"], found[model]["relayed"]
            whole = min(cuts["edges"], cuts.get("nodes", cuts["edges"]))
            ratios[name, model] = whole / pipe
            beside = ""
            if short:
                ids = [f"gnnpipe-log-volume-{short}-{model}-{way}" for way in ("graph", "pipe")]
                cited += ids
                one, two = (numbers[key].value for key in ids)
                theirs[name, model] = one / two
                beside = f"{one:g} / {two:g} GiB = {one / two:.1f}"
            sizes = f"{whole / 2**30:.3f} / {pipe / 2**30:.3f} GiB"
            rows.append([name, shown, sizes, f"{whole / pipe:.1f}", beside])
    off = [ratios[key] / value for key, value in theirs.items()]
    labels = [f"{name}, {NAMES[model]}" for name, model in ratios]
    beside = [f"{name}, {NAMES[model]}" for name, model in theirs]
    values = [ratios[key] for key in ratios]
    return Figure(
        key="volume",
        paper="gnnpipe",
        title="Bytes: graph parallelism over the pipeline",
        setting="counted message by message by the planner (equal to the ledgers of real ranks, to "
        "the byte): 8 ranks, 32 layers, float32, width 100 and, as in the logs, 1000 on "
        "squirrel; 32 chunks; the better of two METIS cuts; skip tensors relayed, as the authors "
        "do",
        published=cited,
        x_label="",
        y_label="bytes of graph parallelism / bytes of the pipeline",
        kind="bars",
        series=[
            Series("ours", labels, values),
            Series("authors' logs", beside, list(theirs.values())),
        ],
        columns=["graph", "model", "graph / pipeline, ours", "ratio, ours", "authors' logs"],
        rows=rows,
        holds="yes" if all(0.5 < one < 2 for one in off) else "partly",
        explanation=f"Ratios of {min(values):.1f} to {max(values):.1f}, mean "
        f"{geometric(values):.1f} (geometric). In the {len(off)} cells that the logs have, ours "
        f"are {min(off):.2f} to {max(off):.2f} times theirs: chunks are cut by METIS anew, "
        "and first layers of the authors' are as wide as the features. Volume needs no GPU.",
        command=command("volume", quick),
    )


def epoch_time(quick: bool) -> Figure:
    """Seconds by model and scheme."""
    found, numbers = epochs(quick), published()
    shaped = _by(found, RATE)
    ids = [f"gnnpipe-log-epoch-squirrel-{m}-{way}" for m in NAMES for way in ("graph", "pipe")]
    rows, gains = [], []
    for one in found:
        base = middle(_by(found, one["rate"])[one["model"], "graph-parallel"])
        gain = base / middle(one)
        beside = ""
        if one["scheme"] == "pipeline":
            graph, pipe = (
                numbers[f"gnnpipe-log-epoch-squirrel-{one['model']}-{way}"].value
                for way in ("graph", "pipe")
            )
            beside = f"{graph:g} / {pipe:g} s = {graph / pipe:.2f}"
            if one["rate"] == RATE:
                gains.append(gain)
        cells = [f"{middle(one):.2f}", f"{gain:.2f}", format_bytes(one["sent"]), beside]
        rows.append([one["rate"], NAMES[one["model"]], one["scheme"], *cells])
    series = [
        Series(s, list(NAMES.values()), [middle(shaped[m, s]) for m in NAMES]) for s in SCHEMES
    ]
    free = _by(found, "none")
    slow = middle(free["gcnii", "graph-parallel"]) / middle(free["gcnii", "pipeline"])
    both = [middle(shaped[m, "graph-parallel"]) / middle(shaped[m, "hybrid 2 x 2"]) for m in NAMES]
    return Figure(
        key="epoch_time",
        paper="gnnpipe",
        title="Epoch by model and scheme, 32 layers",
        setting=f"{setting(quick)}; links of {RATE}, and none",
        published=[*(f"gnnpipe-{v}-epoch-{k}" for v in ABSTRACTS for k in ("max", "mean")), *ids],
        x_label="",
        y_label=f"seconds an epoch, links of {RATE}",
        kind="bars",
        series=series,
        columns=[
            "link",
            "model",
            "scheme",
            "epoch, s",
            "graph / this",
            "sent",
            "authors' logs, 8 GPUs: graph / pipeline",
        ],
        rows=rows,
        holds="no" if max(gains) < 1 else "yes" if min(*gains, slow) > 1 else "partly",
        explanation=f"With links of {RATE} the pipeline is {min(gains):.2f} to {max(gains):.2f} "
        f"times as fast as graph parallelism (mean {geometric(gains):.2f}), the hybrid "
        f"{min(both):.2f} to {max(both):.2f} times; without a limit GCNII's pipeline is "
        f"{slow:.2f} times as fast{'' if slow > 1 else ', that is slower'}. What is gained is "
        "what links cost: 4 ranks share 2 cores here, which hides bubbles that 8 GPUs would show.",
        command=command("epoch_time", quick),
    )


def overhead(quick: bool) -> Figure:
    """Seconds spent on messages."""
    found, numbers = epochs(quick), published()
    shaped = _by(found, RATE)
    rows, gains = [], []
    for one in found:
        base = _by(found, one["rate"])[one["model"], "graph-parallel"]
        ratio = middle(base, "waited") / max(1e-9, middle(one, "waited"))
        beside = ""
        if one["scheme"] == "pipeline":
            key = f"gnnpipe-log-overhead-squirrel-{one['model']}"
            beside = f"{numbers[key].value:g}"
            if one["rate"] == RATE:
                gains.append(ratio)
        share = 100 * middle(one, "waited") / middle(one)
        cells = [f"{middle(one, 'waited'):.2f}", f"{share:.0f} %", f"{ratio:.2f}", beside]
        rows.append([one["rate"], NAMES[one["model"]], one["scheme"], *cells])
    series = [
        Series(s, list(NAMES.values()), [middle(shaped[m, s], "waited") for m in NAMES])
        for s in SCHEMES
    ]
    ids = [f"gnnpipe-log-overhead-squirrel-{m}" for m in NAMES]
    loose = _by(found, "none")
    free = middle(loose["gcnii", "graph-parallel"], "waited")
    free /= middle(loose["gcnii", "pipeline"], "waited")
    return Figure(
        key="overhead",
        paper="gnnpipe",
        title="Communication overhead: seconds on messages",
        setting=f"{setting(quick)}; links of {RATE}, and none; seconds from asking for a message "
        "to having it, and of handing messages over, mean of the ranks: bubbles and the wait for a "
        "rank that shares a core are in it, which the published figure counts apart",
        published=[
            *(f"gnnpipe-{v}-overhead-{k}" for v in ABSTRACTS for k in ("max", "mean")),
            *ids,
        ],
        x_label="",
        y_label=f"seconds an epoch, links of {RATE}",
        kind="bars",
        series=series,
        columns=[
            "link",
            "model",
            "scheme",
            "on messages, s",
            "of the epoch",
            "graph / this",
            "authors' logs, 8 GPUs",
        ],
        rows=rows,
        holds="no" if max(gains) < 1 else "yes" if min(*gains, free) > 1 else "partly",
        explanation=f"With links of {RATE}, ranks of the pipeline spend {min(gains):.1f} to "
        f"{max(gains):.1f} times fewer seconds on messages than graph-parallel ones (mean "
        f"{geometric(gains):.1f}); without a limit {free:.2f} times, for GCNII. On slow links the "
        "direction is the published one; the factor is smaller, as "
        "our seconds contain bubbles, 4 ranks cut less than 8, and our graph-parallel baseline "
        "sends boundary rows while own rows are multiplied.",
        command=command("overhead", quick),
    )


def depth(quick: bool) -> Figure:
    """Speed-up by depth, and seconds by chunks."""
    depths, numbers = ((8, 16, 32) if quick else (8, 16, 32, 64, 128)), published()
    cases = [case("gcnii", s, d) for d in depths for s in ("graph-parallel", "pipeline")]
    found = world(RATE, cases, repeats(quick))
    times = {(one["depth"], one["scheme"]): middle(one) for one in found}
    gains = [times[d, "graph-parallel"] / times[d, "pipeline"] for d in depths]
    ids = [f"gnnpipe-log-depth-squirrel-{d}" for d in (8, 16, 32, 64, 128)]
    theirs = [numbers[key].value for key in ids]
    rows = [
        [
            str(d),
            f"{times[d, 'graph-parallel']:.2f}",
            f"{times[d, 'pipeline']:.2f}",
            f"{gain:.2f}",
            f"{numbers[f'gnnpipe-log-depth-squirrel-{d}'].value:g}",
        ]
        for d, gain in zip(depths, gains, strict=True)
    ]
    rises = gains[-1] > gains[0]
    return Figure(
        key="depth",
        paper="gnnpipe",
        title="Gain of the pipeline by depth, GCNII",
        setting=f"{setting(quick)}; links of {RATE}",
        published=ids,
        x_label="layers",
        y_label="epoch, graph-parallel / pipeline",
        kind="line",
        series=[
            Series("ours, 4 ranks", [*depths], gains),
            Series("authors' logs, 8 GPUs", [8, 16, 32, 64, 128], theirs),
        ],
        columns=["layers", "graph-parallel, s", "pipeline, s", "graph / pipeline", "logs"],
        rows=rows,
        holds="yes" if rises else "no",
        explanation=f"From {depths[0]} to {depths[-1]} layers the gain "
        f"{'rises' if rises else 'does not rise'} from {gains[0]:.2f} to {gains[-1]:.2f}: graph "
        "parallelism sends boundary rows at every layer, the pipeline only between stages.",
        command=command("depth", quick),
    )


def chunks(quick: bool) -> Figure:
    """Seconds by the number of chunks."""
    counts = (4, 8, 16, 32)
    cases = [case("gcnii", "pipeline", chunks=k) for k in counts]
    found = world(RATE, cases, repeats(quick))
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
        explanation=f"K = {best} is fastest: more chunks make the bubble smaller, (S-1)/(K+S-1) of "
        "a phase, and each chunk's work less efficient. The authors take 4 chunks a device.",
        command=command("chunks", quick),
    )


def memory(quick: bool) -> Figure:
    """What each rank takes, a world for each scheme."""
    worlds = {}
    for s in SCHEMES:  # a small run first, so that what torch allocates once is there before
        cases = [case("gcnii", s, 4, width=8), case("gcnii", s, width=64)]
        worlds[s] = world(None, cases, 1)[1]["memory"]
    worst = {name: max(ranks) for name, ranks in worlds.items()}
    ratio = worst["graph-parallel"] / worst["pipeline"]
    ids = [f"gnnpipe-log-memory-reddit-{way}" for way in ("graph", "pipe", "hybrid")]
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
        holds="yes" if ratio > 1.2 else "no",
        explanation=f"The largest rank of graph parallelism takes {ratio:.2f} times what that of "
        "the pipeline takes (16.5 / 6.3 = 2.6 in the logs, on Reddit). Here a way holds only its "
        "own rows and those it reads, where every GPU of the authors' holds room for all rows; a "
        "stage keeps two buffers an aggregation. Ways are balanced by edges, so that on a graph "
        "with a few hubs one way has most of the nodes, and most of the memory.",
        command=command("memory", quick),
    )
