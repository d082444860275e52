"""TensorBoard's files: what is in them, after a stop and a resume too, and without the package."""

import sys
from dataclasses import replace

import pytest

from foregather.errors import MissingDependencyError
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from tests.train.runs import records, settings_of, small_folder, train

NAMES = ("loss", "accuracy/train", "accuracy/valid", "seconds", "waited", "bytes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_folder(tmp_path_factory)


def watched(graph, run):
    settings = settings_of(graph, run)
    return replace(settings, watch=replace(settings.watch, tensorboard=True))


def shown(run):
    """What TensorBoard itself reads: (epoch, value) by name."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard")).Reload()
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in NAMES}


def expected(run):
    return {
        name: [
            (record["epoch"], pytest.approx(record[name.split("/")[-1]])) for record in records(run)
        ]
        for name in NAMES
    }


def test_tensorboard_shows_every_epoch(folder, tmp_path):
    pytest.importorskip("tensorboard")
    train(watched(folder, tmp_path / "r"))
    assert len(records(tmp_path / "r")) == 3
    assert shown(tmp_path / "r") == expected(tmp_path / "r")


def test_a_stopped_run_shows_no_epoch_twice(folder, tmp_path):
    pytest.importorskip("tensorboard")

    class Stopped(Exception):
        pass

    def after_the_second(line):
        if line.startswith("epoch 2"):
            raise Stopped

    with pytest.raises(Stopped):
        train(watched(folder, tmp_path / "r"), after_the_second)
    assert [epoch for epoch, _ in shown(tmp_path / "r")["loss"]] == [1, 2]
    newest = max((tmp_path / "r" / "checkpoints").iterdir())
    newest.rename(tmp_path / "gone")  # so the second epoch is trained again
    with Run.resume(tmp_path / "r") as run:
        run_loop(run)
    assert shown(tmp_path / "r") == expected(tmp_path / "r")


def test_without_the_package_it_is_said_at_once(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingDependencyError, match="needs the package tensorboard; pip"):
        train(watched(folder, tmp_path / "r"))
    assert not (tmp_path / "r").exists()
