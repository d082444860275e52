"""Sums of all pieces before any of them goes on: the same bits, only where they fit."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from foregather import Graph
from foregather.nn import resgcn_layers
from foregather.nn.layer import Dense, GraphLayer
from foregather.pipeline import FullGraph, Runtime
from foregather.pipeline.whole.adjacency import Lists
from foregather.pipeline.whole.pieces import Pieces
from foregather.pipeline.whole.stretches import Stretch
from tests.pipeline.cases import CLASSES, MODELS, WIDTH, double, small_graph
from tests.some import some

PIECES = 3


class Changes(GraphLayer):
    """Changes its sums in place, and asks for the same and for others again."""

    def update(self, x, near, **skips):
        first = near.aggregate("mean").mul_(0.5)
        return x + first + near.aggregate("mean") * near.aggregate("sym")


def changes():
    first = nn.Sequential(nn.Linear(WIDTH, 6), nn.Tanh())
    return [Dense(first), *(Changes() for _ in range(4)), Dense(nn.Linear(6, CLASSES))]


def run_of(layers, stretches=None):
    """A run in pieces, with its own stretches or with given ones."""
    with double():
        runtime = Runtime(recompute="segments")
        run = FullGraph(
            small_graph(), copy.deepcopy(layers), 6, partition="natural", runtime=runtime
        )
    whole = run.engine.whole
    whole.pieces = Pieces(run.engine.stage, PIECES)
    if stretches is not None:
        whole.choice = replace(whole.choice, stretches=stretches)
    return run


def learned(run):
    with double():
        run.fit(3)
    return torch.cat([value.flatten() for value in run.weights().values()])


@pytest.mark.parametrize("make", [*some(MODELS.values()), changes])
def test_no_bit_changes(make):
    with double():
        torch.manual_seed(1)
        layers = make()
    count = run_of(layers).engine.whole.choice.stretches[-1].last
    by_piece, at_once = (
        learned(run_of(layers, (Stretch(0, 2, False, at_once=how), Stretch(2, count, False))))
        for how in (False, True)
    )
    assert torch.equal(by_piece, at_once)


@pytest.mark.parametrize("at_once", [False, True])
def test_the_order_of_sums_and_updates(at_once, monkeypatch):
    with double():
        layers = MODELS["sage"]()
    count = run_of(layers).engine.whole.choice.stretches[-1].last
    stretches = (Stretch(0, 2, False, at_once=at_once), Stretch(2, count, False))
    run, seen = run_of(layers, stretches), []
    sums, update = Lists.sums, type(layers[1]).update

    def noted(self, x, near, **skips):
        out = update(self, x, near, **skips)
        seen.append("update")
        return out

    monkeypatch.setattr(Lists, "sums", lambda *given: seen.append("sum") or sums(*given))
    monkeypatch.setattr(type(layers[1]), "update", noted)
    with double():
        run.fit(1)
    together = ["sum"] * PIECES + ["update"] * PIECES
    assert seen[: 2 * PIECES] == (together if at_once else ["sum", "update"] * PIECES)


def test_they_are_made_at_once_where_there_is_room(monkeypatch):
    monkeypatch.setattr("foregather.pipeline.whole.pieces._VALUES", 1 << 13)
    rng, nodes = np.random.default_rng(0), 1500
    graph = Graph.from_edge_index(
        rng.integers(0, nodes, (2, 6 * nodes)), nodes, x=rng.random((nodes, 16), np.float32),
        y=rng.integers(0, 4, nodes), splits={"train": np.arange(nodes)})  # fmt: skip
    layers = resgcn_layers(16, 32, 4, 20, 0.0)
    run = FullGraph(graph, layers, 16, runtime=Runtime(recompute="segments"))
    marked = [one.at_once for one in run.engine.whole.choice.stretches if not one.kept]
    assert marked[0]  # nothing else is held yet
    assert len(run.engine.whole.pieces) > 1
