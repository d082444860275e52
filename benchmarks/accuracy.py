"""Does sampled training reach the accuracy of full-batch training?

PyG's SAGEConv and GCNConv with two layers (GCN with three as well for layer-wise samplers) are
trained twice from the same initial weights with the same optimiser, dropout and number of steps:
full batch, where every step sees the whole graph, and through `Loader`, where a step sees one
sampled minibatch. Both are evaluated by the same full-graph forward, at the same steps, and the
test accuracy is the one at the best validation accuracy. A seed sets weights, dropout, samples
and, where there is no published split, the split (60/20/20), so differences are paired by seed.

GCN: the graph has self-loops and the normalisation of the whole graph on both sides (`norm="gcn"`).
Bags of words have rows of sum 1; those of photo and coauthor_cs are reduced to their first 128
singular vectors for both sides, to save time. The features of ogbn_arxiv are a stand-in made from
its topology, so its accuracies compare with nothing published.

    FOREGATHER_DATA=folder python benchmarks/accuracy.py [--datasets cora ...] [--seeds 5]
"""

import argparse
import itertools
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from common.graphs import narrow
from common.report import Report
from torch.nn import functional
from torch_geometric.nn import GCNConv, SAGEConv

from foregather import Graph, Loader
from foregather.sampling import FastGCN, Ladies, Neighbor

DROPOUT = 0.5
BAR = {"Neighbor": 0.5, "Ladies": 1.5, "FastGCN": 1.5}


@dataclass(frozen=True)
class Plan:
    """How a graph is trained on; the same for both sides, but for the sampler's own numbers."""

    steps: int
    every: int  # steps between evaluations
    batch_size: int
    fanout: int  # Neighbor
    ladies: int  # nodes of a layer
    fastgcn: int  # the same; it chooses among all nodes, so a layer needs a share of the graph
    hidden: int = 64
    rate: float = 0.01
    decay: float = 0.0
    columns: int = 0  # features are reduced to so many, to save time; 0: as they are


PLANS = {
    "cora": Plan(150, 3, 140, 25, 1024, 1354, 64, 0.01, 5e-4),
    "citeseer": Plan(150, 3, 120, 25, 1024, 1664, 64, 0.01, 5e-4),
    "pubmed": Plan(150, 3, 60, 25, 1024, 9859, 64, 0.01, 5e-4),
    "photo": Plan(100, 10, 1024, 15, 2048, 3825, columns=128),
    "coauthor_cs": Plan(100, 10, 1024, 15, 2048, 9167, columns=128),
    "ogbn_arxiv": Plan(40, 5, 4096, 10, 8192, 84672, rate=0.05),
}


@dataclass(frozen=True)
class Task:
    """A graph with features, labels and the whole-graph matrices of both models."""

    plain: Graph
    looped: Graph
    x: torch.Tensor
    y: torch.Tensor
    published: dict[str, np.ndarray]
    matrices: dict[str, torch.Tensor]


def load(name: str, folder: Path) -> Task:
    """Reads a graph; citations are made undirected, bags of words have rows of sum 1."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        z = dict(file)
    nodes = int(z["num_nodes"])
    if "x_data" in z:
        parts = (z["x_data"].astype("f4"), z["x_indices"].astype("i4"), z["x_indptr"])
        x = narrow(sp.csr_matrix(parts, shape=z["x_shape"]), PLANS[name].columns)
    else:
        x = np.load(folder / f"{name}_surrogate_x.npz")["x"].astype("f4")
    y = z["y"].astype("i8")
    splits = {k.removesuffix("_idx"): z[k].astype("i8") for k in z if k.endswith("_idx")}
    make = {"num_nodes": nodes, "x": x, "y": y, "undirected": True}
    plain = Graph.from_edge_index(z["edge_index"], **make)
    looped = Graph.from_edge_index(z["edge_index"], self_loops=True, **make)
    matrices = {"SAGE": matrix(plain, None), "GCN": matrix(looped, gcn_weight(looped))}
    return Task(plain, looped, torch.from_numpy(x), torch.from_numpy(y), splits, matrices)


def gcn_weight(graph: Graph) -> np.ndarray:
    root = 1 / np.sqrt(np.maximum(graph.in_degree(), 1))
    target = np.repeat(root, graph.in_degree())
    return (target * root[graph.indices]).astype("f4")


def matrix(graph: Graph, weight: np.ndarray | None) -> torch.Tensor:
    """The whole graph as the sparse matrix that PyG's convolutions take."""
    value = np.ones(graph.num_edges, "f4") if weight is None else weight
    columns = torch.from_numpy(graph.indices.astype("i8"))
    size = (graph.num_nodes, graph.num_nodes)
    rows = torch.from_numpy(np.array(graph.indptr))
    return torch.sparse_csr_tensor(rows, columns, torch.from_numpy(value), size)


