"""Figures over k and c, of features, accuracy and the CPU reference of LADIES."""

import functools
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from common.facts import Facts
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
REPLICATED = (4, 8)  # ranks


def by_bulk(quick: bool) -> list[list]:
    """Labels and milliseconds of a minibatch by k, on one rank and on two."""
    size, graph = size_of(quick), Graph.open(worlds.graph_path(quick))
    rules = {"sage": Neighbor(SAGE, expand="per-layer"), "ladies": Ladies(LADIES)}
    made: list[list] = []
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
        made.append([f"{rule}, one rank", spent])
    for mode in ("owner", "paper"):
        cases = [{"rule": "sage", "sizes": SAGE, "mode": mode, "bulk": k} for k in SIZES[:4]]
        found = worlds.measure(quick, 2, RATE, cases, train=False, batches=16)
        spent = [1000 * median_of(case, "sampling") / 8 for case in found]
        made.append([f"sage, {mode}, 2 ranks, {RATE}", spent])
    return made


def bulk_size(facts: Facts, quick: bool) -> Figure:
    """Seconds of a minibatch by the minibatches of a bulk, on one rank and on two."""
    series = [Series(label, [*SIZES[: len(y)]], y) for label, y in facts(by_bulk, quick)]
    rows = []
    for one in series:
        rows.append([one.label, *(f"{y:.1f}" for y in one.y), *[""] * (5 - len(one.y))])
    gain = {one.label: one.y[0] / one.y[-1] for one in series}
    own, paper = (gain[label] for label in gain if "2 ranks" in label)
    single = [value for label, value in gain.items() if "one rank" in label]
    return Figure(
        key="bulk_size",
        paper="mbs",
        title="Sampling by bulk size: does it amortise?",
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
        f"published product {paper:.2f}"
        + (", which fetches a row once for all minibatches of a bulk" if paper > 1.1 else "")
        + f"; owners that pick {own:.2f}"
        + ("" if own > 1.1 else ", likely as what they send hardly repeats")
        + f"; one rank {min(single):.2f} to {max(single):.2f}"
        + ("" if min(single) > 1.1 else ", as a fused kernel has almost no fixed cost of a "
           "minibatch that a bulk could share, other than kernels that are launched on a GPU")
        + ".",
        command=command("bulk_size", quick),
    )  # fmt: skip


@functools.cache
def replicas(quick: bool) -> list[dict]:
    """Four and eight ranks with c of 1 and 2, both modes and both exchanges of features."""
    cases = [
        {"rule": "sage", "sizes": SAGE, "mode": mode, "c": c}
        for c in (1, 2)
        for mode in ("owner", "paper")
    ]
    return [
        {**case, "ranks": ranks}
        for ranks in REPLICATED
        for case in worlds.measure(quick, ranks, RATE, cases, train=False)
    ]


def replication(facts: Facts, quick: bool) -> Figure:
    """Sampling over a partition by c."""
    cases = facts(replicas, quick)
    by = {(c["ranks"], c["mode"], c["c"]): median_of(c, "sampling") for c in cases}
    labels = [f"p = {p}, c = {c}" for p in REPLICATED for c in (1, 2)]
    series = [
        Series(mode, [*labels], [by[p, mode, c] for p in REPLICATED for c in (1, 2)])
        for mode in ("owner", "paper")
    ]
    rows = [
        [
            str(c["ranks"]),
            c["mode"],
            str(c["c"]),
            f"{median_of(c, 'sampling'):.2f}",
            format_bytes(int(median_of(c, "sampling_bytes"))),
        ]
        for c in cases
    ]
    gain = {(p, m): by[p, m, 1] / by[p, m, 2] for p in REPLICATED for m in ("owner", "paper")}
    gains = [gain[p, "paper"] for p in REPLICATED]
    return Figure(
        key="replication",
        paper="mbs",
        title="Sampling over a partition, by replication c",
        setting=f"{told(quick)}; GraphSAGE [15, 10, 5], links of {RATE}",
        published=[],
        x_label="c, ranks that hold a block row",
        y_label="seconds of sampling, an epoch",
        kind="bars",
        series=series,
        columns=["p", "mode", "c", "sampling, s", "sent"],
        rows=rows,
        holds="yes" if min(gains) > 1 else "partly" if max(gains) > 1 else "no",
        explanation="With c = 2 instead of 1: "
        + "; ".join(
            f"on {p} ranks the published product takes {_times(gain[p, 'paper'])} seconds, and "
            f"sampling by owners {_times(gain[p, 'owner'])}"
            for p in REPLICATED
        )
        + f". {_why_c(cases, gains)}",
        command=command("replication", quick),
    )


