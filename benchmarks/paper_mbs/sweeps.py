"""Figures over k and c, of features, accuracy and the CPU reference of LADIES."""

import functools
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from common.figures import Figure, Series
from common.graphs import data_folder
from common.world import run_on_loopback

from foregather import Graph
from foregather.sampling import Ladies, Neighbor
from foregather.units import format_bytes

from . import worlds
from .epochs import NAMES, command
from .worlds import LADIES, RATE, SAGE, median_of, size_of, told

SIZES = (1, 2, 4, 8, 16)


def bulk_size(quick: bool) -> Figure:
    """Seconds of a minibatch by the minibatches of a bulk, on one rank and on two."""
    size, graph = size_of(quick), Graph.open(worlds.graph_path(quick))
    rules = {"sage": Neighbor(SAGE, expand="per-layer"), "ladies": Ladies(LADIES)}
    series, rows = [], []
    for rule, sampler in rules.items():
        spent = []
        for k in SIZES:
            seeds = [
                np.random.default_rng([3, b]).choice(graph.num_nodes, size.seeds, replace=False)
                for b in range(16)
            ]
            runs = []
            for turn in range(1 + 2 * size.repeats):
                began = time.perf_counter()
                for at in range(0, 16, k):
                    sampler.sample_bulk(graph, seeds[at : at + k], seed=0, epoch=turn, threads=1)
                runs.append((time.perf_counter() - began) / 16)
            spent.append(1000 * statistics.median(runs[1:]))
        series.append(Series(f"{rule}, one rank", [*SIZES], spent))
    for mode in ("owner", "paper"):
        cases = [{"rule": "sage", "sizes": SAGE, "mode": mode, "bulk": k} for k in SIZES[:4]]
        found = worlds.measure(quick, 2, RATE, cases, train=False, batches=16)
        spent = [1000 * median_of(case, "sampling") / 8 for case in found]
        series.append(Series(f"sage, {mode}, 2 ranks, {RATE}", [*SIZES[:4]], spent))
    for one in series:
        rows.append([one.label, *(f"{y:.1f}" for y in one.y), *[""] * (5 - len(one.y))])
    gain = {one.label: one.y[0] / one.y[-1] for one in series}
    own, paper = (gain[label] for label in gain if "2 ranks" in label)
    single = [value for label, value in gain.items() if "one rank" in label]
    return Figure(
        key="bulk_size",
        paper="mbs",
        title="Sampling by the size of a bulk: does it amortise?",
        setting=f"{told(quick)}; a minibatch's seconds of sampling; no model is trained",
        published=[],
        x_label="k, minibatches of a bulk (on each rank)",
        y_label="milliseconds a minibatch",
        kind="line",
        series=series,
        columns=["", *(f"k = {k}, ms" for k in SIZES)],
        rows=rows,
        holds="yes" if min(own, paper, *single) > 1.1 else "partly" if paper > 1.1 else "no",
        explanation="Milliseconds of a minibatch with k = 1 over those with the largest k: the "
        f"published product {paper:.2f}, which fetches a row once for all minibatches of a bulk; "
        f"owners that pick {own:.2f}, as what they send hardly repeats; one rank "
        f"{min(single):.2f} to {max(single):.2f}, as a fused kernel has almost no fixed cost of a "
        "minibatch that a bulk could share, other than kernels that are launched on a GPU.",
        command=command("bulk_size", quick),
    )


@functools.cache
def _replicated(quick: bool) -> list[dict]:
    """Four ranks with c of 1 and 2, both modes and both exchanges of features."""
    cases = [
        {"rule": "sage", "sizes": SAGE, "mode": mode, "c": c}
        for c in (1, 2)
        for mode in ("owner", "paper")
    ]
    return worlds.measure(quick, 4, RATE, cases, train=False)


