"""What one rank of a test world does with a Loader; the functions are tasks of rank.py."""

import hashlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from foregather import BudgetError, Features, ForegatherError, Graph, Loader
from foregather.dist import Grid
from foregather.dist.transport.ledger import Ledger
from foregather.nn import SAGE
from foregather.sampling import FastGCN, Ladies, Neighbor, Sampler
from tests.dist import cases, restarting
from tests.loader.graphs import grouped

RULES: dict[str, Sampler] = {
    "once": Neighbor([4, 3]),
    "per-layer": Neighbor([3, 2], expand="per-layer"),
    "ladies": Ladies([9, 7]),
    "fastgcn": FastGCN([20, 20]),
}
#: Bytes for rows of others: tables, staging and a cache that holds some of the rows, or all.
LITTLE, MUCH = 8_546_000, 10_000_000
#: (name, replication, topology, mode, rule, batch size, bulk, memory)
LOADERS = [
    ("owner", 1, "partitioned", "owner", "once", 7, 3, LITTLE),
    ("one a bulk", 1, "partitioned", "owner", "once", 25, 1, MUCH),
    ("replicated", 1, "replicated", "owner", "per-layer", 11, 2, MUCH),
    ("ladies", 1, "partitioned", "owner", "ladies", 9, 4, LITTLE),
    ("fastgcn", 1, "partitioned", "owner", "fastgcn", 9, 4, None),
    ("paper", 1, "partitioned", "paper", "once", 7, 3, None),
    ("grid", 2, "partitioned", "owner", "once", 7, 3, LITTLE),
    ("paper grid", 2, "partitioned", "paper", "ladies", 7, 3, None),
]
EPOCHS = 2
#: Loaders whose feature blocks are in memory or on disk: (storage, wire, rule, memory).
DISK = 20_000_000
STORED = [
    ("memory", "exact", "once", MUCH),
    ("disk", "exact", "once", DISK),
    ("features", "exact", "ladies", DISK),
    ("memory", "int8", "once", MUCH),
    ("disk", "int8", "once", DISK),
]
WIDE_NODES, WIDE = 200_000, 128


def train_graph(kind: str = "plain") -> Graph:
    """The graph of cases.py with features, of edges too, and labels."""
    graph, rng = cases.graph(kind), np.random.default_rng(5)
    rows = rng.standard_normal((graph.num_nodes, 6)).astype(np.float32)
    labels = (rows[:, 0] > 0).astype(np.int64) + 2 * (rows[:, 1] > 0)
    splits = {"train": rng.permutation(graph.num_nodes)[:101]}
    of_edges = Features(rng.random((graph.num_edges, 2), np.float32))
    return replace(
        graph, features=Features(rows), edge_features=of_edges, labels=labels, splits=splits
    )


def loader_of(graph: Graph, rule: str, batch_size: int, bulk: int, **options: Any) -> Loader:
    rest: dict[str, Any] = {
        "shuffle": True,
        "seed": 3,
        "labels": "seeds",
        "pyg": False,
        "threads": 0,
    }
    return Loader(
        graph, None, "train", batch_size, sampler=RULES[rule], bulk=bulk, **grouped(rest | options)
    )


def ranks_of(loader: Loader) -> Any:
    """The source of batches of a Loader over ranks."""
    assert loader.ranks is not None
    return loader.ranks


def digest(batch: Any) -> list[Any]:
    state = hashlib.sha256()
    assert batch.edge_attr is not None
    for name in ("n_id", "x", "y", "e_id", "input_id", "seed_id", "edge_weight", "edge_attr"):
        value = getattr(batch, name)
        if value is not None:
            state.update(name.encode() + value.numpy().tobytes())
    edges = [batch.edge_index] if batch.layers is None else [a.edge_index for a in batch.layers]
    for value in edges:
        state.update(value.numpy().tobytes())
    return [batch.number, round(batch.share, 6), batch.batch_size, state.hexdigest()]


