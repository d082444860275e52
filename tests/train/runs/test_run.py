"""Runs: one folder, exact resume after kills and signals, damaged checkpoints, full disks."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from foregather import Graph
from foregather.cli.main import main
from foregather.errors import FormatError, InputError, StorageError
from foregather.graph.synthetic import synthesize
from foregather.nn import SAGE
from foregather.train.checkpoints.checkpoint import list_checkpoints, read_checkpoint
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import (
    CheckpointSettings,
    MemorySettings,
    ModelSettings,
    OptimizerSettings,
    SamplerSettings,
    write_settings,
)
from tests.train.runs import records, settings_of, small_folder, train

HERE = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_folder(tmp_path_factory)


def tensors_of(run):
    """Weights and optimiser of the last checkpoint, and the weights that were delivered."""
    state = read_checkpoint(list_checkpoints(run / "checkpoints")[0])["training"]
    found = {f"last.{name}": value for name, value in state["model"].items()}
    for number, entries in state["optimizer"]["state"].items():
        found |= {f"adam.{number}.{name}": value for name, value in entries.items()}
    return found | load_file(run / "model.safetensors")


def assert_same(run, other):
    mine, theirs = tensors_of(run), tensors_of(other)
    assert mine.keys() == theirs.keys() and len(mine) > 10
    for name in mine:
        assert torch.equal(mine[name], theirs[name]), name
    for a, b in zip(records(run), records(other), strict=True):
        assert [a[name] for name in ("epoch", "loss", "train", "valid")] == [
            b[name] for name in ("epoch", "loss", "train", "valid")
        ]


def test_a_run_is_one_folder(folder, tmp_path):
    facts = train(settings_of(folder, tmp_path / "r"))
    names = {entry.name for entry in (tmp_path / "r").iterdir()}
    assert names == {
        ".lock", "checkpoints", "config.toml", "environment.json", "metrics.jsonl",
        "model.safetensors", "plots", "summary.json", "trace.json",
    }  # fmt: skip
    made = records(tmp_path / "r")
    assert [record["epoch"] for record in made] == [1, 2, 3]
    assert made[-1]["loss"] < made[0]["loss"]
    assert facts["test"] > 0.5  # chance is 0.2
    for record in made:
        assert 0 < record["waited"] < record["seconds"]
        assert {"wait", "sample", "assemble", "forward", "backward", "step"} <= set(
            record["stages"]
        )
    assert len(list_checkpoints(tmp_path / "r" / "checkpoints")) == 3
    environment = json.loads((tmp_path / "r" / "environment.json").read_text())
    assert environment["graph"]["digest"] == Graph.open(folder).digest
    trace = json.loads((tmp_path / "r" / "trace.json").read_text())["traceEvents"]
    assert {"forward", "sample"} <= {event["name"] for event in trace}
    assert all(event["dur"] >= 0 for event in trace if event["ph"] == "X")


def test_storage_does_not_change_a_run(folder, tmp_path):
    train(settings_of(folder, tmp_path / "a"))
    memory = MemorySettings("60MB", "features")
    facts = train(settings_of(folder, tmp_path / "b", memory=memory))
    assert facts["bytes"] > 0
    assert_same(tmp_path / "a", tmp_path / "b")
    record = records(tmp_path / "b")[0]
    assert record["bytes"] == record["predicted_bytes"] and record["rows"] > record["hits"]


@pytest.mark.slow
def test_killed_at_random_moments(folder, tmp_path):
    memories = {"whole": MemorySettings(), "disk": MemorySettings("60MB", "features")}
    for name, memory in memories.items():
        many = CheckpointSettings(minutes=1e-3, keep=2)
        settings = settings_of(folder, "", memory=memory, checkpoint=many)
        settings = replace(settings, train=replace(settings.train, epochs=4, patience=3))
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").write_text(write_settings(settings))
    folders = [str(tmp_path / name) for name in memories]
    command = [sys.executable, str(HERE / "killed.py"), "1", "8", *folders]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        kills, resumes = map(int, line.split())
        assert kills >= 2 and resumes >= 1  # how many more depends on how fast the machine is
    for name in memories:
        assert_same(tmp_path / name / "a", tmp_path / name / "b")
    assert_same(tmp_path / "whole" / "a", tmp_path / "disk" / "b")


class Signalling(SAGE):
    """A model that sends its process a signal while it computes its 18th batch."""

    def __init__(self, in_channels, out_channels, number):
        super().__init__([in_channels, 16, out_channels])
        self.number, self.calls = number, 0

    def forward(self, x, edge_index):
        self.calls += self.training
        if self.number and self.training and self.calls == 18:
            signal.raise_signal(self.number)
        return super().forward(x, edge_index)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_resumable_checkpoint(folder, tmp_path, number, capsys):
    model = ModelSettings(f"{__name__}:Signalling", options={"number": int(number)})
    settings = settings_of(folder, tmp_path / "a", model=model)
    (tmp_path / "c.toml").write_text(write_settings(settings))
    if number == signal.SIGINT:
        assert main(["train", str(tmp_path / "c.toml")]) == 130
    else:
        with pytest.raises(SystemExit, match=str(128 + number)):
            main(["train", str(tmp_path / "c.toml")])
    said = capsys.readouterr().err
    assert "a checkpoint was written; continue with: foregather train --resume" in said
    newest = list_checkpoints(tmp_path / "a" / "checkpoints")[0]
    assert newest.name == "checkpoint-00000001-00000006.safetensors"  # epochs have 12 batches
    assert said.strip().endswith("--trust-code"), "the model is code"
    assert main(["train", "--resume", str(tmp_path / "a"), "--trust-code"]) == 0
    assert f"resumed from {newest.name}" in capsys.readouterr().err
    silent = replace(model, options={"number": 0})
    train(settings_of(folder, tmp_path / "b", model=silent))
    assert_same(tmp_path / "a", tmp_path / "b")


def shorten(path, keep=0.7):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [shorten, flip, lambda path: path.write_bytes(b"")])
def test_a_damaged_checkpoint_falls_back(folder, tmp_path, damage):
    train(settings_of(folder, tmp_path / "a"))
    train(settings_of(folder, tmp_path / "b"))
    newest, before, *_ = list_checkpoints(tmp_path / "b" / "checkpoints")
    damage(newest)
    heard = []
    with Run.resume(tmp_path / "b", say=heard.append) as run:
        assert len(run.trainer.history) == 2
        run_loop(run)
    assert newest.name in heard[0] and "the previous one is used" in heard[0]
    assert heard[1] == f"resumed from {before.name}"
    assert_same(tmp_path / "a", tmp_path / "b")
    for path in list_checkpoints(tmp_path / "b" / "checkpoints"):
        damage(path)
    with pytest.raises(FormatError, match="no readable checkpoint"):
        Run.resume(tmp_path / "b", say=heard.append)


def test_a_full_disk_while_checkpointing(folder, tmp_path, monkeypatch):
    train(settings_of(folder, tmp_path / "a"))
    heard, real, calls = [], os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if 3 <= len(calls) < 6:  # checkpoint 1, metrics 2, checkpoint 2
            raise OSError(28, "No space left on device")
        real(descriptor)

    with Run.create(settings_of(folder, tmp_path / "b"), heard.append) as run:
        monkeypatch.setattr(os, "fsync", full)
        run_loop(run)
    assert any("no space left on the disk" in text for text in heard)
    assert any("training continues" in text for text in heard)
    assert not list((tmp_path / "b" / "checkpoints").glob("*.partial"))
    assert_same(tmp_path / "a", tmp_path / "b")


def test_a_disk_that_stays_full_loses_nothing(folder, tmp_path, monkeypatch):
    train(settings_of(folder, tmp_path / "a"))
    with Run.create(settings_of(folder, tmp_path / "b")) as run:

        def full(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="no space left on the disk"):
            run_loop(run)
    monkeypatch.undo()
    with Run.resume(tmp_path / "b") as run:
        run_loop(run)
    assert_same(tmp_path / "a", tmp_path / "b")


@pytest.mark.slow
def test_a_file_system_that_is_really_full(folder, tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("cannot mount a small file system (root)")
    try:
        many = CheckpointSettings(minutes=0, keep=100)
        heard = []

        def hear(text):
            heard.append(text)
            if "training continues" in text:  # others take what little is left
                with open(place / "filler", "ab", buffering=0) as file, suppress(OSError):
                    while file.write(bytes(512)) == 512:
                        pass

        settings = settings_of(folder, place / "r", checkpoint=many)
        settings = replace(settings, train=replace(settings.train, epochs=12))
        with pytest.raises(StorageError, match="no space left on the disk"):
            train(settings, hear)
        assert any("training continues" in text for text in heard)
        mount = ["mount", "-o", "remount,size=64M", str(place)]
        subprocess.run(mount, check=True, capture_output=True)
        with Run.resume(place / "r", say=heard.append) as run:
            assert 0 < len(run.trainer.history) < 12
            run_loop(run)
        train(replace(settings, run=str(tmp_path / "a")))
        assert_same(tmp_path / "a", place / "r")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_resume_refuses_other_settings_and_graphs(folder, tmp_path):
    settings = settings_of(folder, tmp_path / "a")
    train(settings)
    other = replace(settings, model=ModelSettings(hidden=32))
    with pytest.raises(InputError, match="model.hidden was 16 and is 32"):
        Run.resume(tmp_path / "a", other)
    synthesize(tmp_path / "other", 2000, degree=8, features=16, classes=5, seed=1)
    with pytest.raises(InputError, match="was trained on .* with digest .* but"):
        Run.resume(tmp_path / "a", replace(settings, graph=str(tmp_path / "other")))
    smaller = MemorySettings("60MB", "features")
    Run.resume(tmp_path / "a", replace(settings, memory=smaller)).close()
    with pytest.raises(FormatError, match="not a run folder"):
        Run.resume(tmp_path / "other")
    with pytest.raises(StorageError, match="continue with --resume"):
        Run.create(settings)
    with Run.resume(tmp_path / "a"), pytest.raises(StorageError, match="by another process"):
        Run.resume(tmp_path / "a")


def test_flags_beside_resume(folder, tmp_path, capsys):
    train(settings_of(folder, tmp_path / "a"))
    resume = ["train", "--resume", str(tmp_path / "a"), "--json"]
    assert main([*resume, "--memory.budget", "60MB", "--memory.storage", "features"]) == 0
    capsys.readouterr()
    assert main([*resume, "--optimizer.lr", "0.5"]) == 2
    assert "optimizer.lr was 0.01 and is 0.5" in capsys.readouterr().err
    assert main([*resume[:1], f"--resume={tmp_path / 'a'}", "--train.epochs", "9", "--json"]) == 2
    assert "train.epochs was 3 and is 9" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path), "--json"]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_patience_without_validation_never_stops(folder, tmp_path):
    settings = settings_of(folder, tmp_path / "r")
    settings = replace(settings, train=replace(settings.train, valid="", patience=1))
    assert train(settings)["epochs"] == 3


class Narrow(torch.nn.Module):
    """A user's model with too few columns for the labels."""

    def __init__(self, in_channels):
        super().__init__()
        self.linear = torch.nn.Linear(in_channels, 3)

    def forward(self, x, edge_index):
        return self.linear(x)


