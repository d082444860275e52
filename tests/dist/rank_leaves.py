"""What one rank does with batches whose leaves are added up; the functions are tasks of rank.py."""

import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from foregather import BatchContents, Graph, Loader, RankOptions
from foregather.dist import Grid
from foregather.dist.features import sum_exchange
from foregather.sampling import Neighbor, Sampler
from tests.dist.rank_train import ranks_of

NODES, WIDTH = 2000, 40
#: In the first, targets have many leaves, so that sums are fewer bytes; in the second, one.
RULES: dict[str, Sampler] = {"many": Neighbor([3, 12]), "few": Neighbor([6, 1])}
LITTLE, MUCH = 9_800_000, 12_000_000
#: (name, replication, leaves of batches, leaves of ranks, rule, bulk, memory, storage)
LOADERS: list[tuple[str, int, str, Any, str, int, int | None, str]] = [
    ("rows", 1, "sum", "rows", "many", 3, LITTLE, "memory"),
    ("rows weighted", 1, "weighted", "rows", "few", 2, MUCH, "memory"),
    ("rows disk", 1, "weighted", "rows", "many", 2, 30_000_000, "disk"),
    ("rows usual", 1, "sum", "rows", "many", 2, None, "memory"),
    ("auto", 1, "sum", "auto", "many", 3, LITTLE, "memory"),
    ("auto again", 1, "sum", "auto", "many", 3, LITTLE, "memory"),
    ("auto one", 1, "sum", "auto", "many", 1, MUCH, "memory"),
    ("auto disk", 1, "sum", "auto", "many", 2, 30_000_000, "disk"),
    ("auto usual", 1, "sum", "auto", "many", 2, None, "memory"),
    ("auto weighted", 1, "weighted", "auto", "many", 2, LITTLE, "memory"),
    ("auto few", 1, "sum", "auto", "few", 3, LITTLE, "memory"),
    ("auto rounds", 1, "sum", "auto", "many", 2, LITTLE, "memory"),
    ("grid rows", 2, "sum", "rows", "many", 3, LITTLE, "memory"),
    ("grid auto", 2, "weighted", "auto", "many", 3, LITTLE, "memory"),
]
EPOCHS = 2
#: In "auto rounds", rows of sums that staging holds: less than a step needs of one owner.
FEW_STAGED = 3


def leaf_graph(stored: str = "float32") -> Graph:
    """Random edges with features, and a few nodes without any."""
    rng = np.random.default_rng(8)
    pairs = rng.integers(0, NODES - 9, (2, 30_000))
    rows = rng.standard_normal((NODES, WIDTH)).astype(stored)
    splits = {"train": rng.permutation(NODES)[:90]}
    return Graph.from_edge_index(pairs, NODES, x=rows, splits=splits)


def leaf_loader(graph: Graph, leaves: Any, rule: str, bulk: int, **options: Any) -> Loader:
    contents = BatchContents(pyg=False, norm="gcn", leaves=leaves)
    return Loader(
        graph,
        None,
        "train",
        7,
        sampler=RULES[rule],
        shuffle=True,
        seed=5,
        bulk=bulk,
        contents=contents,
        **options,
    )


def staged_loader(name: str, *args: Any, **options: Any) -> Loader:
    """The Loader of a case, which has little staging in one of them."""
    if name != "auto rounds":
        return leaf_loader(*args, **options)
    with mock.patch.object(sum_exchange, "sum_staging", lambda *_: FEW_STAGED):
        return leaf_loader(*args, **options)


def leaves(folder: str) -> None:
    """Two epochs of every loader, and the rest of a third after a position was restored."""
    graph, rank = Graph.open(Path(folder, "graph")), os.environ["RANK"]
    size, facts, kept = int(os.environ["WORLD_SIZE"]), {}, {}
    for name, c, kind, wire, rule, bulk, memory, storage in LOADERS:
        if size % (c * c):
            continue
        with Grid(c, timeout=300) as grid:
            over: dict[str, Any] = {
                "grid": grid,
                "memory": memory,
                "storage": storage,
                "ranks": RankOptions(leaves=wire),
            }
            loader = staged_loader(name, graph, kind, rule, bulk, **over)
            state: dict[str, Any] = {}
            for epoch in range(EPOCHS):
                for batch in loader:
                    kept[f"{name}/{epoch}/{batch.number}/x"] = batch.x.numpy().copy()
                    kept[f"{name}/{epoch}/{batch.number}/sum"] = batch.neighbor_sum.numpy().copy()
            for _ in loader:  # left early
                state = loader.state_dict()
                break
            sent = ranks_of(loader).gather_ledger()
            facts[name] = {
                "sent": [[*link, entry.bytes] for link, entry in sent.items()],
                "counters": loader.counters(),
                "explain": loader.explain(),
                "starts": ranks_of(loader).rows.features.row_starts.tolist(),
                "memory": ranks_of(loader).rows.memory_bytes,
            }
            again = staged_loader(name, graph, kind, rule, bulk, **over)
            again.load_state_dict(state)
            for batch in again:
                kept[f"{name}/{EPOCHS}/{batch.number}/sum"] = batch.neighbor_sum.numpy().copy()
    np.savez(Path(folder, f"leaves{rank}.npz"), **kept)
    Path(folder, f"leaves{rank}.json").write_text(json.dumps(facts))
