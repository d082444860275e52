"""Figures of training itself: curves of exact and stale settings, and each technique left out."""

import warnings
from typing import Any

import torch
from common.facts import Facts
from common.figures import Figure, Series
from common.graphs import load_graph
from common.results import published

from foregather.nn import gcnii_layers
from foregather.pipeline import FullGraph, Meter, Runtime, Techniques

from .schemes import command

CHUNKS, WIDTH, DEPTH, EVERY = 8, 32, 32, 2
STALE: dict[str, Any] = {"mode": "fast", "meter": Meter(every=0)}
SETTINGS: dict[str, dict[str, Any]] = {
    "exact": {"mode": "exact"},
    "fast": STALE,
    "published": {**STALE, "techniques": Techniques.published()},
    "hybrid, two abreast": {**STALE, "runtime": Runtime(abreast=2)},
}
CURVES = (
    "cora, 140 labels, features reduced to 64 columns; GCNII, 32 layers of width 32; 8 METIS chunks"
)


def train(graph_name: str, seed: int, epochs: int, rate: float, options: dict[str, Any]) -> dict:
    """Losses, and validation and test accuracy every few epochs by exact inference."""
    graph = load_graph(graph_name, seed=seed, columns=64)
    torch.manual_seed(seed)
    classes = int(graph.labels.max()) + 1
    run = FullGraph(
        graph,
        [*gcnii_layers(graph.features.width, WIDTH, classes, DEPTH, dropout=0.5)],
        CHUNKS,
        optimizer=lambda w: torch.optim.Adam(w, rate, weight_decay=5e-4),
        seed=seed,
        partition="metis",
        **options,
    )
    losses, seen = [], []
    for epoch in range(1, epochs + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses.append(run.train_epoch().loss)
        if epoch % EVERY == 0:
            found = run.accuracies(["valid", "test"])
            seen.append((epoch, found["valid"], found["test"]))
    return {"losses": losses, "seen": seen, "best": max(seen, key=lambda one: one[1])}


def reach(seen: list[tuple[int, float, float]], bar: float) -> int | None:
    """The first epoch whose validation reaches a bar."""
    return next((epoch for epoch, valid, _ in seen if valid >= bar), None)


def curves(epochs: int, seeds: int) -> dict[str, list[dict]]:
    """Runs of each setting."""
    torch.set_num_threads(1)
    return {
        name: [train("cora", seed, epochs, 0.01, options) for seed in range(seeds)]
        for name, options in SETTINGS.items()
    }


def convergence(facts: Facts, quick: bool) -> Figure:
    """Curves, and epochs to 99 % of exact's best."""
    epochs, seeds = (60, 1) if quick else (200, 3)
    found = facts(curves, epochs, seeds)
    bars = [0.99 * run["best"][1] for run in found["exact"]]
    series, rows, first, tests = [], [], {}, {}
    for name, runs in found.items():
        points = runs[0]["seen"]
        series.append(Series(name, [p[0] for p in points], [100 * p[1] for p in points]))
        took = [reach(run["seen"], bar) for run, bar in zip(runs, bars, strict=True)]
        first[name] = took
        tests[name] = [100 * run["best"][2] for run in runs]
        rows.append(
            [
                name,
                ", ".join("not reached" if t is None else str(t) for t in took),
                ", ".join(f"{one:.1f}" for one in tests[name]),
                f"{runs[0]['losses'][-1]:.3f}",
            ]
        )
    pairs = [
        (took, base)
        for name in ("fast", "hybrid, two abreast")
        for took, base in zip(first[name], first["exact"], strict=True)
    ]
    late = [took / base for took, base in pairs if took is not None and base is not None]
    missed = [n for n, took in first.items() if None in took]
    return Figure(
        key="convergence",
        paper="gnnpipe",
        title="Convergence: exact, fast, published and hybrid",
        setting=f"{CURVES}; Adam 0.01, {epochs} epochs, seeds: {seeds}; one "
        "process, whose weights are those of any number of stages",
        published=[],
        x_label="epoch",
        y_label="validation accuracy, %",
        kind="line",
        series=series,
        columns=[
            "setting",
            "epochs to 99 % of exact's best",
            "test at best validation, %",
            "last loss",
        ],
        rows=rows,
        holds="yes" if not missed and late and max(late) < 1.5 else "partly",
        explanation="Epochs until validation reaches 99 % of what exact training reaches: "
        + "; ".join(f"{row[0]} {row[1]}" for row in rows)
        + ". The paper says comparable accuracy and speed of convergence"
        + (f"; not reached in these epochs by {', '.join(missed)}." if missed else "."),
        command=command("convergence", quick),
    )


ABLATED = {
    "all (published)": ("all", Techniques.published()),
    "without reshuffling": ("no-shuffle", Techniques(False, 23, 2.0, False)),
    "history renewed each epoch": ("refresh-1", Techniques(True, 1, 2.0, False)),
    "factor 1": ("", Techniques(True, 23, 1.0, False)),
    "with a first sweep": ("", Techniques(True, 23, 2.0, True)),
    "ours (fast)": ("", Techniques()),
}


def settings(quick: bool) -> dict[str, tuple[str, Techniques]]:
    """Each technique left out by itself; the whole grid where there is time."""
    made = dict(ABLATED)
    if not quick:
        made |= {
            f"reshuffle {shuffle}, refresh {refresh}, factor {factor:g}, sweep {sweep}": (
                "",
                Techniques(shuffle, refresh, factor, sweep),
            )
            for shuffle in (True, False)
            for refresh in (1, 5, 23)
            for factor in (1.0, 2.0)
            for sweep in (True, False)
        }
    return made


def ablated(quick: bool, epochs: int) -> dict[str, tuple[float, float]]:
    """Test accuracy in percent and last loss, of exact training and of each setting."""
    torch.set_num_threads(1)
    chosen: dict[str, dict[str, Any]] = {"exact": {"mode": "exact"}}
    for name, (_, techniques) in settings(quick).items():
        chosen[name] = {**STALE, "techniques": techniques}
    made = {}
    for name, options in chosen.items():
        run = train("cora", 0, epochs, 0.01, options)
        made[name] = (100 * run["best"][2], run["losses"][-1])
        print(name, made[name], flush=True)
    return made


def ablation(facts: Facts, quick: bool) -> Figure:
    """Each technique left out, the logs' cells beside."""
    epochs, numbers = (60 if quick else 200), published()
    found = facts(ablated, quick, epochs)
    prefix = "gnnpipe-log-ablation-squirrel-"
    logged = {name: key for name, (key, _) in settings(quick).items()}
    exact, rows, tests = found["exact"][0], [], {}
    for name, (test, loss) in found.items():
        beside = f"{100 * numbers[f'{prefix}graph'].value:.1f} (graph parallelism)"
        if name != "exact":
            tests[name] = test
            key = logged[name]
            beside = f"{100 * numbers[prefix + key].value:.1f}" if key else ""
        rows.append([name, f"{test:.1f}", f"{loss:.3f}", beside])
    rows.append(["no technique: last epoch's gradients", "not offered", "",
                 f"{100 * numbers[f'{prefix}none'].value:.1f}"])  # fmt: skip
    spread = max(tests.values()) - min(tests.values())
    ids = [f"{prefix}{key}" for key in ("none", "no-shuffle", "refresh-1", "all", "graph")]
    logs = [100 * numbers[key].value for key in ids[:4]]
    return Figure(
        key="ablation",
        paper="gnnpipe",
        title="Each technique left out",
        setting=f"{CURVES}; Adam 0.01, {epochs} epochs, one seed; the authors' is Squirrel",
        published=ids,
        x_label="",
        y_label="test accuracy at the best validation, %",
        kind="bars",
        series=[Series("test", ["exact", *tests], [exact, *tests.values()])],
        columns=["setting", "test, %", "last loss", "authors' logs on Squirrel, %"],
        rows=rows,
        holds="partly",
        explanation=f"Settings are {spread:.1f} points apart with one seed, in the logs "
        f"{max(logs) - min(logs):.1f}; neither says which technique matters. Last "
        "epoch's gradients, the logs' run without any technique, are not offered here: history is "
        "a constant, and gives none.",
        command=command("ablation", quick),
    )
