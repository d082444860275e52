"""A small typed graph with everything that encoders know, and runs on it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from foregather.graph.hetero import EdgeType, HeteroGraph, NodeTable, Relation
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import (
    CheckpointSettings,
    ModelSettings,
    SamplerSettings,
    Settings,
    TrainSettings,
    TypedSettings,
)

__all__ = ["shop", "shop_folder", "train_typed", "typed_settings"]

USERS, ITEMS, SHOPS = 240, 90, 6


def shop(seed: int = 0, edge_times: bool = True, **user: Any) -> HeteroGraph:
    """Users with numbers (some missing), categories and labels; items with times; bare shops.

    The label of a user is the kind of most items that it bought, so that neighbours tell it.

    Args:
        seed: of the random numbers.
        edge_times: purchases have times.
        user: replaces arguments of the table of users.
    """
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, ITEMS)
    taste = rng.integers(0, 3, USERS)
    who = np.repeat(np.arange(USERS), 6)
    liked = [np.flatnonzero(kind == one) for one in range(3)]
    what = np.array([rng.choice(liked[taste[one]]) for one in who])
    noise = rng.random(who.size) < 0.2
    what[noise] = rng.integers(0, ITEMS, int(noise.sum()))
    x = rng.normal(size=(USERS, 4)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    order = rng.permutation(USERS)
    table: dict[str, Any] = {
        "features": {
            "x": x,
            "city": rng.integers(-1, 5, USERS),
            "asked": rng.integers(60, 120, USERS),
        },
        "labels": taste.astype(np.int16),
        "time": rng.integers(50, 100, USERS),
        "splits": {"train": order[:120], "val": order[120:180], "test": order[180:]},
        "ids": [f"user {number}" for number in range(USERS)],
    }
    item = np.eye(3, dtype=np.float32)[kind] + rng.normal(size=(ITEMS, 3)).astype(np.float32) * 0.1
    nodes = {
        "user": NodeTable.of(USERS, **table | user),
        "item": NodeTable.of(ITEMS, {"x": item}, time=rng.integers(0, 60, ITEMS)),
        "shop": NodeTable.of(SHOPS),
    }
    when = rng.integers(0, 100, who.size) if edge_times else None
    sold = np.stack([np.arange(ITEMS), rng.integers(0, SHOPS, ITEMS)])
    edges: dict[EdgeType, Relation] = {
        ("user", "bought", "item"): Relation.of(np.stack([who, what]), USERS, ITEMS, time=when),
        ("item", "in", "shop"): Relation.of(sold, ITEMS, SHOPS),
    }
    meta = {"categories": {"user": {"city": ["a", "b", "c", "d", "e"]}}}
    return HeteroGraph(nodes, edges, meta).with_reverse()


def shop_folder(path: Path, **options: Any) -> Path:
    """The graph as a folder."""
    shop(**options).save(path)
    return path


def typed_settings(
    graph: Path, run: Path | str, kind: str = "hetero-sage", **typed: Any
) -> Settings:
    """A short run: 3 epochs of 4 batches."""
    return Settings(
        graph=str(graph),
        run=str(run),
        sampler=SamplerSettings(fanouts=(4, 3)),
        model=ModelSettings(kind, hidden=8),
        train=TrainSettings(epochs=3, batch_size=30, threads=1),
        checkpoint=CheckpointSettings(minutes=0),
        typed=replace(TypedSettings(), **typed),
    )


def train_typed(settings: Settings, say: Callable[[str], None] = print) -> Any:
    """Trains to the end; the summary."""
    with Run.create(settings, say) as run:
        return run_loop(run)
