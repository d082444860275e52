"""Do several labels, two classes and numbers reach what the same model reaches with PyG's loader?

PyG's GraphSAGE of two layers on three graphs: blogcatalog (39 labels at the same time; micro and
macro F1), tolokers (two classes; ROC-AUC) and ogbn_arxiv (the year of each paper; RMSE). *PyG* is a
plain loop over PyG's NeighborLoader with pyg-lib; *foregather* is `foregather train`. Both have the
same first weights, optimiser, batch size, fan-outs, epochs, splits and seeds, but their own samples
and dropout; both take the epoch with the best exact validation, and are rated with every edge.
Scores of PyG are by scikit-learn on a whole-graph pass, ours are those that the run reports, so
metrics are compared too. *Constant* is the baseline that the run prints.

blogcatalog has no features: both sides get the same 64 singular vectors of its normalised
adjacency. Those of ogbn_arxiv are a stand-in made from its topology, so its errors compare with
nothing published; its split is drawn by chance (a fifth each for training, validation and test),
since the published one is by year. Seed k takes published split k of tolokers, and draws others.

The two agree if their means differ by no more than one standard deviation of the pooled seeds. With
five seeds about one equal pair in ten does not; so then both sides are run again with twice as
many fresh seeds, and both verdicts stay. Epochs matter: where scores still rise from epoch to
epoch, runs of equal worth end apart, so the gain of the last fifth of the epochs (of the best
validation, mean of both sides) is in the table.

    FOREGATHER_DATA=folder OMP_NUM_THREADS=1 python benchmarks/task_accuracy.py [--keep folder]
        [--only tolokers,blogcatalog:10:5]

A graph's name may be followed by epochs and seeds of its own. Results are kept from run to run in
the folder of `--keep`, by graph, metric, epochs, side and seed.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.graphs import data_folder
from common.report import Report
from common.skip import skip
from common.training import Runs, Unfinished
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import svds
from sklearn import metrics as sk
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

from foregather import Graph
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
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
#: Epochs and seeds, by graph.
PLANS = {"blogcatalog": (40, 5), "tolokers": (30, 5), "ogbn_arxiv": (8, 3)}
Found = dict[str, Any]


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


def with_pyg(edges, x, labels, splits, metric: str, epochs: int, seed: int) -> Found:
    """A plain loop over PyG's loader: the test score at the best validation, and validations."""
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
    valid, found = [], float("nan")
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
        now = rate(metric, scores[splits["valid"]], labels[splits["valid"]])
        if all(better(now, before) for before in valid):
            found = rate(metric, scores[splits["test"]], labels[splits["test"]])
        valid.append(now)
    return {"test": found, "valid": valid}


def with_ours(graph: Path, metric: str, epochs: int, seed: int, run: Path) -> Found:
    """`foregather train`: its test score, its baseline and its validations."""
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
        facts = run_loop(made)
    assert facts["scored"] == "exact" and facts["metric"] == metric
    lines = (run / "metrics.jsonl").read_text().splitlines()
    valid = [json.loads(line)["valid"] for line in lines]
    return {"test": facts["test"], "constant": facts["baseline"]["test"], "valid": valid}


