"""storage: the second half of the quickstart: a tenth of the feature rows cached."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from foregather.errors import BudgetError

if TYPE_CHECKING:
    from foregather.graph import Graph

__all__ = ["compare_storage", "plot_storage"]

_EPOCHS = 3


def compare_storage(graph: "Graph", seed: int) -> dict[str, dict[str, Any]]:
    """Trains GraphSAGE twice: with feature rows in memory, and read from disk.

    Returns:
        By storage: loss and seconds of each epoch, and what was read.
    """
    from foregather.loader.options import BatchContents

    options: dict[str, Any] = {"shuffle": True, "seed": seed, "bulk": 8}
    options["contents"] = BatchContents("seeds", pyg=False)
    assert graph.features is not None
    budget = _least(graph, options) + graph.features.nbytes // 10
    return {
        "in memory": _train(graph, seed, options),
        "a tenth cached": _train(graph, seed, {**options, "memory": budget, "storage": "features"}),
    }


def _least(graph: "Graph", options: dict[str, Any]) -> int:
    """The memory that sampling, batches and planning need without a cache."""
    from foregather.loader.loader import Loader

    try:
        Loader(graph, [10, 5], "train", 512, memory=1, storage="features", **options)
    except BudgetError as error:
        return error.least or 0
    return 0


def _train(graph: "Graph", seed: int, options: dict[str, Any]) -> dict[str, Any]:
    import torch

    from foregather.loader.loader import Loader
    from foregather.nn import SAGE
    from foregather.train.fit import Training, fit

    assert graph.features is not None and graph.labels is not None
    torch.manual_seed(seed)
    model = SAGE([graph.features.width, 64, int(graph.labels.max()) + 1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = Loader(graph, [10, 5], "train", 512, **options)
    history = fit(Training(model, loader, optimizer), _EPOCHS)
    loader.close()
    found: dict[str, Any] = {key: [epoch[key] for epoch in history] for key in ("loss", "seconds")}
    keys = ("requests", "bytes", "rows", "hits")
    return found | {key: sum(epoch[key] for epoch in history) for key in keys}


def plot_storage(runs: dict[str, dict[str, Any]], path: Path) -> None:
    """Draws seconds of each epoch."""
    from foregather.observe.plots import new_figure, save_figure

    figure, axes = new_figure("What a tenth of the feature rows costs", "epoch", "seconds")
    for name, run in runs.items():
        axes.plot(range(1, len(run["seconds"]) + 1), run["seconds"], marker="o", label=name)
    axes.set_ylim(bottom=0)
    axes.legend()
    save_figure(figure, path)
