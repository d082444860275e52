"""A setting in which two stages of two ways are the fastest, planned and run by real ranks."""

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch

from foregather import Graph
from foregather.nn import resgcn_layers
from foregather.pipeline import FullGraph, Line, make_plan
from foregather.pipeline.planning.planner import StagePlan
from foregather.pipeline.planning.profile import LayerCost
from tests.pipeline.cases import double
from tests.pipeline.ranks import end, start

RANKS, NODES, DEGREE, WIDTH, DEPTH, EPOCHS = 4, 800, 8, 16, 8, 3
#: 100 Mbit/s, and layers as one thread computes them
LINE = Line(1e-4, 1.25e7)
COST = LayerCost((2e-7, 2e-9, 2e-4), (4e-7, 4e-9, 4e-4), (1000.0, 10.0), (5e-9, 5e-9))


def halves() -> Graph:
    """Two halves with one edge of a hundred between them, and no order inside."""
    rng = np.random.default_rng(0)
    target = rng.integers(0, NODES, NODES * DEGREE)
    half = NODES // 2
    near = target // half * half + rng.integers(0, half, target.size)
    source = np.where(rng.random(target.size) < 0.99, near, rng.integers(0, NODES, target.size))
    return Graph.from_edge_index(
        np.stack([source, target]),
        NODES,
        x=rng.random((NODES, WIDTH)),
        y=rng.integers(0, 4, NODES),
        splits={"train": np.arange(0, NODES, 2)},
    )


def deep() -> list[Any]:
    """The layers."""
    with double():
        torch.manual_seed(1)
        return resgcn_layers(WIDTH, WIDTH, 4, DEPTH, dropout=0.0)


def plan_of(mode: Any) -> StagePlan:
    """The same on every rank."""
    layers = deep()
    costs = [COST] * len(layers)
    return make_plan(halves(), layers, RANKS, mode, partition="natural", costs=costs, line=LINE)


def trained(mode: Any, **others: Any) -> dict[str, Any]:
    """Losses, and all weights, after a few epochs as planned."""
    options = plan_of(mode).options() | others
    run = FullGraph(halves(), deep(), **options)
    losses = [report.loss for report in run.fit(EPOCHS)]
    weights = run.state_dict()["weights"]
    flat = torch.cat([weights[name].flatten() for name in sorted(weights)])
    return {"losses": losses, "weights": flat, "grid": [run.link.stages, run.link.ways]}


def planned_ranks(rank: int, port: int, folder: Path) -> None:
    """Both modes on four ranks; results go to files."""
    found: dict[Any, Any] = {}
    try:
        start(rank, RANKS, port)
        for mode in ("exact", "fast"):
            found[mode] = trained(mode)
    except BaseException:
        found["error"] = traceback.format_exc()
    end(rank, found, folder)