class Cell:
    """One graph and one metric, trained on both sides."""

    def __init__(self, name: str, metric: str, epochs: int, arrays: tuple, kept: Runs) -> None:
        self.name, self.metric, self.epochs, self.kept = name, metric, epochs, kept
        self.edges, self.x, self.labels, self.published = arrays

    def run(self, side: str, seed: int) -> Found:
        """One side with one seed, kept or made."""
        found = self.kept.get(
            f"{self.name} {self.metric} {self.epochs} {side} {seed}",
            lambda: self._ours(seed) if side == "ours" else self._pyg(seed),
        )
        print(self.name, self.metric, side, seed, found["test"], flush=True)
        return found

    def _splits(self, seed: int) -> dict[str, np.ndarray]:
        return splits_of(self.name, len(self.x), self.published, seed)

    def _ours(self, seed: int) -> Found:
        with tempfile.TemporaryDirectory() as place:
            whole = Graph.from_edge_index(
                self.edges, len(self.x), x=self.x, y=self.labels, splits=self._splits(seed)
            )
            folder = whole.save(Path(place) / "g")
            return with_ours(folder, self.metric, self.epochs, seed, Path(place) / "r")

    def _pyg(self, seed: int) -> Found:
        arrays = self.edges, self.x, self.labels, self._splits(seed)
        return with_pyg(*arrays, self.metric, self.epochs, seed)

    def row(self, seeds: int) -> list[str]:
        """The row of the report."""
        ours, pyg = ([self.run(side, k) for k in range(seeds)] for side in ("ours", "pyg"))
        said, again = verdict(ours, pyg), "-"
        if said.endswith("no") and seeds > 2:
            most = 3 * seeds if self.published is None else min(3 * seeds, len(self.published))
            again = self._again(range(seeds, most))
        gain = statistics.mean(late_gain(one["valid"], self.metric) for one in (*ours, *pyg))
        constant = f"{statistics.mean(one['constant'] for one in ours):.4f}"
        counts = [str(self.epochs), str(seeds), shown(ours), shown(pyg), constant]
        return [self.name, self.metric, *counts, f"{gain:+.4f}", said, again]

    def _again(self, seeds: range) -> str:
        """Both sides with other seeds."""
        try:
            ours, pyg = ([self.run(side, k) for k in seeds] for side in ("ours", "pyg"))
        except Unfinished:
            return "not run"
        return f"{len(seeds)} seeds: {shown(ours)}, {shown(pyg)}: {verdict(ours, pyg)}"


def late_gain(valid: list[float], metric: str) -> float:
    """By how much the best validation grew in the last fifth of the epochs."""
    best = min if metric == "rmse" else max
    early = valid[: max(1, len(valid) * 4 // 5)]
    return best(valid) - best(early)


def verdict(ours: list[Found], pyg: list[Found]) -> str:
    """The difference of the means, and whether it is within one deviation."""
    mine, theirs = ([one["test"] for one in side] for side in (ours, pyg))
    away = statistics.mean(mine) - statistics.mean(theirs)
    pooled = ((_deviation(mine) ** 2 + _deviation(theirs) ** 2) / 2) ** 0.5
    return f"{away:+.4f}, {'yes' if abs(away) <= pooled else 'no'}"


def shown(side: list[Found]) -> str:
    """Mean and deviation of the test scores."""
    values = [one["test"] for one in side]
    return f"{statistics.mean(values):.4f} ± {_deviation(values):.4f}"


def _deviation(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, help="for graphs that say nothing of their own")
    parser.add_argument("--epochs", type=int, help="likewise")
    parser.add_argument("--only", default=",".join(GOALS), help="graphs, with commas")
    parser.add_argument("--keep", type=Path, help="a folder for finished runs, to go on later")
    parser.add_argument("--finished", action="store_true", help="report only what is kept")
    given = parser.parse_args()
    if not (WITH_PYG_LIB or WITH_TORCH_SPARSE or given.finished):
        skip("the side of PyG samples with pyg-lib or torch-sparse, and neither is installed")
    torch.set_num_threads(1)
    rows, begin = [], time.perf_counter()
    missing = []
    kept = Runs(None if given.keep is None else given.keep / "task_accuracy.json", given.finished)
    for text in given.only.split(","):
        name, *own = text.split(":")
        usual = given.epochs or PLANS[name][0], given.seeds or PLANS[name][1]
        epochs, seeds = map(int, own) if own else usual
        arrays = load(name)
        for metric in GOALS[name]:
            try:
                rows.append(Cell(name, metric, epochs, arrays, kept).row(seeds))
            except Unfinished:
                missing.append(f"{name} with {metric}, {epochs} epochs and {seeds} seeds")
    report = Report("task_accuracy", __doc__)
    report.line(f"Test scores: mean and standard deviation. {time.perf_counter() - begin:.0f} s.")
    head = ["graph", "metric", "epochs", "seeds", "foregather", "PyG", "constant", "late gain"]
    report.table([*head, "difference, within one deviation", "again, fresh seeds"], rows)
    if missing:
        report.line(f"Not run to the end: {'; '.join(missing)}.")
    report.write()


if __name__ == "__main__":
    main()
