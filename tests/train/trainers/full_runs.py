"""Small full-graph runs, and what two of them must have in common."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from foregather.pipeline.engine import Engine
from foregather.train.checkpoints.checkpoint import list_checkpoints, read_checkpoint
from foregather.train.settings import (
    CheckpointSettings,
    FullGraphSettings,
    ModelSettings,
    OptimizerSettings,
    Settings,
    TrainSettings,
)
from tests.train.runs import records

MODES = {
    "exact": FullGraphSettings("exact", 4),
    "fast": FullGraphSettings("fast", 4),
    "refreshed": FullGraphSettings("fast", 4, refresh=2, first_sweep=False, factor=2.0),
    "bounded": FullGraphSettings("bounded", 4, measure=2, error=1e-9),
}


def settings_of(
    graph: Path, run: Path, full: FullGraphSettings = MODES["exact"], **changes: Any
) -> Settings:
    """Of six epochs."""
    made = Settings(
        graph=str(graph),
        run=str(run),
        model=ModelSettings("gcnii", hidden=8, layers=3),
        optimizer=OptimizerSettings(schedule="cosine", warmup=1),
        train=TrainSettings(method="full-graph", epochs=6, threads=1),
        checkpoint=CheckpointSettings(minutes=0),
        full_graph=full,
    )
    return replace(made, **changes)


def tensors_of(run: Path) -> dict[str, torch.Tensor]:
    """All tensors of the last checkpoint, and the weights that were delivered."""
    state = read_checkpoint(list_checkpoints(run / "checkpoints")[0])["training"]
    found = {f"last.{name}": value for name, value in state["weights"].items()}
    found |= {f"adam.{name}": value for name, value in state["optimizer"].items()}
    rows = state["rank"]["history"]["rows"]
    found |= {f"history.{layer}": value for layer, value in rows.items()}
    rung = torch.tensor([state["epoch"], state["rank"]["rung"], state["rank"]["filled"]])
    return found | load_file(run / "model.safetensors") | {"place": rung}


def assert_same(run: Path, other: Path) -> None:
    """Weights, optimiser, history and metrics of two runs are equal."""
    mine, theirs = tensors_of(run), tensors_of(other)
    assert mine.keys() == theirs.keys() and len(mine) > 10
    for name in mine:
        assert torch.equal(mine[name], theirs[name]), name
    names = ("epoch", "loss", "ran", "valid", "staleness")
    for a, b in zip(records(run), records(other), strict=True):
        assert [a.get(name) for name in names] == [b.get(name) for name in names]


class Killed(BaseException):
    """The end of a process, as far as a run can see it."""


def kill_in(patch: pytest.MonkeyPatch, epoch: int) -> None:
    """An epoch ends before its step, as if the process was gone."""
    real = Engine._check_gradients

    def check(self: Engine, number: int) -> None:
        if number == epoch:
            raise Killed
        real(self, number)

    patch.setattr(Engine, "_check_gradients", check)
