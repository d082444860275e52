"""tour: `foregather quickstart`: makes a graph, describes it, and shows what a GNN gains."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from foregather.units import format_bytes, format_count, parse_count, to_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from foregather.graph import Graph

__all__ = ["Quickstart"]


@dataclass(frozen=True)
class Quickstart:
    """Make a small graph, verify and describe it, train on it, plot, and write a report."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = Path(
        "quickstart"
    )
    """Where the graph and the plots go; files that quickstart made there before are replaced,
    nothing else."""
    nodes: str = "20k"
    """Nodes of the graph."""
    epochs: int = 10
    """Training epochs per model."""
    seed: int = 0
    """Seed of the graph and of the training."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> dict[str, Any]:
        """Runs every step."""
        from foregather.cli.quickstart.files import QuickstartFiles
        from foregather.cli.quickstart.page import quickstart_charts, write_page
        from foregather.cli.quickstart.storage import compare_storage, plot_storage
        from foregather.graph import Graph
        from foregather.graph.describe import describe, plot_degrees
        from foregather.graph.synthetic import synthesize
        from foregather.observe.plots import check_figure

        to_whole(self.epochs, "--epochs", 1)
        path = self.folder / "graph"
        plots = [self.folder / f"{name}.png" for name in ("degrees", "accuracy", "storage")]
        for plot in plots:
            check_figure(plot)
        page = self.folder / "report.html"
        made_here = ("graph", page.name, *(plot.name for plot in plots))
        files = QuickstartFiles(self.folder, made_here)
        made = synthesize(
            path,
            parse_count(self.nodes),
            degree=16,
            features=128,
            classes=40,
            seed=self.seed,
            overwrite=True,
        )
        files.add("graph")
        graph = Graph.open(path)
        report = graph.verify()
        facts = describe(graph)
        plot_degrees(graph, plots[0])
        files.add(plots[0].name)
        curves = train(graph, self.epochs, self.seed)
        plot_curves(curves, plots[1])
        files.add(plots[1].name)
        storage = compare_storage(graph, self.seed)
        plot_storage(storage, plots[2])
        files.add(plots[2].name)
        write_page(path, page, self.epochs, self.seed, quickstart_charts(curves, storage))
        files.add(page.name)
        return {
            "graph": str(path),
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "bytes": made["bytes"],
            "bytes_checked": report.checksummed_bytes,
            "homophily": facts["homophily"],
            "max_in_degree": facts["in_degree"]["max"],
            "chance": 1 / 40,
            "accuracy": {name: curve["test"] for name, curve in curves.items()},
            "last_epoch": {
                name: {key: curve[key][-1] for key in ("loss", "valid", "seconds")}
                for name, curve in curves.items()
            },
            "storage": storage,
            "plots": [str(plot) for plot in plots],
            "report": str(page),
        }

    def show(self, facts: dict[str, Any]) -> str:
        """Returns the summary as text."""
        accuracy = facts["accuracy"]
        return "\n".join(
            [
                f"made      {facts['graph']}: {format_count(facts['num_nodes'])} nodes, "
                f"{format_count(facts['num_edges'])} edges, {format_bytes(facts['bytes'])}",
                f"verified  {format_bytes(facts['bytes_checked'])} against their checksums",
                f"described largest in-degree {format_count(facts['max_in_degree'])}, "
                f"homophily {facts['homophily']:.2f}",
                f"trained   test accuracy: chance {facts['chance']:.3f}, "
                f"MLP {accuracy['MLP']:.3f}, GraphSAGE {accuracy['SAGE']:.3f}",
                *(
                    f"          {name}, last epoch: loss {last['loss']:.3f}, validation accuracy "
                    f"{last['valid']:.3f}, {last['seconds']:.2f} s"
                    for name, last in facts["last_epoch"].items()
                ),
                _storage_line(facts["storage"]),
                f"plotted   {', '.join(facts['plots'])}",
                f"look      open {Path(facts['report']).absolute()} in a browser",
                "next      your own csv of edges (and one of nodes with id, label and numbers):",
                "          foregather convert edges.csv mine.fg --node-table nodes.csv "
                "--split 0.6 0.2 0.2",
                "          foregather train --graph mine.fg --run runs/mine && "
                "foregather report runs/mine",
            ]
        )


def _storage_line(runs: dict[str, dict[str, Any]]) -> str:
    whole, tenth = runs.values()
    same = "equal losses" if whole["loss"] == tenth["loss"] else "LOSSES THAT DIFFER"
    return (
        f"from disk with a tenth of the feature rows cached: {same}, "
        f"{sum(tenth['seconds']):.1f} s instead of {sum(whole['seconds']):.1f} s; "
        f"{format_count(tenth['requests'])} reads, {format_bytes(tenth['bytes'])}"
    )


def train(graph: "Graph", epochs: int, seed: int) -> dict[str, dict[str, Any]]:
    """Trains an MLP and GraphSAGE on sampled minibatches.

    Returns:
        By model: loss, validation accuracy and seconds of each epoch, and the test accuracy at the
        epoch of the best validation accuracy.
    """
    import torch

    from foregather.nn import MLP, SAGE

    if graph.features is None or graph.labels is None:
        raise AssertionError("the quickstart graph has features and labels")
    curves = {}
    for kind in (MLP, SAGE):
        torch.manual_seed(seed)
        model = kind([graph.features.width, 64, int(graph.labels.max()) + 1])
        curves[kind.__name__] = _train_one(model, graph, epochs, seed)
    return curves


def _train_one(model: "nn.Module", graph: "Graph", epochs: int, seed: int) -> dict[str, Any]:
    import torch

    from foregather.loader.loader import Loader
    from foregather.loader.options import BatchContents
    from foregather.train.fit import Training, fit

    options: dict[str, Any] = {
        "shuffle": True,
        "seed": seed,
        "contents": BatchContents(labels="seeds", pyg=False),
    }
    loader = Loader(graph, [10, 5], "train", 512, **options)
    score = _scorer(graph)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def after_epoch(training: Training, record: dict[str, Any]) -> None:
        record.update(score(training.model))

    history = fit(Training(model, loader, optimizer), epochs, after_epoch=after_epoch)
    curve = {key: [epoch[key] for epoch in history] for key in ("loss", "valid", "seconds")}
    best = max(history, key=lambda epoch: (epoch["valid"], epoch["test"]))
    return {**curve, "test": best["test"]}


def _scorer(graph: "Graph") -> "Callable[[nn.Module], dict[str, float]]":
    """Returns a function that computes the accuracy by split with every edge of the graph."""
    import numpy as np
    import torch

    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    edges = torch.from_numpy(np.stack([np.asarray(graph.indices, np.int64), target]))
    x = torch.from_numpy(np.array(graph.features.data, np.float32))  # type: ignore[union-attr]
    y = torch.from_numpy(np.array(graph.labels, np.int64))
    splits = {name: torch.from_numpy(np.array(ids)) for name, ids in graph.splits.items()}

    def score(model: "nn.Module") -> dict[str, float]:
        model.eval()
        with torch.no_grad():
            right = (model(x, edges).argmax(dim=1) == y).float()
        return {name: right[ids].mean().item() for name, ids in splits.items()}

    return score


def plot_curves(curves: dict[str, dict[str, Any]], path: Path) -> None:
    """Draws validation accuracy against epochs."""
    from foregather.observe.plots import new_figure, save_figure

    figure, axes = new_figure("Validation accuracy", "epoch", "accuracy")
    for name, curve in curves.items():
        axes.plot(range(1, len(curve["valid"]) + 1), curve["valid"], label=name)
    axes.set_ylim(0, 1)
    axes.legend()
    save_figure(figure, path)