def replication(quick: bool) -> Figure:
    """Sampling over a partition by c."""
    cases = _replicated(quick)
    series = [
        Series(mode, [1, 2], [median_of(c, "sampling") for c in cases if c["mode"] == mode])
        for mode in ("owner", "paper")
    ]
    rows = [
        [
            c["mode"],
            str(c["c"]),
            f"{median_of(c, 'sampling'):.2f}",
            format_bytes(int(median_of(c, "sampling_bytes"))),
        ]
        for c in cases
    ]
    own, paper = (one.y[0] / one.y[1] for one in series)
    said = "more" if paper < 1 else "fewer"
    return Figure(
        key="replication",
        paper="mbs",
        title="Sampling over a partition, by replication c",
        setting=f"{told(quick)}; GraphSAGE [15, 10, 5], 4 ranks, links of {RATE}",
        published=[],
        x_label="c, ranks that hold a block row",
        y_label="seconds of sampling, an epoch",
        kind="bars",
        series=[Series(s.label, [f"c = {x}" for x in s.x], s.y, s.spread) for s in series],
        columns=["mode", "c", "sampling, s", "sent"],
        rows=rows,
        holds="yes" if paper > 1 else "no",
        explanation=f"With c = 2 the published product takes {max(paper, 1 / paper):.1f} times "
        f"{said} seconds than with c = 1, and sampling by owners "
        f"{max(own, 1 / own):.1f} times {'fewer' if own > 1 else 'more'}. Its volume is k b d / c "
        "for rows and c k b d / p for sums over the grid row: with 4 ranks the second term eats "
        "what the first saves, and it is with large p that c pays.",
        command=command("replication", quick),
    )


def features(quick: bool) -> Figure:
    """Feature rows with and without replication."""
    cases, names = _replicated(quick), {"owner": "planned", "paper": "all-to-all a minibatch"}
    labels = [f"{names[c['mode']]}, c = {c['c']}" for c in cases]
    spent = [median_of(c, "features") for c in cases]
    sent = [median_of(c, "feature_bytes") for c in cases]
    rows = [
        [label, f"{seconds:.2f}", format_bytes(int(size))]
        for label, seconds, size in zip(labels, spent, sent, strict=True)
    ]
    by = {(c["mode"], c["c"]): size for c, size in zip(cases, sent, strict=True)}
    gain = by["paper", 1] / max(1, by["paper", 2])
    return Figure(
        key="features",
        paper="mbs",
        title="Feature rows with and without replication",
        setting=f"{told(quick)}; GraphSAGE [15, 10, 5], 4 ranks, links of {RATE}; planned: a "
        "quarter of all rows may be cached, one request a bulk",
        published=[],
        x_label="",
        y_label="seconds of fetching, an epoch",
        kind="bars",
        series=[Series("features", labels, spent)],
        columns=["exchange", "seconds", "sent"],
        rows=rows,
        holds="yes" if gain > 1.2 else "partly",
        explanation=f"Replication lets the published exchange send {gain:.2f} times fewer bytes "
        "(1 - c/p of the rows are elsewhere: 3/4 and 1/2). The planned exchange sends "
        f"{by['paper', 1] / max(1, by['owner', 1]):.2f} times fewer than it with c = 1, as a row "
        "that several minibatches of a bulk need crosses once.",
        command=command("features", quick),
    )


