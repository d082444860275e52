"""What one rank of a test world does with a Loader; the functions are tasks of rank.py."""

import hashlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from dist import cases, restarting
from foregather import Features, Graph, Loader
from foregather.dist import Grid
from foregather.nn import SAGE
from foregather.sampling import FastGCN, Ladies, Neighbor

RULES = {
    "once": Neighbor([4, 3]),
    "per-layer": Neighbor([3, 2], expand="per-layer"),
    "ladies": Ladies([9, 7]),
    "fastgcn": FastGCN([20, 20]),
}
#: (name, replication, topology, mode, rule, batch size, bulk)
LOADERS = [
    ("owner", 1, "partitioned", "owner", "once", 7, 3),
    ("one a bulk", 1, "partitioned", "owner", "once", 25, 1),
    ("replicated", 1, "replicated", "owner", "per-layer", 11, 2),
    ("ladies", 1, "partitioned", "owner", "ladies", 9, 4),
    ("fastgcn", 1, "partitioned", "owner", "fastgcn", 9, 4),
    ("paper", 1, "partitioned", "paper", "once", 7, 3),
    ("grid", 2, "partitioned", "owner", "once", 7, 3),
    ("paper grid", 2, "partitioned", "paper", "ladies", 7, 3),
]
EPOCHS = 2


def train_graph(kind="plain"):
    """The graph of cases.py with features and labels."""
    graph, rng = cases.graph(kind), np.random.default_rng(5)
    rows = rng.standard_normal((graph.num_nodes, 6)).astype(np.float32)
    labels = (rows[:, 0] > 0).astype(np.int64) + 2 * (rows[:, 1] > 0)
    splits = {"train": rng.permutation(graph.num_nodes)[:101]}
    return replace(graph, features=Features(rows), labels=labels, splits=splits)


def loader_of(graph, rule, batch_size, bulk, **options):
    rest = {"shuffle": True, "seed": 3, "labels": "seeds", "pyg": False, "threads": 0}
    return Loader(
        graph, None, "train", batch_size, sampler=RULES[rule], bulk=bulk, **rest, **options
    )


def digest(batch):
    state = hashlib.sha256()
    for name in ("n_id", "x", "y", "e_id", "input_id", "seed_id", "edge_weight"):
        value = getattr(batch, name)
        if value is not None:
            state.update(name.encode() + value.numpy().tobytes())
    edges = [batch.edge_index] if batch.layers is None else [a.edge_index for a in batch.layers]
    for value in edges:
        state.update(value.numpy().tobytes())
    return [batch.number, round(batch.share, 6), batch.batch_size, state.hexdigest()]


def batches(folder):
    """Two epochs of every loader, and one that is left early."""
    saved = Path(folder, "graph")
    graph = Graph.open(saved) if saved.exists() else train_graph()
    found = {}
    for name, c, topology, mode, rule, size, bulk in LOADERS:
        if int(os.environ["WORLD_SIZE"]) % (c * c):
            continue
        with Grid(c, timeout=60) as grid:
            loader = loader_of(
                graph, rule, size, bulk, grid=grid, topology=topology, mode=mode
            )
            epochs = [[digest(batch) for batch in loader] for _ in range(EPOCHS)]
            for number, batch in enumerate(loader):  # left early: epoch 2
                if number == 0:
                    state = loader.state_dict()
                    break
            after = [digest(batch) for batch in loader]  # epoch 3
            again = loader_of(graph, rule, size, bulk, grid=grid, topology=topology, mode=mode)
            again.load_state_dict(state)
            resumed = [digest(batch) for batch in again]  # the rest of epoch 2
            found[name] = [*epochs, resumed, after, len(loader)]
    Path(folder, f"batches{os.environ['RANK']}.json").write_text(json.dumps(found))


def train(folder):
    """Trains under DDP; the union of the ranks' seeds is that of one rank's larger batch."""
    with Grid(timeout=60) as grid:
        graph = train_graph()
        loader = loader_of(graph, "once", 24 // grid.size, 2, grid=grid)
        torch.manual_seed(1)
        model = DistributedDataParallel(SAGE([6, 16, 4], dropout=0.0))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        losses = []
        for _ in range(6):
            total = torch.zeros(2)
            for batch in loader:
                optimizer.zero_grad()
                scores = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = functional.cross_entropy(scores, batch.y) * batch.share
                loss.backward()
                optimizer.step()
                total += torch.tensor([float(loss), 1.0])
            torch.distributed.all_reduce(total)
            losses.append(float(total[0] / total[1]))
        weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        Path(folder, f"train{grid.rank}.json").write_text(
            json.dumps({"losses": losses, "weights": weights.tolist()})
        )


def no_seeds(folder):
    """Fewer batches than ranks, and none at all."""
    with Grid(timeout=60) as grid:
        graph = train_graph()
        few = replace(graph, splits={"train": graph.splits["train"][:5]})
        shares = [batch.share for batch in loader_of(few, "once", 8, 2, grid=grid)]
        none = replace(graph, splits={"train": np.empty(0, np.int64)})
        nothing = len(list(loader_of(none, "once", 8, 2, grid=grid)))
        Path(folder, f"none{grid.rank}.json").write_text(json.dumps([shares, nothing]))


def undisturbed(folder):
    """The run of restarting.py in which nobody dies."""
    restarting.main(folder, "none")


def loop_forever(folder):
    """Epochs of a Loader until something goes wrong."""
    with Grid(timeout=float(os.environ["TEST_TIMEOUT"])) as grid:
        loader = loader_of(train_graph(), "once", 7, 2, grid=grid)
        for epoch in range(100_000):
            for _ in loader:
                time.sleep(0.01)
            if epoch == 0:
                print("under way", flush=True)
