"""Every sampler in every mode, topology and storage over ranks; tasks of rank.py."""

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from foregather import ForegatherError, Graph, Loader
from foregather.dist import Grid
from foregather.sampling import (
    FastGCN,
    Full,
    Labor,
    Ladies,
    MatrixSampler,
    Neighbor,
    Picks,
    RandomWalk,
    Rows,
    Saint,
    Sampler,
)
from foregather.sampling.bulk import Expand
from foregather.sampling.rows import Columns
from tests.dist.rank_train import DISK, digest, train_graph
from tests.loader.graphs import grouped


@dataclass(frozen=True)
class ByDegree(MatrixSampler):
    """The one of docs/howto/own_sampler.md."""

    layer_sizes: tuple[int, ...] = (4, 3)
    expand: Expand = "once"

    def norm(self, p: Rows) -> np.ndarray:
        return p.graph.in_degree()[p.columns].astype(np.float64) + 1.0

    def sample(self, p: Rows) -> Picks:
        return p.sample_rows(self.layer_sizes[p.layer], self.norm(p))


#: What a sampler may ask of the graph of its rows, as a number for each entry of P.
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "num_nodes": lambda p: p.columns / p.graph.num_nodes,
    "num_edges": lambda p: p.edge / p.graph.num_edges,
    "in_degree": lambda p: p.graph.in_degree()[p.columns],
    "out_degree": lambda p: p.graph.out_degree()[p.columns],
    "indptr": lambda p: p.graph.indptr[p.columns.astype(np.int64) + 1],
    "indices": lambda p: p.graph.indices[p.edge],
    "edge_weight": lambda p: p.graph.edge_weight[p.edge],
    "weights of P": lambda p: p.edge_weight,
    "values of P": lambda p: p.values,
    "features": lambda p: np.abs(p.graph.features.data[p.columns, 0]),
    "features of targets": lambda p: np.abs(p.graph.features.data[p.targets, 1]),
    "labels": lambda p: p.graph.labels[p.columns],
    "splits": lambda p: np.isin(p.columns, p.graph.splits["train"]),
}


@dataclass(frozen=True)
class Asks(MatrixSampler):
    """Weighs entries by what the graph answers."""

    question: str
    layer_sizes: tuple[int, ...] = (4, 3)

    def norm(self, p: Rows) -> np.ndarray:
        return np.asarray(QUESTIONS[self.question](p), np.float64) + 0.5


class EveryOther(Neighbor):
    """A built-in class with a verb of its own, which no kernel knows."""

    def sample(self, p: Rows) -> Picks:
        return Picks(np.flatnonzero((np.arange(len(p.columns)) - p.ptr[p.row]) % 2 == 0))


class Inverse(Ladies):
    """The same of a sampler of layers."""

    def norm(self, p: Rows) -> Columns:
        return p.sum_columns(1.0 / (p.values * p.values))


class ByNumber(FastGCN):
    """The same of one whose weights ranks add up together."""

    def sample(self, p: Rows) -> Picks:
        return Picks(np.flatnonzero(p.columns % 3 == 0))


BUILT_IN: dict[str, Sampler] = {
    "Neighbor": Neighbor([4, 3]),
    "Neighbor per layer": Neighbor([4, 3], expand="per-layer", replace=True),
    "Neighbor by weight": Neighbor([4, -1], weights=True),
    "Labor": Labor([3, 2]),
    "Ladies": Ladies([9, 7]),
    "FastGCN": FastGCN([20, 20]),
    "Full": Full(2),
    "RandomWalk": RandomWalk(3),
    "Saint node": Saint("node", 30, coverage=3),
    "Saint edge": Saint("edge", 30, coverage=3),
    "Saint walk": Saint("walk", 25, coverage=3, split="train"),
}
OWN: dict[str, Sampler] = {
    "ByDegree": ByDegree(),
    "EveryOther": EveryOther([4, 3]),
    "Inverse": Inverse([9, 7]),
    "ByNumber": ByNumber([20, 20]),
    **{f"asks for {name}": Asks(name) for name in QUESTIONS},
}
SAMPLERS = BUILT_IN | OWN
#: One of each kind, with which blocks of feature rows are on disk, too.
STORED = ("Neighbor", "Ladies", "Saint node", "ByDegree")
STORAGE = ("memory", "features", "disk", "topology")
EVERY_WAY = [
    (name, mode, topology, storage)
    for name, mode, topology, storage in product(
        SAMPLERS, ("owner", "paper"), ("partitioned", "replicated"), STORAGE
    )
    if storage == "memory" or name in STORED
]


def is_telling(name: str, mode: str, topology: str, storage: str) -> bool:
    """Whether a way is in the table that is always tried; FOREGATHER_EVERY_WAY=1 tries them all."""
    if topology == "replicated":
        return mode == "owner" and storage == "memory" and "Saint" in name
    if storage != "memory":
        return name == "ByDegree" or (mode, name) == ("paper", "Saint node")
    return mode == "owner" or not name.startswith("asks")


WAYS = [way for way in EVERY_WAY if "FOREGATHER_EVERY_WAY" in os.environ or is_telling(*way)]


def table_graph() -> Graph:
    return train_graph("weighted")


def loader_of(graph: Graph, name: str, **options: Any) -> Loader:
    rest = {"shuffle": True, "seed": 3, "bulk": 2, "pyg": False, "threads": 1}
    return Loader(graph, None, "train", 20, sampler=SAMPLERS[name], **grouped(rest | options))


def made_by(graph: Graph, name: str, **options: Any) -> dict[str, str] | str:
    """Digests of an epoch by number of the batch; or why it is refused."""
    try:
        loader = loader_of(graph, name, **options)
    except ForegatherError as error:
        return f"{type(error).__name__}: {error}"
    found = {}
    for batch in loader:
        number, _, _, text = digest(batch)
        found[str(number)] = text
    loader.close()
    return found


def advised(text: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options as the first advice of a refusal has them."""
    advice = re.findall(r"use (\w+)='([\w-]+)'", text)
    return {**options, **dict(advice[:1])}


def open_links() -> int:
    """Sockets, pipes and event queues that this process has open."""
    names = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them
            names.append(os.readlink(entry))
    return sum(not name.startswith("/") for name in names)


def table(folder: str) -> None:
    """All ways; where one is refused, also the way that the refusal advises.

    After each the links that are open are counted, and after budgets that are refused.
    """
    graph = Graph.open(Path(folder, "graph"))
    found: list[Any] = []
    links: list[int] = []
    with Grid(timeout=300) as grid:
        for name, mode, topology, storage in WAYS:
            options: dict[str, Any] = {"mode": mode, "topology": topology, "storage": storage}
            if storage in ("features", "disk"):
                options["memory"] = DISK
            tries = [made_by(graph, name, grid=grid, **options)]
            while isinstance(tries[-1], str) and len(tries) < 4:
                options = advised(tries[-1], options)
                if options["storage"] == "features":
                    options["memory"] = DISK
                tries.append(made_by(graph, name, grid=grid, **options))
            found.append(tries)
            links.append(open_links())
        for _ in range(4):
            small = {"grid": grid, "storage": "features", "memory": "10KB"}
            assert "BudgetError" in made_by(graph, "Neighbor", **small)
            links.append(open_links())
    Path(folder, f"links{os.environ['RANK']}.json").write_text(json.dumps(links))
    Path(folder, f"table{os.environ['RANK']}.json").write_text(json.dumps(found))