def batches(folder: str) -> None:
    """Two epochs of every loader, and one that is left early."""
    saved = Path(folder, "graph")
    graph = Graph.open(saved) if saved.exists() else train_graph()
    found: dict[str, Any] = {}
    for name, c, topology, mode, rule, size, bulk, memory in LOADERS:
        if int(os.environ["WORLD_SIZE"]) % (c * c):
            continue
        with Grid(c, timeout=300) as grid:
            over: dict[str, Any] = {
                "grid": grid,
                "topology": topology,
                "mode": mode,
                "memory": memory,
            }
            over["storage"] = "memory"  # so that the budget is for rows of others alone
            loader = loader_of(graph, rule, size, bulk, **over)
            epochs = [[digest(batch) for batch in loader] for _ in range(EPOCHS)]
            for number, _ in enumerate(loader):  # left early: epoch 2
                if number == 0:
                    state = loader.state_dict()
                    break
            after = [digest(batch) for batch in loader]  # epoch 3
            again = loader_of(graph, rule, size, bulk, **over)
            again.load_state_dict(state)
            resumed = [digest(batch) for batch in again]  # the rest of epoch 2
            sent = ranks_of(loader).gather_ledger()
            crossed = [[*link, entry.bytes] for link, entry in sent.items()]
            found[name] = [*epochs, resumed, after, len(loader)]
            found[name] += [crossed, loader.counters(), loader.explain()]
            for _ in again:  # left early, and closed at once
                break
            again.close()
    Path(folder, f"batches{os.environ['RANK']}.json").write_text(json.dumps(found))


def stored(folder: str) -> None:
    """Two epochs and a part from memory and from disk; the budgets that are enough."""
    graph = Graph.open(Path(folder, "graph"))
    found: dict[str, Any] = {}
    for c in (c for c in (1, 2) if int(os.environ["WORLD_SIZE"]) % c == 0):
        with Grid(c, timeout=300) as grid:
            for storage, wire, rule, memory in STORED:
                options: dict[str, Any] = {
                    "grid": grid,
                    "memory": memory,
                    "storage": storage,
                    "wire": wire,
                }
                loader = loader_of(graph, rule, 7, 3, **options)
                made = [digest(batch) for batch in loader]
                for number, batch in enumerate(loader):  # left early: epoch 1
                    made.append(digest(batch))
                    if number == 1:
                        break
                made += [digest(batch) for batch in loader]  # epoch 2
                ranks_of(loader).rows.settle()  # all that was planned is read
                counters, text = loader.counters(), loader.explain()
                assert ranks_of(loader).rows.memory_bytes <= memory
                loader.close()
                found[f"{c} {storage} {wire}"] = [made, counters, text]
            for storage in ("disk", "auto"):
                try:
                    loader_of(graph, "once", 7, 3, grid=grid, memory=1000, storage=storage)
                except BudgetError as error:
                    least = int(str(error).split()[-1])
                enough = loader_of(graph, "once", 7, 3, grid=grid, memory=least, storage=storage)
                found[f"{c} least {storage}"] = [least, [digest(batch) for batch in enough]]
                enough.close()
    Path(folder, f"stored{os.environ['RANK']}.json").write_text(json.dumps(found))


def wide_rows(ids: np.ndarray) -> np.ndarray:
    """Feature rows of the graph that is larger than the budget."""
    return np.asarray(ids[:, None] % 4093 + np.arange(WIDE) / 256, np.float32)


def wide_graph(nodes: int = WIDE_NODES) -> Graph:
    rng = np.random.default_rng(2)
    made = Graph.from_edge_index(rng.integers(0, nodes, (2, 2 * nodes)), nodes)
    train = rng.permutation(nodes)[:4000]
    rows, labels = Features(wide_rows(np.arange(nodes))), np.zeros(nodes, np.int64)
    return replace(made, features=rows, labels=labels, splits={"train": train})


