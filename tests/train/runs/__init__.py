"""Small runs that tests of several files train."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foregather.graph.synthetic import synthesize
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import (
    CheckpointSettings,
    ModelSettings,
    OptimizerSettings,
    Settings,
    TrainSettings,
)


def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "small"
    synthesize(path, 2000, degree=8, features=16, classes=5, seed=0)
    return path


def settings_of(graph: Path, run: Path | str, **changes: Any) -> Settings:
    made = Settings(
        graph=str(graph),
        run=str(run),
        model=ModelSettings(hidden=16),
        optimizer=OptimizerSettings(schedule="cosine"),
        train=TrainSettings(epochs=3, batch_size=100, threads=1),
        checkpoint=CheckpointSettings(minutes=0),
    )
    return replace(made, **changes)


def train(settings: Settings, say: Callable[[str], None] = print) -> Any:
    with Run.create(settings, say) as run:
        return run_loop(run)


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
