"""Train on a graph whose features do not fit: full memory versus 10 %, with equal losses.

    python examples/2_out_of_core.py

makes a synthetic graph in a folder, trains GraphSAGE with everything in memory and with a budget
that holds a tenth of the feature rows in its cache, and prints, in about a minute on two cores,
for each, the losses of all epochs (they are equal) and the bytes read. It draws out_of_core.png.
"""

import tempfile
from pathlib import Path
from typing import Any

import torch

from foregather import BatchContents, Graph, Loader, Training, fit
from foregather.graph.synthetic import synthesize
from foregather.nn import SAGE
from foregather.observe.plots import new_figure, save_figure

NODES, CLASSES, EPOCHS, BATCH, FANOUT = 100_000, 40, 3, 256, [10, 5]


def train(graph: Graph, memory: int | None) -> dict[str, Any]:
    """Trains with a budget (None: all in memory); returns losses, seconds and bytes per epoch."""
    torch.manual_seed(0)
    storage = "auto" if memory is None else "features"
    options = {
        "shuffle": True,
        "contents": BatchContents(labels="seeds", pyg=False),
        "bulk": "auto",
    }
    loader = Loader(graph, FANOUT, "train", BATCH, memory=memory, storage=storage, **options)
    if memory is not None:
        print(loader.plan(0).summary())
    model = SAGE([graph.features.width, 64, CLASSES])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    history = fit(Training(model, loader, optimizer), EPOCHS)
    loader.close()
    return {name: [epoch[name] for epoch in history] for name in ("loss", "seconds", "bytes")}


def main(folder: str | None = None, plot: str = "out_of_core.png") -> dict[str, Any]:
    """Trains twice and draws what the smaller budget cost."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(folder or scratch) / "graph"
        synthesize(path, NODES, degree=16, features=128, classes=CLASSES, seed=0)
        graph = Graph.open(path)
        # a tenth of the feature rows, plus what sampling, batches and planning need
        memory = graph.features.nbytes // 10 + 90_000_000
        runs = {"all in memory": train(graph, None), "a tenth": train(graph, memory)}
    for name, run in runs.items():
        losses = ", ".join(f"{loss:.4f}" for loss in run["loss"])
        print(f"{name:14} loss {losses}; {sum(run['seconds']):.1f} s; {sum(run['bytes']):,} bytes")
    figure, axes = new_figure("What a tenth of the memory costs", "epoch", "seconds")
    for name, run in runs.items():
        axes.plot(range(1, EPOCHS + 1), run["seconds"], marker="o", label=name)
    axes.set_ylim(bottom=0)
    axes.legend()
    save_figure(figure, Path(plot))
    return runs


if __name__ == "__main__":
    main()