def peak(reset: bool = False) -> int:
    """Bytes that were resident at once at most, since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def resident(folder: str) -> None:
    """An epoch whose feature block is larger than the budget; what it took."""
    graph = Graph.open(Path(folder, "graph"))
    found: dict[str, Any] = {}
    with Grid(timeout=300) as grid:
        for storage, memory in (("auto", "28MB"), ("memory", "28MB")):
            before = peak(reset=True)
            loader = loader_of(graph, "once", 200, 2, grid=grid, memory=memory, storage=storage)
            for batch in loader:
                assert np.array_equal(batch.x.numpy(), wide_rows(batch.n_id.numpy()))
            found[storage] = [peak() - before, loader.counters(), loader.explain()]
            loader.close()
        Path(folder, f"resident{grid.rank}.json").write_text(json.dumps(found))


def messages(ledger: Ledger) -> int:
    return sum(entry.messages for link, entry in ledger.entries().items() if link[2] == "lengths")


def sampled_ahead(folder: str) -> None:
    """How far sampling and fetching come while nobody takes the second batch."""
    graph = Graph.open(Path(folder, "graph"))
    with Grid(timeout=300) as grid:
        options: dict[str, Any] = {"grid": grid, "memory": DISK, "storage": "disk", "prefetch": 1}
        loader = loader_of(graph, "once", 7, 1, **options)
        batches = iter(loader)
        first = digest(next(batches))
        ranks, end = ranks_of(loader), time.monotonic() + 30
        while time.monotonic() < end:
            # two exchanges a layer and bulk for samples, one a bulk for features
            sampled, fetched = messages(ranks.sampler.ledger) // 4, messages(ranks.rows.ledger)
            if sampled >= fetched + 2 and fetched >= 2:
                break
            time.sleep(0.01)
        try:
            loader.plan()
        except ForegatherError as error:
            refusal = str(error)
        rest = len(list(batches))
        found = [first, sampled, fetched, rest, len(loader), refusal]
        Path(folder, f"sampled{grid.rank}.json").write_text(json.dumps(found))


def disk_lost(folder: str) -> None:
    """A rank whose own copy of the features is cut off while it trains."""
    rank = os.environ["RANK"]
    own = Path(folder, f"graph{rank}")
    wide_graph(20_000).save(own)
    with Grid(timeout=300) as grid:
        cases.impatient(grid, 8.0)
        graph = Graph.open(own)
        options: dict[str, Any] = {"grid": grid, "memory": "24MB", "storage": "disk"}
        for number, _ in enumerate(loader_of(graph, "once", 50, 1, **options)):
            if number == 1 and rank == "1":
                os.truncate(own / "features.npy", 8192)


def rounded(folder: str) -> None:
    """Rows that cross rounded; a budget too small; a loader that was closed."""
    graph = train_graph()
    found: dict[str, Any] = {}
    with Grid(timeout=300) as grid:
        assert graph.features is not None
        for wire in ("exact", "float16", "int8"):
            loader = loader_of(graph, "once", 7, 3, grid=grid, memory=MUCH, wire=wire)
            low, high = ranks_of(loader).rows.features.row_starts[grid.row : grid.row + 2]
            off = [0.0, 0.0]  # of rows of the own block, and of others
            for batch in loader:
                far = np.abs(batch.x.numpy() - graph.features.data[batch.n_id]).max(axis=1)
                own = (batch.n_id.numpy() >= low) & (batch.n_id.numpy() < high)
                off = [max(off[0], *far[own].tolist()), max(off[1], *far[~own].tolist())]
            found[wire] = [float(value) for value in off]
            loader.close()
        tries: dict[str, Any] = {"small": {"memory": 100}, "closed": None}
        for name, options in tries.items():
            try:
                list(
                    loader
                    if options is None
                    else loader_of(graph, "once", 7, 3, grid=grid, **options)
                )
            except ForegatherError as error:
                found[name] = [type(error).__name__, str(error)]
        Path(folder, f"rounded{grid.rank}.json").write_text(json.dumps(found))


def train(folder: str) -> None:
    """Trains under DDP; the union of the ranks' seeds is that of one rank's larger batch."""
    with Grid(timeout=300) as grid:
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


def no_seeds(folder: str) -> None:
    """Fewer batches than ranks, and none at all."""
    with Grid(timeout=300) as grid:
        graph = train_graph()
        few = replace(graph, splits={"train": graph.splits["train"][:5]})
        shares = [batch.share for batch in loader_of(few, "once", 8, 2, grid=grid)]
        none = replace(graph, splits={"train": np.empty(0, np.int64)})
        nothing = len(list(loader_of(none, "once", 8, 2, grid=grid)))
        Path(folder, f"none{grid.rank}.json").write_text(json.dumps([shares, nothing]))


def undisturbed(folder: str) -> None:
    """The run of restarting.py in which nobody dies."""
    restarting.main(folder, "none")


def loop_forever(folder: str) -> None:
    """Epochs of a Loader until something goes wrong; says so in the middle of one, and lingers."""
    with Grid(timeout=300) as grid:
        cases.impatient(grid, float(os.environ["TEST_TIMEOUT"]))
        loader = loader_of(train_graph(), "once", 1, 2, grid=grid)  # more than is made ahead
        for epoch in range(100_000):
            for number, _ in enumerate(loader):
                time.sleep(0.01)
                if (epoch, number) == (1, 2):
                    print("under way", flush=True)
                    time.sleep(5)  # the others wait in this epoch, not between two of them


def loop_over_copies(folder: str) -> None:
    """An epoch over a graph of which every rank has a copy, as on machines of their own."""
    graph = Graph.open(Path(folder, f"graph{os.environ['RANK']}"))
    options: dict[str, Any] = {
        "topology": os.environ["TEST_TOPOLOGY"],
        "storage": os.environ["TEST_STORAGE"],
    }
    with Grid(timeout=300) as grid:
        loader = loader_of(graph, "once", 7, 2, grid=grid, memory=DISK, **options)
        found = [digest(batch) for batch in loader]
        loader.close()
    Path(folder, f"copies{os.environ['RANK']}.json").write_text(json.dumps(found))