class Own(torch.nn.Module):
    """A user's model that takes the batch as it is."""

    def __init__(self, in_channels, out_channels, depth):
        super().__init__()
        self.linear = torch.nn.Linear(in_channels, out_channels)
        self.depth = depth

    def forward(self, batch):
        return self.linear(batch.x)


@pytest.mark.slow
def test_models_of_the_user_and_of_pyg(folder, tmp_path):
    name = __name__
    bad = settings_of(folder, tmp_path / "bad", model=ModelSettings(f"{name}:Narrow"))
    with pytest.raises(InputError, match="gives 3 columns of scores, but the labels have 5"):
        Run.create(bad)
    assert not (tmp_path / "bad").exists()
    own = ModelSettings(f"{name}:Own", options={"depth": 3})
    with Run.create(settings_of(folder, tmp_path / "own", model=own)) as run:
        assert run.trainer.model.depth == 3
        assert run_loop(run)["test"] > 0.25
    pytest.importorskip("torch_geometric")
    for kind in ("GraphSAGE", "GAT"):
        model = ModelSettings(f"torch_geometric.nn:{kind}", hidden=16)
        assert train(settings_of(folder, tmp_path / kind, model=model))["test"] > 0.25
    labor = SamplerSettings("labor", (5, 5), options={"debias": None})
    assert train(settings_of(folder, tmp_path / "labor", sampler=labor))["test"] > 0.25


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ModelSettings("sagee"), "'sagee', expected one of sage, gcn, gat"),
        (ModelSettings("no_such_module:A"), "there is no module no_such_module"),
        (ModelSettings("torch.nn:Lineare"), "torch.nn has no Lineare"),
        (ModelSettings("torch.nn:Linear", options={"a": 1}), "cannot be made with"),
        (ModelSettings("builtins:dict"), "makes no torch.nn.Module"),
        (ModelSettings("sage", options={"a": 1}), "takes none"),
    ],
)
def test_models_that_are_refused(folder, tmp_path, model, words):
    with pytest.raises(InputError, match=words):
        Run.create(settings_of(folder, tmp_path / "r", model=model))
    assert not (tmp_path / "r").exists()


