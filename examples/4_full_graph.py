"""Train a deep GNN on the whole graph: the same script on one rank and on several.

    python examples/4_full_graph.py
    torchrun --nproc-per-node 2 examples/4_full_graph.py

makes a synthetic graph, lets the planner choose scheme, stages, ways and chunks for the ranks it
finds, trains ResGCN+ with 8 layers exactly, and prints the plan, the loss as it falls and the test
accuracy (about 0.8, where chance is 0.05), in under a minute on two cores.
"""

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from foregather import Graph
from foregather.graph.synthetic import synthesize
from foregather.nn import resgcn_layers
from foregather.pipeline import FullGraph, planned

NODES, CLASSES, EPOCHS, DEPTH, WIDTH = 10_000, 20, 60, 8, 32


def train(graph: Graph) -> dict[str, float]:
    """Plans, trains and evaluates; every rank makes the same calls."""
    torch.manual_seed(0)  # so that all ranks start with the same weights
    layers = resgcn_layers(graph.features.width, WIDTH, CLASSES, DEPTH, dropout=0.2)
    options, explanation = planned(graph, layers, mode="exact")
    run = FullGraph(graph, layers, optimizer=lambda w: torch.optim.Adam(w, 0.01), **options)
    speaks = run.link.own == 0
    if speaks:
        print(explanation)
    for _ in range(EPOCHS):
        report = run.train_epoch()
        if speaks and report.epoch % 10 == 0:
            print(f"epoch {report.epoch:3} loss {report.loss:.4f}")
    found = run.accuracies(["valid", "test"])
    if speaks:
        sent = sum(run.volume().values())
        print(f"test accuracy {found['test']:.3f}; {sent:,} bytes between ranks per epoch")
    return found


def main() -> dict[str, float]:
    """Uses the ranks that torchrun started, or one."""
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "graph"  # every rank makes its own copy of the same graph
        synthesize(path, NODES, degree=16, features=64, classes=CLASSES, seed=0)
        found = train(Graph.open(path))
    if several:
        dist.destroy_process_group()
    return found


if __name__ == "__main__":
    main()