def _times(gain: float) -> str:
    return f"{max(gain, 1 / gain):.1f} times {'fewer' if gain > 1 else 'more'}"


def _why_c(cases: list[dict], gains: list[float]) -> str:
    """What the bytes say about c."""
    if min(gains) > 1:
        return "Its volume for rows is k b d / c."
    sent = {(c["ranks"], c["c"]): median_of(c, "sampling_bytes") for c in cases
            if c["mode"] == "paper"}  # fmt: skip
    grown = ", ".join(f"{sent[p, 2] / sent[p, 1]:.1f} times on {p} ranks" for p in REPLICATED)
    return (
        "Its volume is k b d / c for rows and c k b d / p for sums over the grid row: with so few "
        f"ranks the second term eats what the first saves (bytes with c = 2 over c = 1: {grown}), "
        "and it is with larger p that c pays."
    )


def features(facts: Facts, quick: bool) -> Figure:
    """Feature rows with and without replication."""
    names = {"owner": "planned", "paper": "all-to-all a minibatch"}
    cases = facts(replicas, quick)
    labels = [f"p = {c['ranks']}, {names[c['mode']]}, c = {c['c']}" for c in cases]
    spent = [median_of(c, "features") for c in cases]
    sent = [median_of(c, "feature_bytes") for c in cases]
    rows = [
        [label, f"{seconds:.2f}", format_bytes(int(size))]
        for label, seconds, size in zip(labels, spent, sent, strict=True)
    ]
    by = {(c["ranks"], c["mode"], c["c"]): n for c, n in zip(cases, sent, strict=True)}
    gains = [by[p, "paper", 1] / max(1, by[p, "paper", 2]) for p in REPLICATED]
    planned = [by[p, "paper", 1] / max(1, by[p, "owner", 1]) for p in REPLICATED]
    where = " and ".join(f"{p}" for p in REPLICATED)
    return Figure(
        key="features",
        paper="mbs",
        title="Feature rows with and without replication",
        setting=f"{told(quick)}; GraphSAGE [15, 10, 5], links of {RATE}; planned: a "
        "quarter of all rows may be cached, empty at the start of an epoch, one request a bulk",
        published=[],
        x_label="",
        y_label="seconds of fetching, an epoch",
        kind="bars",
        series=[Series("features", labels, spent)],
        columns=["exchange", "seconds", "sent"],
        rows=rows,
        holds="yes" if min(gains) > 1 else "partly" if max(gains) > 1 else "no",
        explanation=f"Replication changes the bytes of the published exchange on {where} ranks by "
        f"{' and '.join(f'{g:.2f}' for g in gains)} times fewer (c / p of the rows are at hand). "
        f"The planned exchange with c = 1 sends {' and '.join(f'{g:.2f}' for g in planned)} times "
        "fewer than the published one: a row that several minibatches of a bulk need crosses once.",
        command=command("features", quick),
    )


def scores(seeds: int, epochs: int) -> dict[str, list[float]]:
    """Test accuracy by the number of ranks."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for ranks in (1, 2, 4):
            spec = Path(folder) / "spec.json"
            spec.write_text(json.dumps({"data": str(data_folder()), "seeds": seeds,
                                        "epochs": epochs}))  # fmt: skip
            run_on_loopback(str(Path(__file__).with_name("accuracy_rank.py")), ranks, [str(spec)])
            found[str(ranks)] = json.loads((Path(folder) / "found.json").read_text())
            print(ranks, found[str(ranks)], flush=True)
    return found


def accuracy(facts: Facts, quick: bool) -> Figure:
    """Test accuracy over ranks, three seeds."""
    seeds, epochs = 3, (15 if quick else 60)
    found = facts(scores, seeds, epochs)
    means = [100 * statistics.mean(values) for values in found.values()]
    spread = [(100 * min(values), 100 * max(values)) for values in found.values()]
    far = max(means) - min(means)
    rows = [
        [p, f"{m:.1f}", *(f"{100 * one:.1f}" for one in found[p])]
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


def ladies_times(quick: bool) -> dict[str, float]:
    """Milliseconds of a minibatch, by way."""
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
    return spent


def ladies_reference(facts: Facts, quick: bool) -> Figure:
    """LADIES against a CPU reference."""
    spent = facts(ladies_times, quick)
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
        holds="yes" if ours < min(spent["SciPy, as published"], spent["SciPy, tuned"]) else "no",
        explanation="The published recipe in SciPy takes "
        f"{spent['SciPy, as published'] / ours:.1f} times the time of a minibatch of ours, and one "
        f"that touches only columns that were met {spent['SciPy, tuned'] / ours:.1f} times.",
        command=command("ladies_reference", quick),
    )


def quiver(facts: Facts, quick: bool) -> Figure:
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
