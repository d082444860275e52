"""Training: what benchmarks of accuracy share: graphs, models, steps, and runs that are kept."""

import itertools
import json
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch.nn import functional
from torch_geometric.nn import GCNConv, SAGEConv

from foregather import Graph

from .graphs import narrow

__all__ = [
    "DROPOUT",
    "PLANS",
    "Net",
    "Plan",
    "Runs",
    "Task",
    "Unfinished",
    "batch_matrix",
    "full_steps",
    "load",
    "split_of",
    "spread",
    "train",
    "train_model",
]

DROPOUT = 0.5
_CODES = {1: "train", 2: "val", 3: "test"}


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
    columns: int = 0  # features are reduced to this number, to save time; 0: as they are


PLANS = {
    "cora": Plan(150, 3, 140, 25, 1024, 1354, 64, 0.01, 5e-4),
    "citeseer": Plan(150, 3, 120, 25, 1024, 1664, 64, 0.01, 5e-4),
    "pubmed": Plan(150, 3, 60, 25, 1024, 9859, 64, 0.01, 5e-4),
    "photo": Plan(100, 10, 1024, 15, 2048, 3825, columns=128),
    "coauthor_cs": Plan(100, 10, 1024, 15, 4096, 9167, columns=128),
    "ogbn_arxiv": Plan(40, 5, 16384, 15, 84672, 127008, rate=0.05),
    "squirrel": Plan(150, 5, 2496, 400, 5201, 5201, 64, 0.05, columns=128),
    "tolokers": Plan(60, 10, 5879, 100, 8192, 11758, 64, 0.01),
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
    several: np.ndarray | None = None  # [splits, N]: 1, 2, 3 for train, val, test


def load(name: str, folder: Path, columns: int = 0) -> Task:
    """Reads a graph; citations are made undirected, bags of words have rows of sum 1.

    Other features have columns of mean 0 and variance 1; `columns` reduces bags of words.
    """
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        z = dict(file)
    nodes = int(z["num_nodes"])
    if "x_data" in z:
        parts = (z["x_data"].astype("f4"), z["x_indices"].astype("i4"), z["x_indptr"])
        x = narrow(sp.csr_matrix(parts, shape=z["x_shape"]), columns)
    elif "x" in z:
        x = (z["x"] - z["x"].mean(0)) / np.maximum(z["x"].std(0), 1e-6)
    else:
        x = np.load(folder / f"{name}_surrogate_x.npz")["x"].astype("f4")
    y = z["y"].astype("i8")
    splits = {k.removesuffix("_idx"): z[k].astype("i8") for k in z if k.endswith("_idx")}
    make = {"num_nodes": nodes, "x": x, "y": y, "undirected": True}
    plain = Graph.from_edge_index(z["edge_index"], **make)
    looped = Graph.from_edge_index(z["edge_index"], self_loops=True, **make)
    matrices = {"SAGE": matrix(plain, None), "GCN": matrix(looped, gcn_weight(looped))}
    return Task(
        plain, looped, torch.from_numpy(x), torch.from_numpy(y), splits, matrices, z.get("splits10")
    )


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


def batch_matrix(edge_index: torch.Tensor, weight: torch.Tensor | None, nodes: int) -> torch.Tensor:
    """Edges of a minibatch as such a matrix: the same sums, in less time where edges are many."""
    order = torch.argsort(edge_index[1], stable=True)
    starts = torch.zeros(nodes + 1, dtype=torch.int64)
    starts[1:] = torch.bincount(edge_index[1], minlength=nodes).cumsum(0)
    value = torch.ones(len(order)) if weight is None else weight[order]
    return torch.sparse_csr_tensor(starts, edge_index[0][order], value, (nodes, nodes))


#: Nodes by the name of their part; and the loss of a step, from the model.
Split = dict[str, torch.Tensor]
LossOf = Callable[[Any], torch.Tensor]


class WeightedSAGE(SAGEConv):  # type: ignore[misc]  # PyG has no types here
    """PyG's SAGEConv, whose mean may be a weighted sum that a sampler made right on average."""

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, weight: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Rows of all nodes."""
        if weight is None:
            plain: torch.Tensor = super().forward(x, edge_index)
            return plain
        if edge_index.layout == torch.sparse_csr:  # which has the weights
            mean = edge_index @ x
        else:
            rows = x[edge_index[0]] * weight[:, None]
            mean = torch.zeros_like(x).index_add_(0, edge_index[1], rows)
        made: torch.Tensor = self.lin_l(mean) + self.lin_r(x)
        return made


class Net(torch.nn.Module):
    """A stack of PyG's convolutions; edges are a matrix, an edge_index, or one graph a layer."""

    def __init__(self, kind: str, widths: list[int]) -> None:
        super().__init__()
        pairs = itertools.pairwise(widths)
        make: Callable[[int, int], torch.nn.Module] = (
            WeightedSAGE if kind == "SAGE" else lambda a, b: GCNConv(a, b, normalize=False)
        )
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


def forever(loader: Iterable[Any]) -> Iterator[Any]:
    """Batches of one epoch after the other."""
    while True:
        yield from loader


def full_steps(task: Task, kind: str, train: torch.Tensor) -> LossOf:
    edges = task.matrices[kind]

    def loss(model: Net) -> torch.Tensor:
        return functional.cross_entropy(model(task.x, edges)[train], task.y[train])

    return loss


def train(
    task: Task, kind: str, layers: int, plan: Plan, seed: int, split: Split, loss_of: LossOf
) -> float:
    """Test accuracy in percent at the best validation accuracy."""
    return train_model(task, kind, layers, plan, seed, split, loss_of)[0]


def train_model(
    task: Task,
    kind: str,
    layers: int,
    plan: Plan,
    seed: int,
    split: Split,
    loss_of: LossOf,
    model: torch.nn.Module | None = None,
    edges: object = None,
) -> tuple[float, torch.nn.Module]:
    """The same, and the model after the last step; `model` and `edges` replace the usual ones."""
    if model is None:
        torch.manual_seed(seed)
        classes = int(task.y.max()) + 1
        model = Net(kind, [task.x.shape[1], *[plan.hidden] * (layers - 1), classes])
    edges = task.matrices[kind] if edges is None else edges
    optimizer = torch.optim.Adam(model.parameters(), lr=plan.rate, weight_decay=plan.decay)
    best = (-1.0, 0.0)
    for step in range(1, plan.steps + 1):
        model.train()
        optimizer.zero_grad()
        loss_of(model).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % plan.every == 0:
            model.eval()
            with torch.no_grad():
                scores = model(task.x, edges)
            pair = (score(scores, task.y, split["val"]), score(scores, task.y, split["test"]))
            best = max(best, pair, key=lambda pair: pair[0])
    return best[1], model


def score(scores: torch.Tensor, y: torch.Tensor, nodes: torch.Tensor) -> float:
    """Accuracy in percent; of two classes the area under the ROC curve, as is usual for them."""
    if scores.shape[1] > 2:
        return 100 * float((scores[nodes].argmax(1) == y[nodes]).float().mean())
    margin, positive = (scores[nodes, 1] - scores[nodes, 0]).numpy(), y[nodes].numpy() == 1
    pairs = positive.sum() * (~positive).sum()
    below = np.searchsorted(np.sort(margin[~positive]), margin[positive], "left").sum()
    equal = np.searchsorted(np.sort(margin[~positive]), margin[positive], "right").sum() - below
    return 100 * float((below + equal / 2) / pairs)


def split_of(task: Task, seed: int) -> dict[str, torch.Tensor]:
    """The published split (that of the seed, if several), or 60/20/20 drawn by the seed.

    Nodes without a label are left out.
    """
    parts = task.published
    if task.several is not None:
        parts = {n: np.flatnonzero(task.several[seed] == k) for k, n in _CODES.items()}
    if not parts:
        order = np.random.default_rng(seed).permutation(len(task.y))
        cut = [len(order) * 6 // 10, len(order) * 8 // 10]
        parts = dict(zip(("train", "val", "test"), np.split(order, cut), strict=True))
    return {name: torch.from_numpy(ids[task.y.numpy()[ids] >= 0]) for name, ids in parts.items()}


class Unfinished(Exception):
    """A run is not kept, and none shall be made."""


class Runs:
    """What runs gave, by graph, settings, model, way of training and seed, kept in a file."""

    def __init__(self, path: Path | None, finished: bool = False) -> None:
        self.path, self.finished = path, finished
        self.kept: dict[str, Any] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        if path is not None and path.exists():
            self.kept = json.loads(path.read_text())

    def get(self, key: str, run: Callable[[], Any]) -> Any:
        """What was kept under the key, or what the run gives."""
        if key not in self.kept:
            if self.finished:
                raise Unfinished
            self.kept[key] = run()
            if self.path is not None:
                half = self.path.with_suffix(".part")
                half.write_text(json.dumps(self.kept, indent=1))
                half.replace(self.path)
        return self.kept[key]


def spread(values: list[float], sign: str = "") -> str:
    """Mean and standard deviation, or the value of one seed."""
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):{sign}.2f}{deviation}"