class Net(torch.nn.Module):
    """A stack of PyG's convolutions; edges are a matrix, an edge_index, or one graph a layer."""

    def __init__(self, kind: str, widths: list[int]) -> None:
        super().__init__()
        pairs = itertools.pairwise(widths)
        make: Callable = SAGEConv if kind == "SAGE" else lambda a, b: GCNConv(a, b, normalize=False)
        self.convs = torch.nn.ModuleList(make(a, b) for a, b in pairs)

    def forward(self, x: torch.Tensor, edges: object, weight: object = None) -> torch.Tensor:
        """Class scores of all nodes, or of the seeds where each layer has a graph of its own."""
        for number, conv in enumerate(self.convs):
            if number:
                x = functional.dropout(x.relu(), DROPOUT, self.training)
            if isinstance(edges, list):
                layer = edges[number]
                x = conv(x, layer.edge_index, layer.weight)[: layer.size[1]]
            elif weight is not None:
                x = conv(x, edges, weight)
            else:
                x = conv(x, edges)
        return x


def full_steps(task: Task, kind: str, train: torch.Tensor) -> Callable:
    edges = task.matrices[kind]

    def loss(model: Net) -> torch.Tensor:
        return functional.cross_entropy(model(task.x, edges)[train], task.y[train])

    return loss


def sampled_steps(task: Task, kind: str, rule: str, layers: int, plan: Plan, seed: int, train):
    """Losses of minibatches, epoch after epoch."""
    options: dict = {"input_nodes": train, "shuffle": True, "seed": seed}
    graph = task.plain if kind == "SAGE" else task.looped
    if kind == "GCN":
        options["norm"] = "gcn"
    if rule == "Neighbor":
        options["sampler"] = Neighbor([plan.fanout] * layers)
    else:
        layer = [plan.ladies if rule == "Ladies" else plan.fastgcn] * layers
        options["sampler"] = Ladies(layer) if rule == "Ladies" else FastGCN(layer)
    loader = Loader(graph, batch_size=plan.batch_size, **options)

    def forever():
        while True:
            yield from loader

    batches = forever()

    def loss(model: Net) -> torch.Tensor:
        batch = next(batches)
        if batch.edge_index is None:
            out = model(batch.x, batch.layers)
        else:
            out = model(batch.x, batch.edge_index, batch.get("edge_weight"))
        size = batch.batch_size
        return functional.cross_entropy(out[:size], batch.y[:size])

    return loss


def train(task: Task, kind: str, layers: int, plan: Plan, seed: int, split, loss_of) -> float:
    """Test accuracy in percent at the best validation accuracy."""
    torch.manual_seed(seed)
    classes = int(task.y.max()) + 1
    model = Net(kind, [task.x.shape[1], *[plan.hidden] * (layers - 1), classes])
    optimizer = torch.optim.Adam(model.parameters(), lr=plan.rate, weight_decay=plan.decay)
    best = (-1.0, 0.0)
    for step in range(1, plan.steps + 1):
        model.train()
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        if step % plan.every == 0:
            model.eval()
            with torch.no_grad():
                right = model(task.x, task.matrices[kind]).argmax(1) == task.y
            scores = [100 * float(right[split[name]].float().mean()) for name in ("val", "test")]
            best = max(best, tuple(scores), key=lambda pair: pair[0])
    return best[1]


