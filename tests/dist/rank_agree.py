"""What one rank of a test world does with other arguments than the rest; tasks of rank.py."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from foregather import Features, ForegatherError, Graph, Loader
from foregather.dist import Grid
from foregather.sampling import Ladies, MatrixSampler, Rows
from foregather.train.rank_agreement import Together
from foregather.train.settings import Settings, shared_facts
from tests.dist import rank_train
from tests.loader.graphs import grouped

BASE: dict[str, Any] = {
    "num_neighbors": [4, 3],
    "input_nodes": np.arange(40),
    "batch_size": 7,
    "pyg": False,
    "memory": rank_train.MUCH,
    "storage": "memory",
}


@dataclass(frozen=True)
class Scaled(MatrixSampler):
    """Weights by an array; its text does not show it whole."""

    scale: np.ndarray
    layer_sizes: tuple[int, ...] = (3,)
    note: object = field(default=None, compare=False, repr=False)

    def norm(self, p: Rows) -> np.ndarray:
        return np.asarray(self.scale[p.columns])


class Plain(MatrixSampler):
    """Neither a dataclass nor a text of its own."""

    layer_sizes = (3,)

    def __init__(self, rule: object) -> None:
        self.rule = rule


def other_graph(**changes: Callable[[Any], object]) -> Graph:
    graph = rank_train.train_graph()
    made: dict[str, Any] = {name: change(graph) for name, change in changes.items()}
    return replace(graph, **made)


def scaled(at: int = 399, **options: Any) -> dict[str, Any]:
    scale = np.ones(400)
    scale[at] = 2.0
    return {"sampler": Scaled(scale, **options), "num_neighbors": None}


def plain(rule: object) -> dict[str, Any]:
    return {"sampler": Plain(rule), "num_neighbors": None}


#: (what one rank is given, what the others are given beside BASE, what differs by name)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "input_nodes": ({"input_nodes": np.arange(1, 41)}, {}, "input nodes"),
    "as a mask": ({"input_nodes": np.arange(400) < 40}, {}, "input_id"),
    "order": ({"input_nodes": np.arange(40)[::-1]}, {}, "input nodes"),
    "batch_size": ({"batch_size": 8}, {}, "batch size"),
    "num_neighbors": ({"num_neighbors": [4, 2]}, {}, "sampler"),
    "replace": ({"replace": True}, {}, "sampler"),
    "expand": ({"expand": "per-layer"}, {}, "sampler"),
    "sampler": (
        {"sampler": Ladies([9, 7]), "num_neighbors": None},
        {"sampler": Ladies([9, 8]), "num_neighbors": None},
        "sampler",
    ),
    "an array in a sampler": (scaled(200), scaled(201), "sampler"),
    "an attribute": (plain(np.square), plain(np.sqrt), "sampler"),
    "weight_attr": ({"weight_attr": "edge_weight"}, {}, "sampler"),
    "shuffle": ({"shuffle": True}, {}, "shuffle"),
    "drop_last": ({"drop_last": True}, {}, "drop_last"),
    "seed": ({"seed": 1}, {}, "seed"),
    "bulk": ({"bulk": 4}, {}, "bulk"),
    "memory": ({"memory": rank_train.LITTLE}, {}, "memory"),
    "too little memory": ({"memory": 100}, {}, "memory"),
    "storage": ({"storage": "auto"}, {}, "storage"),
    "labels": ({"labels": "seeds"}, {}, "labels of a batch"),
    "norm": ({"norm": "gcn"}, {}, "norm"),
    "prefetch": ({"prefetch": 3}, {}, "prefetch"),
    "topology": ({"topology": "replicated"}, {}, "topology"),
    "mode": ({"mode": "paper", "memory": None}, {"memory": None}, "mode"),
    "wire": ({"wire": "int8"}, {}, "wire"),
    "width": (
        {"graph": other_graph(features=lambda g: Features(g.features.data[:, :5].copy()))},
        {},
        "graph",
    ),
    "a feature": (
        {"graph": other_graph(features=lambda g: Features(g.features.data + 1))},
        {},
        "graph (its digest)",
    ),
    "a label": ({"graph": other_graph(labels=lambda g: g.labels + 1)}, {}, "graph (its digest)"),
}
#: What each rank may choose for itself.
OWN: dict[str, dict[str, Any]] = {
    "threads": {"threads": 1},
    "transform": {"transform": lambda batch: batch},
    "device": {"device": "cpu"},
    "edge_index": {"edge_index": "EdgeIndex", "pyg": True},
    "pyg": {"pyg": True},
}


def attempt(graph: Graph, grid: Grid, options: dict[str, Any]) -> list[Any] | str:
    try:
        given = {"graph": graph, "grid": grid, **BASE, **options}
        loader = Loader(given.pop("graph"), **grouped(given))
        made = [[batch.n_id.tolist(), batch.x.tolist()] for batch in loader]
        loader.close()
        return made
    except ForegatherError as error:
        return f"{type(error).__name__}: {error}"


def disagree(folder: str) -> None:
    """Every argument of a Loader in turn is another one on the last rank."""
    odd = int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1
    graph = rank_train.train_graph()
    found: dict[str, Any] = {}
    with Grid(timeout=300) as grid:
        for name, (other, rest, _) in CASES.items():
            found[name] = attempt(graph, grid, other if odd else rest)
        found["nothing"] = same = attempt(graph, grid, {})
        for name, other in OWN.items():
            found[name] = attempt(graph, grid, other if odd else {}) == same
        found["not compared"] = attempt(graph, grid, scaled(note=object()))
        found["lambda"] = attempt(graph, grid, plain(lambda x: x))
        found |= positions(graph, odd, grid)
        found["timeout"] = refused(lambda: Grid(timeout=301 if odd else 300))
        found["settings"] = settings(odd, grid)
        Path(folder, f"disagree{grid.rank}.json").write_text(json.dumps(found))


def refused(work: Callable[[], object]) -> str:
    try:
        work()
    except ForegatherError as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


def positions(graph: Graph, odd: bool, grid: Grid) -> dict[str, str]:
    """Loops that ranks begin at different places."""
    loader = Loader(graph, grid=grid, **grouped(BASE))
    found = {}
    loader.set_epoch(3 if odd else 2)
    found["epoch"] = refused(lambda: list(loader))
    state = {**loader.state_dict(), "epoch": 1, "batch": 1 if odd else 0}
    loader.load_state_dict(state)
    found["first step of the loop"] = refused(lambda: list(loader))
    loader.load_state_dict({**state, "batch": 0, "seed": 5 if odd else 0})
    found["seed of a state"] = refused(lambda: list(loader))
    beside = loader.beside(np.arange(30) + odd)
    found["input nodes of a loader beside"] = refused(lambda: list(beside))
    loader.load_state_dict({**state, "batch": 0, "seed": 0})
    found["the same"] = refused(lambda: list(loader))
    loader.close()
    return found


def settings(odd: bool, grid: Grid) -> dict[str, str]:
    """Every setting of a run in turn is another one on the last rank."""
    together, found = Together(grid), {}
    for name in shared_facts(Settings()):
        section, _, key = name.partition(".")
        old = getattr(Settings(), section)
        value = getattr(old, key)
        if name in ("typed.seed_time", "typed.temporal_strategy", "typed.encode_time"):
            old = replace(old, time="node")  # they are refused without
        other: Any = {section: replace(old, **{key: other_value(name, value)})}
        usual: Any = {section: old}
        rest: Any = {}
        if section == "link":
            rest["train"] = replace(Settings().train, task="link")  # they are refused without
        made = replace(Settings(), **rest, **(other if odd else usual))
        found[name] = refused(partial(together.agree, shared_facts(made)))
    return found


def other_value(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        if isinstance(value, float):
            return value - 0.25 if value >= 1 else value + 0.25  # a share stays a share
        return value + 1
    if isinstance(value, tuple):
        return (*value, 3)
    if isinstance(value, dict):
        return {"other": 1}
    return "1GB" if name == "full_graph.memory" else f"other {value}"  # that is checked when set


class OwnWeights(torch.nn.Module):
    """Draws its weights from the rank."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        torch.manual_seed(int(os.environ["RANK"]))
        self.layer = torch.nn.Linear(in_channels, out_channels)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layer(x)
        return made
