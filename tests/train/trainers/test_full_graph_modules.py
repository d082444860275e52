"""Runs of any module on the full graph: trained, killed, resumed and inferred."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import load_file

from foregather.cli.main import main
from foregather.errors import InputError, StorageError
from foregather.graph.synthetic import synthesize
from foregather.pipeline import FullGraph
from foregather.train.runs.run import Run
from foregather.train.runs.run_folder import load_model
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import (
    FullGraphSettings,
    ModelSettings,
    OptimizerSettings,
    TrainSettings,
)
from tests.train.runs import train
from tests.train.trainers.full_runs import MODES, Killed, assert_same, kill_in, settings_of

pytest.importorskip("torch_geometric")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "small"
    synthesize(path, 300, degree=6, features=8, classes=3, seed=0)
    return path


MODULES = {
    "torch_geometric.nn:GAT": {"heads": 2, "jk": "cat"},
    "tests.train.trainers.own_model:Mine": {},
    "tests.train.trainers.own_model:OtherNames": {},
    "gat": {"heads": 2},
    "gin": {},
}


@pytest.mark.parametrize("kind", [*MODULES, "gcnii"])
def test_inference_takes_the_run(graph, tmp_path, capsys, kind):
    settings = settings_of(
        graph,
        tmp_path / "r",
        model=ModelSettings(kind, hidden=8, layers=3, options=MODULES.get(kind, {})),
        train=TrainSettings(method="full-graph", epochs=2, threads=1),
    )
    facts = train(settings, say=lambda text: None)
    with pytest.raises(InputError, match="r was trained on the full graph|names code"):
        load_model(tmp_path / "r")
    out = tmp_path / "out.npy"
    wanted = ["infer", str(tmp_path / "r"), str(graph), str(out), "--json", "--trust-code"]
    assert main(wanted) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scores"] == pytest.approx(facts["scores"])
    assert np.load(out).shape == (300, 3)
    assert main([*wanted, "--memory", "1GB"]) == 2 and main(wanted) == 2  # it exists
    assert main(["infer", str(tmp_path / "r"), str(graph), "--nodes", "3", "--trust-code"]) == 2
    assert capsys.readouterr().err.count("\n") == 3


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_a_module_goes_on_to_the_same_weights(graph, tmp_path, monkeypatch, mode):
    model = ModelSettings("tests.train.trainers.own_model:Mine", hidden=8, layers=2)
    optimizer = OptimizerSettings(clip=0.5)
    chosen = {"full": MODES[mode], "model": model, "optimizer": optimizer}
    train(settings_of(graph, tmp_path / "a", **chosen), say=lambda text: None)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_in(patch, 3)
        train(settings_of(graph, tmp_path / "b", **chosen), say=lambda text: None)
    with Run.resume(tmp_path / "b", None, lambda text: None, trust_code=True) as run:
        run_loop(run)
    assert_same(tmp_path / "a", tmp_path / "b")
    names = load_file(tmp_path / "a" / "model.safetensors")
    from tests.train.trainers.own_model import Mine

    Mine(8, 8, 3, 0.5).load_state_dict(names)  # the user's own names
    assert "norm.running_mean" in names


def test_a_module_that_cannot_be_cut_is_refused(graph, tmp_path):
    model = ModelSettings("torch_geometric.nn:GCN", 8, 2, options={"norm": "pair"})
    with pytest.raises(InputError, match="'norms.0'.*use chunks=1"):
        train(settings_of(graph, tmp_path / "a", model=model), say=lambda text: None)
    one = FullGraphSettings("exact", 1)
    facts = train(settings_of(graph, tmp_path / "b", one, model=model), say=lambda text: None)
    assert facts["loss"] > 0


MINE = ModelSettings("tests.train.trainers.own_model:Mine", hidden=8, layers=2)


def test_a_disk_that_fills_up_stops_with_a_checkpoint(graph, tmp_path, monkeypatch):
    settings = {"model": MINE, "full": replace(MODES["exact"], recompute="disk")}
    train(settings_of(graph, tmp_path / "a", **settings), say=lambda text: None)
    true, written = FullGraph.train_epoch, []

    def full(*given):
        raise OSError(28, "No space left on device")

    def train_epoch(run):
        written.append(run.engine.whole.scratch.written)
        if run.epoch < 3:
            return true(run)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            return true(run)

    with monkeypatch.context() as patch, pytest.raises(StorageError) as caught:
        patch.setattr(FullGraph, "train_epoch", train_epoch)
        train(settings_of(graph, tmp_path / "b", **settings), say=lambda text: None)
    assert "No space left" in str(caught.value) and "\n" not in str(caught.value)
    assert "a checkpoint was written; continue with: foregather train --resume" in str(caught.value)
    assert written[-1] > 0
    with Run.resume(tmp_path / "b", None, lambda text: None, trust_code=True) as run:
        assert run.trainer.epochs_done() == 3
        run_loop(run)
    assert_same(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("recompute", ["segments", "disk"])
def test_a_module_is_killed_and_goes_on_whatever_it_keeps(graph, tmp_path, monkeypatch, recompute):
    settings = {"model": MINE, "full": replace(MODES["exact"], recompute=recompute)}
    train(settings_of(graph, tmp_path / "a", **settings), say=lambda text: None)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_in(patch, 2)
        train(settings_of(graph, tmp_path / "b", **settings), say=lambda text: None)
    with Run.resume(tmp_path / "b", None, lambda text: None, trust_code=True) as run:
        run_loop(run)
    assert_same(tmp_path / "a", tmp_path / "b")
