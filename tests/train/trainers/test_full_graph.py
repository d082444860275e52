"""Full-graph runs: the same folder, exact resume, signals, bad settings and reports as sampled."""

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from foregather import Graph
from foregather.cli.main import main
from foregather.errors import FormatError, InputError, StorageError
from foregather.graph.synthetic import synthesize
from foregather.pipeline import FullGraph, Meter, save_state
from foregather.train.checkpoints.checkpoint import list_checkpoints
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import (
    CheckpointSettings,
    FullGraphSettings,
    OptimizerSettings,
    TrainSettings,
    read_settings,
    write_settings,
)
from foregather.train.trainers.layers import make_full_model
from tests.train.runs import records, train
from tests.train.trainers.full_runs import (
    MODES,
    Killed,
    assert_same,
    kill_in,
    settings_of,
    tensors_of,
)

HERE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "small"
    synthesize(path, 300, degree=6, features=8, classes=3, seed=0)
    return path


@pytest.fixture(autouse=True)
def unwarned():
    """The bounds of the bounded case are broken on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_killed_in_any_epoch_it_goes_on_to_the_same_weights(graph, tmp_path, monkeypatch, mode):
    settings = settings_of(graph, tmp_path / "whole", MODES[mode])
    train(settings, say=lambda text: None)
    made = records(tmp_path / "whole")
    assert {r["ran"] for r in made} == {
        "exact": {"exact"}, "fast": {"fast"}, "refreshed": {"fast"},
        "bounded": {"fast", "exact", "swept"},
    }[mode]  # fmt: skip
    assert len(tensors_of(tmp_path / "whole")) > (20 if mode == "exact" else 23)
    every = replace(settings, checkpoint=CheckpointSettings(minutes=0, epochs=2, keep=2))
    for epoch in range(6) if mode in ("fast", "bounded") else (2, 3):
        run = tmp_path / f"killed{epoch}"
        with monkeypatch.context() as patch, pytest.raises(Killed):
            kill_in(patch, epoch)
            train(replace(every, run=str(run)), say=lambda text: None)
        assert len(list_checkpoints(run / "checkpoints")) <= 2
        with Run.resume(run, say=lambda text: None) as again:
            assert again.trainer.epochs_done() == epoch // 2 * 2
            run_loop(again)
        assert_same(tmp_path / "whole", run)


def test_history_is_what_makes_fast_epochs_go_on_exactly(graph, tmp_path, monkeypatch):
    """The comparison above can fail: history that is made anew leads elsewhere."""
    settings = settings_of(graph, tmp_path / "whole", MODES["fast"])
    train(settings, say=lambda text: None)
    run = tmp_path / "killed"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_in(patch, 3)
        train(replace(settings, run=str(run)), say=lambda text: None)
    monkeypatch.setattr(FullGraph, "load_rank_state", lambda self, state: None)
    with Run.resume(run, say=lambda text: None) as again:
        run_loop(again)
    with pytest.raises(AssertionError):
        assert_same(tmp_path / "whole", run)


def test_a_run_trains_as_full_graph_itself(graph, tmp_path):
    full = replace(MODES["bounded"], validate=2)
    settings = settings_of(graph, tmp_path / "r", full)
    settings = replace(settings, optimizer=OptimizerSettings(lr=0.02))
    facts = train(settings, say=lambda text: None)
    names = {entry.name for entry in (tmp_path / "r").iterdir()}
    assert names == {
        ".lock", "checkpoints", "config.toml", "environment.json", "metrics.jsonl",
        "model.safetensors", "plots", "summary.json", "trace.json",
    }  # fmt: skip
    assert read_settings(tmp_path / "r" / "config.toml") == settings
    plain = FullGraph(
        Graph.open(graph), make_full_model(settings, 8, 3), 4, "bounded",
        optimizer=lambda weights: torch.optim.Adam(weights, 0.02), meter=Meter(2, 1e-9),
    )  # fmt: skip
    made = records(tmp_path / "r")
    scores = {}
    for record in made:
        report = plain.train_epoch()
        assert record["loss"] == report.loss and record["ran"] == report.ran
        assert ("staleness" in record) == (report.reading is not None)
        assert ("valid" in record) == (record["epoch"] % 2 == 0) and "train" not in record
        if "valid" in record:
            scores[record["epoch"]] = plain.evaluate("valid")
            assert record["valid"] == scores[record["epoch"]] and record["scored"] == "exact"
        if record["epoch"] == facts["best_epoch"]:
            best = {name: value.clone() for name, value in plain.weights().items()}
    assert facts["best_epoch"] == max(scores, key=scores.get)
    saved = load_file(tmp_path / "r" / "model.safetensors")
    assert saved.keys() == best.keys()
    assert all(torch.equal(saved[name], best[name]) for name in best)
    plain.load_weights(best)
    assert facts["test"] == plain.evaluate("test") and facts["scored"] == "exact"
    assert facts["scores"] == plain.accuracies(list(Graph.open(graph).splits))


def test_short_epochs_are_told_with_their_checkpoints(graph, tmp_path, monkeypatch):
    """A second may pass between any two epochs, so no more than the least is certain."""
    heard, writes = [], []
    monkeypatch.setattr(Run, "is_time_to_tell", lambda self: False)
    real = Run.write_metrics
    monkeypatch.setattr(Run, "write_metrics", lambda self: (writes.append(1), real(self)))
    settings = settings_of(graph, tmp_path / "r", checkpoint=CheckpointSettings(0, epochs=4))
    train(replace(settings, full_graph=FullGraphSettings(chunks=1, validate=0)), heard.append)
    assert [line.split("  ")[0] for line in heard if line.startswith("epoch")] == [
        "epoch 4/6", "epoch 6/6",
    ]  # fmt: skip
    assert len(writes) == 3  # and at the end
    assert [record["epoch"] for record in records(tmp_path / "r")] == [1, 2, 3, 4, 5, 6]


def test_patience_ends_it_and_the_last_epoch_is_kept(graph, tmp_path, monkeypatch):
    scores = iter([0.5, 0.4, 0.3, 0.9, 0.9])
    monkeypatch.setattr(FullGraph, "rated", lambda self, rate, splits: {splits[0]: next(scores)})
    settings = settings_of(graph, tmp_path / "r", checkpoint=CheckpointSettings(0, epochs=10))
    settings = replace(settings, train=replace(settings.train, patience=2))
    assert train(settings, say=lambda text: None)["epochs"] == 3
    newest = list_checkpoints(tmp_path / "r" / "checkpoints")[0].name
    assert newest == "checkpoint-00000003-00000000.safetensors"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_epoch_with_a_checkpoint(graph, tmp_path, monkeypatch, number):
    train(settings_of(graph, tmp_path / "whole", MODES["fast"]), say=lambda text: None)
    settings = settings_of(graph, tmp_path / "r", MODES["fast"])
    settings = replace(settings, checkpoint=CheckpointSettings(minutes=0, epochs=100))
    real = FullGraph.train_epoch

    def signalled(self):
        if self.epoch == 2:
            os.kill(os.getpid(), number)
        return real(self)

    heard = []
    with monkeypatch.context() as patch:
        patch.setattr(FullGraph, "train_epoch", signalled)
        stop = KeyboardInterrupt if number == signal.SIGINT else SystemExit
        with pytest.raises(stop) as stopped:
            train(settings, heard.append)
    told = " ".join([*heard, str(stopped.value)])
    assert "a checkpoint was written; continue with: foregather train --resume" in told
    newest = list_checkpoints(tmp_path / "r" / "checkpoints")[0].name
    assert newest == "checkpoint-00000003-00000000.safetensors"
    assert main(["train", "--resume", str(tmp_path / "r"), "--json"]) == 0
    assert_same(tmp_path / "whole", tmp_path / "r")


def test_a_plan_is_kept_with_the_run(graph, tmp_path, monkeypatch):
    settings = settings_of(graph, tmp_path / "whole", FullGraphSettings("fast", validate=0))
    train(settings, say=lambda text: None)
    environment = json.loads((tmp_path / "whole" / "environment.json").read_text())
    assert environment["plan"]["chunks"] >= 1 and len(environment["plan"]["cut"]) == 16
    run = tmp_path / "killed"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_in(patch, 3)
        train(replace(settings, run=str(run)), say=lambda text: None)
    path = run / "environment.json"
    begun = json.loads(path.read_text())
    if begun["plan"] != environment["plan"]:  # the planner measures, and may choose otherwise
        pytest.skip("the planner chose two plans for the same graph")

    def planned(*_, **__):
        raise AssertionError("it planned again")

    with monkeypatch.context() as patch:
        patch.setattr("foregather.train.trainers.chosen_plan.planned", planned)
        with Run.resume(run, say=lambda text: None) as again:
            run_loop(again)
    assert_same(tmp_path / "whole", run)
    for plan, said in (
        ({**begun["plan"], "cut": "0" * 16}, "cut into other chunks here"),
        ({**begun["plan"], "chunks": 1 << 40}, "holds no plan of a full-graph run"),
        ({**begun["plan"], "cuts": "ab"}, "holds no plan of a full-graph run"),
        ({**begun["plan"], "else": 1}, "holds no plan of a full-graph run"),
        ("gone", "holds no plan of a full-graph run"),
    ):
        path.write_text(json.dumps({**begun, "plan": plan}))
        with pytest.raises((FormatError, InputError), match=said):
            Run.resume(run, say=lambda text: None)


def test_what_a_run_cannot_be_resumed_with(graph, tmp_path):
    settings = settings_of(
        graph, tmp_path / "r", train=TrainSettings(method="full-graph", epochs=1)
    )
    train(settings, say=lambda text: None)
    other = replace(settings, full_graph=replace(settings.full_graph, mode="fast"))
    with pytest.raises(InputError, match="full_graph.mode was 'exact' and is 'fast'"):
        Run.resume(tmp_path / "r", other)
    sampled = replace(settings, train=replace(settings.train, method="sampled"))
    with pytest.raises(InputError, match="train.method was 'full-graph' and is 'sampled'"):
        Run.resume(tmp_path / "r", sampled)
    for changed, said in (
        ({"train": replace(settings.train, seed=1)}, "train.seed was 0 and is 1"),
        (
            {"optimizer": replace(settings.optimizer, lr=0.5)},
            f"optimizer.lr was {settings.optimizer.lr} and is 0.5",
        ),
        (
            {"full_graph": replace(settings.full_graph, chunks=settings.full_graph.chunks + 1)},
            f"full_graph.chunks was {settings.full_graph.chunks} and is "
            f"{settings.full_graph.chunks + 1}",
        ),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            Run.resume(tmp_path / "r", replace(settings, **changed))
    free = replace(settings.full_graph, timeline="elsewhere.png")
    with Run.resume(tmp_path / "r", replace(settings, full_graph=free)) as run:
        assert run.trainer.epochs_done() == 1
    environment = tmp_path / "r" / "environment.json"
    facts = json.loads(environment.read_text())
    environment.write_text(json.dumps({**facts, "ranks": 2}))
    with pytest.raises(InputError, match="each rank goes on from the history of its own chunks"):
        Run.resume(tmp_path / "r")


def test_train_and_train_full_are_one_command(graph, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = settings_of(graph, "a", MODES["fast"])
    Path("c.toml").write_text(write_settings(settings))
    assert main(["train", "c.toml", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["train-full", "--config", "c.toml", "--run", "b", "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert_same(Path("a"), Path("b"))
    assert second["scores"] == first["scores"] and second["run"] == "b"
    assert main(["train-full", str(graph), "--config", "c.toml", "--epochs", "2", "--chunks", "3",
                 "--json"]) == 2  # fmt: skip
    assert "a already exists; continue with --resume a" in capsys.readouterr().err
    assert main(["train-full", "--resume", "b", "--epochs", "7", "--json"]) == 2
    assert "train.epochs was 6 and is 7" in capsys.readouterr().err
    assert main(["train-full", "--resume=b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["epochs"] == 6


def test_a_run_may_begin_with_a_saved_state(graph, tmp_path):
    settings = settings_of(graph, tmp_path / "r")
    full = FullGraph(Graph.open(graph), make_full_model(settings, 8, 3), 4)
    full.fit(4)
    save_state(full.state_dict(), tmp_path / "state")
    start = replace(settings.full_graph, start=str(tmp_path / "state"))
    settings = replace(settings, full_graph=start, optimizer=OptimizerSettings())
    facts = train(settings, say=lambda text: None)
    assert [record["epoch"] for record in records(tmp_path / "r")] == [5, 6]
    reports = full.fit(2)
    assert facts["loss"] == reports[-1].loss and facts["epochs"] == 6
    with Run.resume(tmp_path / "r") as run:
        assert run.trainer.epochs_done() == 6


def test_a_report_shows_what_there_is(graph, tmp_path, capsys):
    train(settings_of(graph, tmp_path / "r", MODES["bounded"]), say=lambda text: None)
    assert main(["report", str(tmp_path / "r"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["note"] == ""
    page = (tmp_path / "r" / "report.html").read_text()
    assert "<th>ran</th>" in page and "valid (exact)" in page and "Staleness by layer" in page
    for absent in (
        "sampled",
        "waiting for batches",
        "read from disk",
        "<th>cache hits",
        "<th>sent",
    ):
        assert absent not in page.split("<summary>Settings")[0], absent
    assert {path.stem for path in (tmp_path / "r" / "plots").iterdir()} == {
        "loss", "scores", "classes", "stages", "staleness", "layers",
    }  # fmt: skip


def test_labels_that_are_numbers_are_scored_by_their_distance(graph, tmp_path):
    stored = Graph.open(graph)
    labels = np.linspace(-3, -1, stored.num_nodes, dtype=np.float32)
    place = replace(stored, path=None, meta={}, labels=labels).save(tmp_path / "g")
    facts = train(settings_of(place, tmp_path / "r"), say=lambda text: None)
    assert facts["loss"] > 0 and facts["task"] == "regression" and facts["metric"] == "rmse"
    scores = [record["valid"] for record in records(tmp_path / "r")]
    assert facts["best_valid"] == min(scores) and facts["scored"] == "exact"
    assert 0 < facts["scores"]["valid"] < 2 * facts["baseline"]["valid"] < 4


def test_a_full_disk_loses_nothing(graph, tmp_path, monkeypatch):
    train(settings_of(graph, tmp_path / "a", MODES["fast"]), say=lambda text: None)
    with Run.create(settings_of(graph, tmp_path / "b", MODES["fast"]), lambda text: None) as run:

        def full(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="no space left on the disk"):
            run_loop(run)
    monkeypatch.undo()
    with Run.resume(tmp_path / "b", say=lambda text: None) as run:
        run_loop(run)
    assert_same(tmp_path / "a", tmp_path / "b")


@pytest.mark.slow
def test_killed_at_random_moments(graph, tmp_path):
    for mode in ("exact", "fast", "bounded"):
        (tmp_path / mode).mkdir()
        many = replace(settings_of(graph, "", MODES[mode]), checkpoint=CheckpointSettings(keep=2))
        (tmp_path / mode / "config.toml").write_text(write_settings(many))
    folders = [str(tmp_path / mode) for mode in ("exact", "fast", "bounded")]
    command = [sys.executable, str(HERE / "killed.py"), "2", "6", *folders]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for place in folders:
        assert_same(Path(place) / "a", Path(place) / "b")


def test_full_is_short_for_full_graph(graph, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert TrainSettings(method="full") == TrainSettings(method="full-graph")
    text = write_settings(settings_of(graph, "a")).replace('"full-graph"', '"full"')
    Path("c.toml").write_text(text)
    assert '"full"' in text
    assert main(["train", "c.toml", "--json"]) == 0
    assert read_settings(Path("a/config.toml")).train.method == "full-graph"
    assert main(["train", "c.toml", "--run", "b", "--train.method", "full", "--json"]) == 0
    assert 'method = "full-graph"' in Path("b/config.toml").read_text()
    capsys.readouterr()
    assert_same(Path("a"), Path("b"))


def test_what_measuring_staleness_costs_is_said_and_recorded(graph, tmp_path):
    told = {}
    for measure in (2, 0):
        said = told.setdefault(measure, [])
        full = replace(MODES["fast"], measure=measure)
        train(settings_of(graph, tmp_path / str(measure), full), say=said.append)
    assert sum("measuring staleness took" in line for line in told[2]) == 1
    assert any("so it is unknown how far fast epochs are off" in line for line in told[0])
    found = [record.get("staleness_seconds") for record in records(tmp_path / "2")]
    assert [seconds is not None for seconds in found] == [False, True] * 3
    assert all(seconds > 0 for seconds in found if seconds is not None)
    mine, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("2", "0"))
    assert all(torch.equal(value, theirs[name]) for name, value in mine.items())
