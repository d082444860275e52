"""What does history cost in accuracy, at 32 layers, against exact full-graph training?

Each graph and model is trained from the same weights, with the same dropout, on the same chunks in
four modes: exact; fast (history of the last epoch, gradient factor 1, filled by a sweep); published
(the authors' settings: refresh every 23 epochs, factor 2, zero at first); bounded (fast, measured
every 10 epochs, swept or exact where the meter's bounds are broken). Test accuracy is that of the
epoch with the best validation accuracy, looked at every few epochs by exact inference. The
difference to exact is paired by seed; spread is the standard deviation over seeds. "learns" says
whether exact training itself beats the most frequent class by 5 points. "flagged" counts the seeds
in which the meter of a fast run was beyond its bounds (error 0.3, cosine 0.9) at least once.

One graph and model at a time; cells are kept in a file and the report is made from all of them:

    FOREGATHER_DATA=... python benchmarks/pipeline_accuracy.py --graph cora --model gcnii \
        [--seeds 5] [--epochs 200] [--modes exact,fast,published,bounded] [--kept FILE]
"""

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.graphs import load_graph
from common.report import FOLDER, Report

from foregather import Graph
from foregather.nn import gcn_layers, gcnii_layers, resgcn_layers, sage_layers
from foregather.pipeline import FullGraph, Meter, Runtime, Techniques

MODELS = ("gcn", "sage", "gcnii", "resgcn")
RUNGS = ("fast", "swept", "exact")
MODES: dict[str, dict[str, Any]] = {
    "exact": {"mode": "exact"},
    "fast": {"mode": "fast", "meter": Meter(every=10)},
    "published": {
        "mode": "fast",
        "meter": Meter(every=23),
        "techniques": Techniques.published(),
    },
    "bounded": {"mode": "bounded", "meter": Meter(every=10)},
}

KINDS = ("fast", "swept", "exact")  # of epochs


def layers_of(model: str, graph: Graph, given: argparse.Namespace) -> list[torch.nn.Module]:
    width, classes = graph.features.width, int(graph.labels.max()) + 1
    if model in ("gcn", "sage"):
        make = gcn_layers if model == "gcn" else sage_layers
        return [*make([width, *[given.width] * (given.depth - 1), classes], given.dropout)]
    make_deep = gcnii_layers if model == "gcnii" else resgcn_layers
    return [*make_deep(width, given.width, classes, given.depth, dropout=given.dropout)]


def one(graph: Graph, mode: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """One run: test accuracy at the best validation, and what the meter said."""
    torch.manual_seed(seed)
    run = FullGraph(
        graph,
        layers_of(given.model, graph, given),
        given.chunks,
        optimizer=lambda weights: torch.optim.Adam(weights, given.rate),
        seed=seed,
        runtime=Runtime(recompute=given.recompute),
        **MODES[mode],
    )
    best, flagged, begin = (-1.0, 0.0, 0), 0, time.perf_counter()
    worst = {"error": 0.0, "cosine": 1.0}
    for epoch in range(given.epochs):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            report = run.train_epoch()
        flagged += any("beyond the bounds" in str(w.message) for w in told)
        if report.reading is not None:
            worst["error"] = max(worst["error"], report.reading.error)
            worst["cosine"] = min(worst["cosine"], report.reading.cosine)
        if (epoch + 1) % given.every == 0:
            found = run.accuracies(["valid", "test"])
            best = max(best, (found["valid"], found["test"], epoch))
    return {
        "test": best[1],
        "valid": best[0],
        "epoch": best[2],
        "loss": report.loss,
        "flagged": flagged,
        "ran": {
            name: sum(r.ran == name for r in run.reports) for name in ("fast", "swept", "exact")
        },
        "seconds": time.perf_counter() - begin,
        **worst,
    }


def settings(given: argparse.Namespace) -> str:
    return (
        f"K={given.chunks}, {given.depth} layers of {given.width}, {given.epochs} epochs, "
        f"rate {given.rate:g}, dropout {given.dropout:g}"
    )


def majority(graph: Graph) -> float:
    """Test accuracy of the most frequent training class."""
    train, test = (graph.labels[graph.split(s)] for s in ("train", "test"))
    train, test = train[train >= 0], test[test >= 0]
    return float((test == np.bincount(train).argmax()).mean())


def write(kept: dict[str, Any]) -> None:
    """The report of all cells."""
    report = Report("pipeline_accuracy", __doc__)
    rows = []
    for name, cell in sorted(kept.items()):
        exact = cell["runs"].get("exact", {})
        for mode in [m for m in MODES if m in cell["runs"]]:
            runs = cell["runs"][mode]
            test = [100 * r["test"] for r in runs.values()]
            pairs = [100 * (runs[s]["test"] - exact[s]["test"]) for s in runs if s in exact]
            base = [100 * r["test"] for r in exact.values()]
            learns = bool(base) and statistics.mean(base) > 100 * cell["majority"] + 5
            rows.append(
                [
                    name,
                    mode,
                    len(test),
                    _mean(test),
                    "" if mode == "exact" else _mean(pairs),
                    "yes" if learns else "no",
                    f"{sum(r['flagged'] > 0 for r in runs.values())} of {len(runs)}",
                    f"{max(r['error'] for r in runs.values()):.2g}",
                    f"{min(r['cosine'] for r in runs.values()):.2g}",
                    f"{statistics.median(r['seconds'] for r in runs.values()):.0f}",
                ]
            )
    head = ["graph, model", "mode", "seeds", "test %", "minus exact", "learns", "flagged",
            "worst error", "worst cosine", "seconds"]  # fmt: skip
    report.table(head, rows)
    for name, cell in sorted(kept.items()):
        report.line(f"{name}: {cell['settings']}; most frequent class {cell['majority']:.1%}.")
    report.write()


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} ± {spread:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", help="a graph of the data folder with features and labels")
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--every", type=int, default=5, help="epochs between evaluations")
    parser.add_argument("--chunks", type=int, default=32)
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.005)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--recompute", default="none", choices=("none", "dense", "all"))
    parser.add_argument("--kept", type=Path, default=FOLDER / "pipeline_accuracy_cells.json")
    given = parser.parse_args()
    kept = json.loads(given.kept.read_text()) if given.kept.exists() else {}
    if given.graph and given.model:
        graph, name = load_graph(given.graph), f"{given.graph}, {given.model}"
        cell = kept.setdefault(
            name, {"settings": settings(given), "majority": majority(graph), "runs": {}}
        )
        if cell["settings"] != settings(given):
            raise SystemExit(f"{name} is kept with {cell['settings']}; take another --kept file")
        for seed in range(given.seeds):
            for mode in given.modes.split(","):
                done = cell["runs"].setdefault(mode, {})
                if str(seed) not in done:
                    done[str(seed)] = one(graph, mode, seed, given)
                    print(name, mode, seed, done[str(seed)], flush=True)
                    given.kept.write_text(json.dumps(kept, indent=1))
    write(kept)


if __name__ == "__main__":
    main()
