"""How long is a training epoch in memory, fed by our Loader and by PyG's NeighborLoader?

The same PyG model (`GraphSAGE`), the same optimiser, the same input nodes, fan-outs and batch size;
only the loader differs. PyG's loader runs with 0, 1 and 2 workers that live on between epochs, its
edges sorted beforehand; its best counts. Each round runs one epoch of each, in an order that is
drawn; the first round warms up and is not counted. The ratio is seconds of PyG's best over ours,
paired by round. Beside them stand the nodes and edges of a batch, which must be alike.

PyG needs a back end to sample: pyg-lib, or torch-sparse. Without one this script says so and ends.
PyG advises to trim a batch layer by layer. pyg-lib counts what that needs, torch-sparse does not:
then neither side trims, and ours, trimmed, has a row of its own that no ratio is taken from.

    pip install --no-build-isolation torch-scatter torch-sparse     (from source, half an hour)
    python benchmarks/pyg_epoch.py [--quick] [--minutes 8]
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch_geometric.typing
from common.graphs import data_folder, load_graph
from common.report import Report, median_spread
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn.models import GraphSAGE

from foregather import Graph, Loader
from foregather.graph.features import Features
from foregather.graph.synthetic import synthetic_arrays

COLUMNS, CLASSES = 128, 40
WORKERS = (0, 1, 2)
OURS, TRIMMED = "foregather", "foregather, trimmed"


@dataclass(frozen=True)
class Setting:
    """A model and what is sampled for it."""

    title: str
    fanouts: tuple[int, ...]
    hidden: int
    seeds: int  # of a batch
    batches: int  # of an epoch


SETTINGS = (
    Setting("3 layers, 128 wide, [15, 10, 5], 256 seeds", (15, 10, 5), 128, 256, 6),
    Setting("2 layers, 64 wide, [10, 10], 1024 seeds", (10, 10), 64, 1024, 8),
)


def back_end() -> str | None:
    """What PyG would sample with."""
    if torch_geometric.typing.WITH_PYG_LIB:
        return "pyg-lib"
    return "torch-sparse" if torch_geometric.typing.WITH_TORCH_SPARSE else None


def synthetic(nodes: int, edges: int) -> Graph:
    made = synthetic_arrays(nodes, edges=edges, features=0, classes=2)
    return with_features(nodes, made.indptr, made.indices)


def real(name: str) -> Graph:
    graph = load_graph(name, features=False)
    return with_features(graph.num_nodes, graph.indptr, graph.indices)


def with_features(nodes: int, indptr: np.ndarray, indices: np.ndarray) -> Graph:
    """Random rows: their values do not change the time, but every page is there."""
    x = np.random.default_rng(0).random((nodes, COLUMNS), np.float32)
    labels = (np.arange(nodes) % CLASSES).astype(np.int64)
    return Graph(nodes, len(indices), indptr, indices, Features(x), labels=labels)


def our_loader(graph: Graph, setting: Setting, nodes: torch.Tensor) -> Iterable:
    return Loader(graph, list(setting.fanouts), nodes, setting.seeds, shuffle=True)


def pyg_loader(data: Data, setting: Setting, nodes: torch.Tensor, workers: int) -> Iterable:
    return NeighborLoader(
        data,
        list(setting.fanouts),
        input_nodes=nodes,
        batch_size=setting.seeds,
        shuffle=True,
        is_sorted=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def as_data(graph: Graph) -> Data:
    targets = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    pairs = np.stack([graph.indices.astype("i8"), targets])
    assert graph.features is not None and graph.labels is not None
    x, y = torch.from_numpy(np.array(graph.features.data)), torch.from_numpy(graph.labels)
    return Data(x=x, y=y, edge_index=torch.from_numpy(pairs), num_nodes=graph.num_nodes)


class Trainer:
    """One model and its optimiser; every system trains its own, from the same weights."""

    def __init__(self, setting: Setting, trim: bool) -> None:
        torch.manual_seed(0)
        self.trim = trim
        self.model = GraphSAGE(COLUMNS, setting.hidden, len(setting.fanouts), CLASSES)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.sizes: list[tuple[int, int]] = []

    def epoch(self, loader: Iterable) -> float:
        """Seconds of one epoch."""
        start = time.perf_counter()
        for batch in loader:
            self.optimizer.zero_grad()
            hops = {}
            if self.trim:
                hops["num_sampled_nodes_per_hop"] = batch.num_sampled_nodes
                hops["num_sampled_edges_per_hop"] = batch.num_sampled_edges
            out = self.model(batch.x, batch.edge_index, **hops)
            size = batch.batch_size
            functional.cross_entropy(out[:size], batch.y[:size]).backward()
            self.optimizer.step()
            self.sizes.append((batch.num_nodes, batch.num_edges))
        return time.perf_counter() - start

    def shape(self) -> str:
        """Mean nodes and edges of a batch."""
        nodes, edges = np.mean(self.sizes, 0)
        return f"{nodes:,.0f} / {edges:,.0f}"


def compare(graph: Graph, setting: Setting, rounds: int, workers: tuple[int, ...], ends: float):
    """Seconds an epoch by system, of all rounds but the first, and the shape of its batches."""
    count = min(setting.batches * setting.seeds, graph.num_nodes)
    chosen = np.random.default_rng(1).choice(graph.num_nodes, count, replace=False)
    nodes = torch.from_numpy(np.sort(chosen))
    loaders: dict[str, Iterable] = {OURS: our_loader(graph, setting, nodes)}
    trims = back_end() != "torch-sparse"
    if not trims:
        loaders[TRIMMED] = our_loader(graph, setting, nodes)
    if workers:
        data = as_data(graph)
        for number in workers:
            loaders[f"PyG, {number} workers"] = pyg_loader(data, setting, nodes, number)
    trainers = {name: Trainer(setting, trims or name == TRIMMED) for name in loaders}
    seconds: dict[str, list[float]] = {name: [] for name in loaders}
    order = list(loaders)
    for number in range(rounds + 1):
        random.Random(number).shuffle(order)
        for name in order:
            taken = trainers[name].epoch(loaders[name])
            if number:
                seconds[name].append(taken)
        if number >= 1 and time.perf_counter() > ends:
            break
    return seconds, {name: trainer.shape() for name, trainer in trainers.items()}


def rows_of(graph: str, setting: Setting, seconds: dict, shapes: dict) -> list[list[str]]:
    """One row per system; ratios are to the best of PyG."""
    peers = [name for name in seconds if name not in (OURS, TRIMMED)]
    best = min(peers, key=lambda name: statistics.median(seconds[name]), default=None)
    rows = []
    for name, values in seconds.items():
        pairs = zip(values, seconds[OURS], strict=True)
        ratio = median_spread([a / b for a, b in pairs]) if name == best else ""
        rows.append([graph, setting.title, name, shapes[name], median_spread(values), ratio])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small graph, no report")
    parser.add_argument("--minutes", type=float, default=8, help="of the whole run, at most")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="ours only, to try the script")
    options = parser.parse_args()
    found = back_end()
    if found is None and not options.alone:
        print(
            "PyG has no back end here: NeighborLoader needs pyg-lib or torch-sparse.\n"
            "  pip install --no-build-isolation torch-scatter torch-sparse   (built from source)\n"
            "or a pyg-lib wheel for your torch as PyG's installation page says; then run this "
            "again.\nNothing was measured. With --alone our side is timed by itself."
        )
        return 0
    graphs: dict[str, Callable[[], Graph]] = {
        "1M nodes, 20M edges": lambda: synthetic(1_000_000, 20_000_000),
        "ogbn_arxiv": lambda: real("ogbn_arxiv"),
        "actors_collab": lambda: real("actors_collab"),
    }
    if options.quick:
        graphs = {"20k nodes, 200k edges": lambda: synthetic(20_000, 200_000)}
    else:
        data_folder()
    started, rows = time.perf_counter(), []
    share = 60 * options.minutes / (len(graphs) * len(SETTINGS))
    rounds = 2 if options.quick else options.rounds
    workers = () if options.alone else WORKERS
    cells = [(name, setting) for name in graphs for setting in SETTINGS]
    for number, (name, setting) in enumerate(cells):
        if number % len(SETTINGS) == 0:
            graph = graphs[name]()
        seconds, shapes = compare(graph, setting, rounds, workers, started + share * (number + 1))
        found_rows = rows_of(name, setting, seconds, shapes)
        print("\n".join(" | ".join(row) for row in found_rows), flush=True)
        rows += found_rows
    if options.quick or options.alone:
        return 0
    report = Report("pyg_epoch", __doc__)
    report.line(f"PyG samples with {found}. 128 float32 columns.")
    head = ["graph", "model", "loader", "nodes / edges of a batch", "seconds per epoch"]
    report.table([*head, "PyG's best over ours"], rows)
    report.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
