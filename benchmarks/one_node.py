"""How long does a prediction for one node take, now, from memory and from disk?

A trained GraphSAGE of two layers and `Predictor.scores([node])`, which is what
`foregather infer RUN GRAPH --nodes NODE` calls: the node with every in-neighbour of two hops, and a
forward pass. Nodes are drawn by chance and differ from call to call. *Memory*: the graph is loaded.
*Disk*: neighbour lists and feature rows are read from their files for each call, within a budget of
64 MB; the files were just written, so the operating system may have them in its cache. *Sampled* is
`Loader.one([node])` with fan-outs 10 and 5 alone, without a model. Times are of a process that is
up: the start of Python and torch is not in them. The synthetic graph has hubs, and a node next to
one has thousands of nodes within two hops: exact predictions of these are the 99th percentile.

    python benchmarks/one_node.py --nodes 100000
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from common.report import Report

from foregather import Graph, Loader
from foregather.graph.synthetic import synthesize
from foregather.loader.options import BatchContents
from foregather.nn import SAGE
from foregather.train.predict import Predictor

WIDTH, CLASSES = 64, 16


def measure(call, nodes) -> list[float]:
    """Milliseconds of each call, after a few that are not counted."""
    for node in nodes[:5]:
        call([node])
    found = []
    for node in nodes[5:]:
        begin = time.perf_counter()
        call([node])
        found.append(1e3 * (time.perf_counter() - begin))
    return found


def row(name: str, times: list[float]) -> list[str]:
    quantiles = np.quantile(times, [0.5, 0.99])
    return [
        name,
        f"{quantiles[0]:.2f}",
        f"{quantiles[1]:.2f}",
        f"{max(times):.2f}",
        str(len(times)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--calls", type=int, default=400)
    given = parser.parse_args()
    torch.manual_seed(0)
    model, rows = SAGE([WIDTH, 64, CLASSES]), []
    asked = np.random.default_rng(0).integers(given.nodes, size=given.calls + 5).tolist()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "g"
        synthesize(path, given.nodes, degree=given.degree, features=WIDTH, classes=CLASSES, seed=0)
        graph = Graph.open(path)
        expected = None
        for name, options in (
            ("exact, memory", {}),
            ("exact, disk", {"memory": 64_000_000, "storage": "disk"}),
        ):
            with Predictor(model, graph, layers=2, **options) as predictor:
                scores = np.concatenate([predictor.scores([node]) for node in asked[:20]])
                assert expected is None or np.array_equal(scores, expected), "bits differ"
                expected = scores
                rows.append(row(name, measure(predictor.scores, asked)))
        plain = BatchContents(pyg=False)
        for name, options in (
            ("sampled batch, memory", {}),
            ("sampled batch, disk", {"memory": "64MB", "storage": "disk"}),
        ):
            loader = Loader(graph, [10, 5], [0], 1, contents=plain, bulk=1, **options)
            rows.append(row(name, measure(loader.one, asked)))
            loader.close()
    report = Report("one_node", __doc__)
    report.line(
        f"{given.nodes:,} nodes of mean degree {given.degree}, {WIDTH} float32 columns; "
        "milliseconds. Scores from disk equal those from memory to the bit: the script checks it."
    )
    report.table(["what", "p50", "p99", "largest", "calls"], rows)
    report.write()


if __name__ == "__main__":
    main()