def split_of(task: Task, seed: int) -> dict[str, torch.Tensor]:
    """The published split, or 60/20/20 drawn by the seed; nodes without a label are left out."""
    parts = task.published
    if not parts:
        order = np.random.default_rng(seed).permutation(len(task.y))
        cut = [len(order) * 6 // 10, len(order) * 8 // 10]
        parts = dict(zip(("train", "val", "test"), np.split(order, cut), strict=True))
    return {name: torch.from_numpy(ids[task.y.numpy()[ids] >= 0]) for name, ids in parts.items()}


CELLS = [  # model, layers, sampler
    ("SAGE", 2, "Neighbor"),
    ("GCN", 2, "Neighbor"),
    ("GCN", 2, "Ladies"),
    ("GCN", 2, "FastGCN"),
    ("GCN", 3, "Ladies"),
    ("GCN", 3, "FastGCN"),
]


class Unfinished(Exception):
    """A run is not kept, and none shall be made."""


class Runs:
    """Accuracies by graph, settings, model, sampler and seed, kept in a file between runs."""

    def __init__(self, path: Path | None, finished: bool = False) -> None:
        self.path, self.finished = path, finished
        self.kept: dict[str, float] = {}
        if path is not None and path.exists():
            self.kept = json.loads(path.read_text())

    def get(self, key: str, run: Callable[[], float]) -> float:
        """What was kept under the key, or what the run gives."""
        if key not in self.kept:
            if self.finished:
                raise Unfinished
            self.kept[key] = run()
            if self.path is not None:
                self.path.write_text(json.dumps(self.kept))
        return self.kept[key]


def compare(name: str, task: Task, seeds: int, cell: tuple, runs: Runs) -> list[str]:
    plan, (kind, layers, rule) = PLANS[name], cell
    full, ours = [], []
    for seed in range(seeds):
        split = split_of(task, seed)

        def whole(seed: int = seed, split: dict = split) -> float:
            loss = full_steps(task, kind, split["train"])
            return train(task, kind, layers, plan, seed, split, loss)

        def sampled(seed: int = seed, split: dict = split) -> float:
            loss = sampled_steps(task, kind, rule, layers, plan, seed, split["train"])
            return train(task, kind, layers, plan, seed, split, loss)

        key = f"{name} {plan} {kind} {layers}"  # other settings are other runs
        full.append(runs.get(f"{key} whole {seed}", whole))
        ours.append(runs.get(f"{key} {rule} {seed}", sampled))
    paired = [a - b for a, b in zip(ours, full, strict=True)]
    met = "yes" if statistics.mean(paired) >= -BAR[rule] else "**no**"
    row = [name, f"{kind}, {layers}", rule, spread(full), spread(ours), spread(paired, "+")]
    return [*row, f"{BAR[rule]}", met]


def spread(values: list[float], sign: str = "") -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):{sign}.2f} ± {deviation:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(PLANS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cells", type=int, nargs="+", default=list(range(len(CELLS))))
    parser.add_argument("--keep", type=Path, help="finished runs, to go on later")
    parser.add_argument("--dry", action="store_true", help="write no report")
    parser.add_argument("--finished", action="store_true", help="report only what is kept")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")
    start, rows, runs = time.perf_counter(), [], Runs(args.keep, args.finished)
    for name in args.datasets:
        task = load(name, Path(os.environ["FOREGATHER_DATA"]))
        for cell in args.cells:
            try:
                rows.append(compare(name, task, args.seeds, CELLS[cell], runs))
            except Unfinished:
                continue
            print(f"{time.perf_counter() - start:.0f} s", " | ".join(rows[-1]), flush=True)
    if args.dry:
        return
    report = Report("accuracy", __doc__)
    report.line(f"Percent, mean ± standard deviation of {args.seeds} seeds; difference is paired.")
    head = ["graph", "model, layers", "sampler", "full batch", "sampled"]
    report.table([*head, "difference", "bar", "met"], rows)
    if args.finished:
        report.line(
            "Graphs, models and samplers that are not in the table were not run to the end."
        )
    report.write()


if __name__ == "__main__":
    main()