def accuracy(quick: bool) -> Figure:
    """Test accuracy over ranks, three seeds."""
    seeds, epochs = 3, (15 if quick else 60)
    found: dict[int, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for ranks in (1, 2, 4):
            spec = Path(folder) / "spec.json"
            spec.write_text(json.dumps({"data": str(data_folder()), "seeds": seeds,
                                        "epochs": epochs}))  # fmt: skip
            run_on_loopback(str(Path(__file__).with_name("accuracy_rank.py")), ranks, [str(spec)])
            found[ranks] = json.loads((Path(folder) / "found.json").read_text())
            print(ranks, found[ranks], flush=True)
    means = [100 * statistics.mean(values) for values in found.values()]
    spread = [(100 * min(values), 100 * max(values)) for values in found.values()]
    far = max(means) - min(means)
    rows = [
        [str(p), f"{m:.1f}", *(f"{100 * one:.1f}" for one in found[p])]
        for p, m in zip(found, means, strict=True)
    ]
    return Figure(
        key="accuracy",
        paper="mbs",
        title="Accuracy over ranks",
        setting=f"pubmed, features reduced to 64 columns; SAGE of width 64, fan-out [10, 5], "
        f"20 seeds a minibatch of all ranks together, {epochs} epochs; partitioned topology; test "
        "accuracy with sampled neighbours after the last epoch",
        published=[],
        x_label="ranks",
        y_label="test accuracy, %",
        kind="bars",
        series=[Series("mean of three seeds", [f"p = {p}" for p in found], means, spread)],
        columns=["p", "mean, %", *(f"seed {seed}, %" for seed in range(seeds))],
        rows=rows,
        holds="yes" if far < 2 else "partly",
        explanation=f"The means over three seeds are {far:.1f} points apart between 1, 2 and 4 "
        "ranks. Minibatches are bit-identical for any number of ranks; what differs is how many "
        "of them make a step together.",
        command=command("accuracy", quick),
    )


def ladies_reference(quick: bool) -> Figure:
    """LADIES against a CPU reference."""
    from layerwise import SciPy

    size, graph = size_of(quick), Graph.open(worlds.graph_path(quick))
    reference, sampler = SciPy(graph), Ladies(LADIES)
    seeds = [
        np.random.default_rng([5, b]).choice(graph.num_nodes, size.seeds, replace=False)
        for b in range(8)
    ]
    ways = {
        "SciPy, as published": lambda: [reference.plain(s, tuple(LADIES), False) for s in seeds],
        "SciPy, tuned": lambda: [reference.ladies(s, tuple(LADIES)) for s in seeds],
        "bulk of 8, one thread": lambda: sampler.sample_bulk(graph, seeds, seed=0, threads=1),
    }
    spent = {}
    for name, run in ways.items():
        times = []
        for _ in range(1 + 2 * size.repeats):
            began = time.perf_counter()
            run()
            times.append(1000 * (time.perf_counter() - began) / 8)
        spent[name] = statistics.median(times[1:])
    ours = spent["bulk of 8, one thread"]
    rows = [[name, f"{ms:.2f}", f"{ms / ours:.1f}"] for name, ms in spent.items()]
    return Figure(
        key="ladies_reference",
        paper="mbs",
        title="LADIES against a reference on the CPU",
        setting=f"{told(quick)}; {NAMES['ladies']}, one thread",
        published=[],
        x_label="",
        y_label="milliseconds a minibatch",
        kind="bars",
        series=[Series("a minibatch", list(spent), list(spent.values()))],
        columns=["by", "ms a minibatch", "times ours"],
        rows=rows,
        holds="yes",
        explanation=f"A minibatch takes {spent['SciPy, as published'] / ours:.1f} times less than "
        f"by the published recipe in SciPy, and {spent['SciPy, tuned'] / ours:.1f} times less than "
        "by one that touches only columns that were met.",
        command=command("ladies_reference", quick),
    )


def quiver(quick: bool) -> Figure:
    """What no CPU can stand for."""
    return Figure(
        key="quiver",
        paper="mbs",
        title="Epochs against Quiver on 128 GPUs",
        setting="not run: Quiver samples and caches on GPUs, and there is none here",
        published=["mbs-quiver", "mbs-outside-ogb"],
        x_label="",
        y_label="",
        kind="table",
        series=[],
        columns=["what", "here"],
        rows=[
            ["Quiver, 3-layer GraphSAGE, OGB", "needs GPUs"],
            ["data sets outside OGB", "needs GPUs, and the data"],
        ],
        holds="needs GPUs",
        explanation="No substitute is given: a CPU sampler in Quiver's place would compare other "
        "things.",
        command=command("quiver", quick),
    )
