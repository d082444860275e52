"""A run whose accelerated pass gives up in mid-run: it goes on plain, also after it was resumed."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from foregather.errors import AccelerateWarning
from foregather.train.checkpoints.checkpoint import list_checkpoints, read_checkpoint
from foregather.train.checkpoints.checkpoint import write_checkpoint as write
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import CheckpointSettings, ModelSettings, Settings, TrainSettings
from foregather.train.trainers.sampled import SampledTrainer
from tests.some import some
from tests.train.gives_up import STEP, Died
from tests.train.runs import records, settings_of, small_folder, train

MODEL = ModelSettings("tests.train.gives_up:GivesUp")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory)


def asked(graph: Path, run: Path, **changes: Any) -> Settings:
    """A run with a checkpoint after every step."""
    return replace(
        settings_of(graph, run, model=MODEL),
        train=TrainSettings(epochs=2, batch_size=200, threads=1, **changes),
        checkpoint=CheckpointSettings(minutes=1e-9, keep=2),
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model.safetensors")


def fast_of(run: Run) -> Any:
    assert isinstance(run.trainer, SampledTrainer) and run.trainer.fast is not None
    return run.trainer.fast


def killed(settings: Settings, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts a run that dies in a step; its last checkpoint is that of the step before."""
    monkeypatch.setenv("TEST_DIES", str(step))
    with pytest.raises(Died), Run.create(settings) as run:
        run_loop(run)
    monkeypatch.delenv("TEST_DIES")


def same(one: Path, other: Path) -> bool:
    mine, theirs = weights(one), weights(other)
    return all(torch.equal(value, theirs[name]) for name, value in some(mine.items()))


@pytest.mark.parametrize("later", [1, 2, 100])
def test_a_resumed_run_goes_on_plain_bit_for_bit(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    monkeypatch.setenv("TEST_GIVES_UP", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccelerateWarning)
        train(asked(graph, tmp_path / "whole"))
        steps = int(weights(tmp_path / "whole")["steps"])
        assert steps >= STEP + 4
        killed(asked(graph, tmp_path / "killed"), min(STEP + later, steps), monkeypatch)
    with Run.resume(tmp_path / "killed", trust_code=True) as run:
        fast = fast_of(run)
        fast.train()
        assert "convolution" in str(fast.plain) or "call" in str(fast.plain), fast.plain
        assert "training: plain" in fast.explain() and "evaluation: accelerated" in fast.explain()
        with pytest.warns(AccelerateWarning, match="not accelerated"):
            run_loop(run)
    assert same(tmp_path / "whole", tmp_path / "killed")
    for run_ in some([tmp_path / "whole", tmp_path / "killed"]):
        assert all(record["plain"] == fast.plain for record in some(records(run_)))


def test_before_it_gave_up_a_resumed_run_is_accelerated(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_GIVES_UP", "0")
    killed(asked(graph, tmp_path / "killed"), STEP - 1, monkeypatch)
    with pytest.warns(AccelerateWarning):
        train(asked(graph, tmp_path / "whole"))
    with Run.resume(tmp_path / "killed", trust_code=True) as run:
        fast_of(run).train()
        assert fast_of(run).plain is None
        with pytest.warns(AccelerateWarning):
            run_loop(run)
    assert same(tmp_path / "whole", tmp_path / "killed")


def test_checkpoints_of_before_are_resumed(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not say whether the model gave up, so it is tried again."""
    monkeypatch.setenv("TEST_GIVES_UP", "0")
    with pytest.warns(AccelerateWarning):
        killed(asked(graph, tmp_path / "old"), STEP + 2, monkeypatch)
    for path in some(list_checkpoints(tmp_path / "old/checkpoints")):
        state = read_checkpoint(path)
        assert [one["training"] for one in state["training"].pop("accelerated")] == [True]
        done, step = (int(part) for part in path.stem.split("-")[1:])
        path.unlink()
        write(path.parent, done, step, state)
    with Run.resume(tmp_path / "old", trust_code=True) as run:
        fast_of(run).train()
        assert fast_of(run).plain is None
        run_loop(run)
    assert json.loads((tmp_path / "old/summary.json").read_text())["epochs"] == 2


def test_a_state_forgets_what_came_after_it(graph: Path, tmp_path: Path) -> None:
    with Run.create(asked(graph, tmp_path / "run")) as run:
        fast = fast_of(run)
        before = fast.accelerated_state()
        fast.train()
        key = next(key for key in fast._verdicts if key[0])
        plan = fast._verdicts[key]
        given_up = [{"call": "x", "training": True, "reason": "is odd", "module": None}]
        fast.take_accelerated_state([one | {"quiet": False} for one in given_up], " (on rank 3)")
        assert fast.plain == "is odd (on rank 3)"
        again = fast.accelerated_state()
        assert [one["reason"] for one in again] == ["is odd (on rank 3)"]
        fast.take_accelerated_state(again, " (on rank 5)")  # known already
        assert fast.accelerated_state() == again
        fast.load_accelerated_state(before)
        assert fast.plain is None and fast._verdicts[key] is plan