def test_batches_that_the_model_cannot_take(folder, tmp_path):
    layers = SamplerSettings("full", (1, 1), options={"expand": "per-layer"})
    own = ModelSettings("torch_geometric.nn:GCN")  # models by name take batches in layers
    with pytest.raises(InputError, match="no edge_index"):
        Run.create(settings_of(folder, tmp_path / "r", sampler=layers, model=own))
    unknown = SamplerSettings("full", (1, 1), options={"expnad": "once"})
    with pytest.raises(InputError, match="sampler.options has expnad, but full takes"):
        Run.create(settings_of(folder, tmp_path / "r", sampler=unknown))
    assert not (tmp_path / "r").exists()


def test_profile_has_ranges_of_the_same_names(folder, tmp_path):
    settings = settings_of(folder, tmp_path / "r")
    train(replace(settings, watch=replace(settings.watch, profile=True)))
    events = json.loads((tmp_path / "r" / "profile.json").read_text())["traceEvents"]
    names = {event.get("name") for event in events}
    assert {"forward", "backward", "step", "wait"} <= names and "aten::addmm" in names


def test_fanouts_are_called_as_they_were_given(folder, tmp_path):
    for kind in ("neighbor", "labor"):
        sampler = SamplerSettings(kind, (5, 0))
        with pytest.raises(InputError, match="^sampler.fanouts has 0 for layer 1"):
            Run.create(settings_of(folder, tmp_path / "r", sampler=sampler))


def test_patience_stops_early(folder, tmp_path):
    settings = settings_of(folder, tmp_path / "r")
    still = replace(
        settings, optimizer=OptimizerSettings(lr=1e-12), checkpoint=CheckpointSettings()
    )
    still = replace(still, train=replace(still.train, epochs=30, patience=2))
    assert train(still)["epochs"] < 30
