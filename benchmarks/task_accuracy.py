"""Do several labels, two classes and numbers reach what the same model reaches with PyG's loader?

PyG's GraphSAGE of two layers on three graphs: blogcatalog (39 labels at the same time; micro and
macro F1), tolokers (two classes; ROC-AUC) and ogbn_arxiv (the year of each paper; RMSE). *PyG* is a
plain loop over PyG's NeighborLoader with pyg-lib; *foregather* is `foregather train`. Both have the
same optimiser, batch size, fan-outs, epochs, splits and seeds, but their own initial weights and
samples; both take the epoch with the best exact validation, and are rated with every edge. Scores
of PyG are by scikit-learn on a whole-graph pass, ours are those that the run reports, so metrics
are compared too. *Constant* is the baseline that the run prints.

blogcatalog has no features: both sides get the same 64 singular vectors of its normalised
adjacency. Those of ogbn_arxiv are a stand-in made from its topology, so its errors compare with
nothing published; its split is drawn by chance (a fifth each for training, validation and test),
since the published one is by year. Seed k takes published split k of tolokers, and draws others.

    FOREGATHER_DATA=folder OMP_NUM_THREADS=1 python benchmarks/task_accuracy.py

The two agree if their means differ by less than one standard deviation of the pooled seeds.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from common.graphs import data_folder
from common.report import Report
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import svds
from sklearn import metrics as sk
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

from foregather import Graph
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import conduct
from foregather.train.settings import (
    CheckpointSettings,
    ModelSettings,
    OptimizerSettings,
    SamplerSettings,
    Settings,
    TrainSettings,
    WatchSettings,
)

FANOUTS, BATCH, HIDDEN, RATE = [15, 10], 512, 64, 0.01
GOALS = {
    "blogcatalog": ["micro_f1", "macro_f1"],
    "tolokers": ["roc_auc"],
    "ogbn_arxiv": ["rmse"],
}


def split_by_chance(count: int, seed: int, parts: tuple[float, float]) -> dict[str, np.ndarray]:
    order = np.random.default_rng(seed).permutation(count)
    first, second = int(parts[0] * count), int((parts[0] + parts[1]) * count)
    last = min(count, second + int(parts[1] * count))
    return {"train": order[:first], "valid": order[first:second], "test": order[second:last]}


def structure(edges: np.ndarray, count: int, columns: int = 64) -> np.ndarray:
    """Singular vectors of the normalised adjacency, each scaled to unit variance."""
    matrix = coo_matrix((np.ones(edges.shape[1]), edges), (count, count)).tocsr()
    root = diags(1 / np.sqrt(np.maximum(matrix.sum(1).A1, 1)))
    vectors, _, _ = svds(root @ matrix @ root, columns, v0=np.ones(count))
    return (vectors / vectors.std(0)).astype(np.float32)


def load(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Edges, features, labels, and published splits."""
    with np.load(data_folder() / f"{name}.npz") as found:
        z = dict(found)
    edges, count = z["edge_index"].astype(np.int64), int(z["num_nodes"])
    if name == "blogcatalog":
        return edges, structure(edges, count), z["y"], None
    if name == "tolokers":
        return edges, z["x"], z["y"].astype(np.int64), z["splits10"]
    with np.load(data_folder() / "ogbn_arxiv_surrogate_x.npz") as found:
        x = found["x"].astype(np.float32)
    both = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    return both, x, z["node_year"].astype(np.float32), None


def splits_of(name: str, count: int, published: np.ndarray | None, seed: int) -> dict:
    if published is not None:
        own = published[seed]
        return {
            key: np.flatnonzero(own == at) for key, at in (("train", 1), ("valid", 2), ("test", 3))
        }
    return split_by_chance(count, seed, (0.6, 0.2) if name == "blogcatalog" else (0.2, 0.2))


def rate(metric: str, scores: np.ndarray, labels: np.ndarray) -> float:
    """By scikit-learn."""
    if metric == "rmse":
        return float(sk.root_mean_squared_error(labels, scores[:, 0]))
    if metric == "roc_auc":
        return float(sk.roc_auc_score(labels, scores[:, 1] - scores[:, 0]))
    return float(sk.f1_score(labels, scores > 0, average=metric[:5], zero_division=0))


def with_pyg(edges, x, labels, splits, metric: str, epochs: int, seed: int) -> float:
    """A plain loop over PyG's loader; the test score at the best validation."""
    torch.manual_seed(seed)
    numbers = labels.dtype.kind == "f"
    mean, scale = (
        (labels[splits["train"]].mean(), labels[splits["train"]].std()) if numbers else (0, 1)
    )
    y = torch.from_numpy((labels - mean) / scale if numbers else labels)
    data = Data(torch.from_numpy(x), torch.from_numpy(edges), y=y)
    width = labels.shape[1] if labels.ndim == 2 else 1 if numbers else 2
    model = GraphSAGE(x.shape[1], HIDDEN, 2, width, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    nodes = torch.from_numpy(splits["train"])
    loader = NeighborLoader(data, FANOUTS, nodes, batch_size=BATCH, shuffle=True)
    better = (lambda a, b: a < b) if metric == "rmse" else (lambda a, b: a > b)
    best, found = None, float("nan")
    for _ in range(epochs):
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            true = batch.y[: batch.batch_size]
            if numbers:
                loss = functional.mse_loss(out[:, 0], true)
            elif labels.ndim == 2:
                loss = functional.binary_cross_entropy_with_logits(out, true.float())
            else:
                loss = functional.cross_entropy(out, true)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = model(data.x, data.edge_index).numpy() * scale + mean
        valid = rate(metric, scores[splits["valid"]], labels[splits["valid"]])
        if best is None or better(valid, best):
            best = valid
            found = rate(metric, scores[splits["test"]], labels[splits["test"]])
    return found


def with_ours(graph: Path, metric: str, epochs: int, seed: int, run: Path) -> tuple[float, float]:
    """`foregather train`: its test score and its baseline."""
    task = "regression" if metric == "rmse" else "auto"  # years are whole numbers
    settings = Settings(
        graph=str(graph),
        run=str(run),
        sampler=SamplerSettings(fanouts=tuple(FANOUTS)),
        model=ModelSettings("torch_geometric.nn:GraphSAGE", hidden=HIDDEN, dropout=0.5),
        optimizer=OptimizerSettings(lr=RATE),
        train=TrainSettings(
            epochs=epochs, batch_size=BATCH, metric=metric, task=task, evaluate="exact", seed=seed
        ),
        checkpoint=CheckpointSettings(minutes=0, epochs=epochs),
        watch=WatchSettings(trace=False),
    )
    with Run.create(settings, lambda text: None) as made:
        facts = conduct(made)
    assert facts["scored"] == "exact" and facts["metric"] == metric
    return facts["test"], facts["baseline"]["test"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=list(GOALS))
    given = parser.parse_args()
    rows, begin = [], time.perf_counter()
    for name in given.only:
        edges, x, labels, published = load(name)
        for metric in GOALS[name]:
            ours, theirs, constant = [], [], []
            for seed in range(given.seeds):
                splits = splits_of(name, len(x), published, seed)
                with tempfile.TemporaryDirectory() as place:
                    whole = Graph.from_edge_index(edges, len(x), x=x, y=labels, splits=splits)
                    folder = whole.save(Path(place) / "g")
                    score, guess = with_ours(folder, metric, given.epochs, seed, Path(place) / "r")
                ours.append(score)
                constant.append(guess)
                theirs.append(with_pyg(edges, x, labels, splits, metric, given.epochs, seed))
                print(name, metric, seed, ours[-1], theirs[-1], constant[-1], flush=True)
            rows.append(_row(name, metric, ours, theirs, constant))
    report = Report("task_accuracy", __doc__)
    report.line(
        f"{given.seeds} seeds, {given.epochs} epochs, test scores: mean and standard deviation. "
        f"{time.perf_counter() - begin:.0f} s."
    )
    head = [
        "graph",
        "metric",
        "foregather",
        "PyG",
        "constant",
        "difference",
        "within one deviation",
    ]
    report.table(head, rows)
    report.write()


def _row(name, metric, ours, theirs, constant) -> list[str]:
    def shown(values: list[float]) -> str:
        return f"{statistics.mean(values):.4f} ± {_deviation(values):.4f}"

    away = statistics.mean(ours) - statistics.mean(theirs)
    pooled = ((_deviation(ours) ** 2 + _deviation(theirs) ** 2) / 2) ** 0.5
    within = "yes" if abs(away) <= pooled else "no"
    guess = f"{statistics.mean(constant):.4f}"
    return [name, metric, shown(ours), shown(theirs), guess, f"{away:+.4f}", within]


def _deviation(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


if __name__ == "__main__":
    main()
