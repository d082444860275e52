"""Splits none of whose nodes has a label: they have no score, and nothing is decided by them."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from foregather import BatchContents, Graph, InputError, Loader, NumericError
from foregather.cli.main import main
from foregather.nn import SAGE
from foregather.train.fit import Training, evaluate, fit
from foregather.train.metrics import accuracy
from tests.train.runs import records, settings_of, small_folder, train


def without(graph, split, place):
    """The graph with no label left in this split."""
    labels = np.array(graph.labels, np.int64)
    labels[graph.split(split)] = -1
    return replace(graph, path=None, meta={}, labels=labels).save(place)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    graph = Graph.open(small_folder(tmp_path_factory))
    place = tmp_path_factory.mktemp("bare")
    return {split: without(graph, split, place / split) for split in ("valid", "test")}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Runs without a name go to the folder in which a command is called."""
    monkeypatch.chdir(tmp_path)


def test_no_label_is_no_score():
    scores, labels = np.eye(3, dtype=np.float32), np.array([-1, -1, 2])
    assert math.isnan(accuracy(scores, labels, np.array([0, 1])))
    assert accuracy(scores, labels, np.array([0, 2])) == 1.0
    assert math.isnan(accuracy(scores, np.full((3, 3), np.nan), np.arange(3)))


def test_the_split_that_decides_has_labels(folders, tmp_path):
    settings = settings_of(folders["valid"], tmp_path / "r")
    with pytest.raises(InputError, match="'valid' has a label, but it decides which epoch is best"):
        train(settings)
    assert not (tmp_path / "r").exists(), "refused before the run begins"
    facts = train(replace(settings, train=replace(settings.train, valid="", epochs=1)))
    assert "valid" not in facts and "best_valid" not in facts and 0 < facts["test"] < 1


@pytest.mark.parametrize("final", ["exact", "sampled"])
def test_a_test_split_without_labels_is_said(folders, tmp_path, capsys, final):
    run = tmp_path / final
    base = ["train", "--graph", str(folders["test"]), "--run", str(run), "--train.final", final]
    assert main([*base, "--train.epochs", "1", "--train.threads", "1"]) == 0
    said = capsys.readouterr()
    assert "\ntest      not scored: no node of it has a label\n" in said.out
    assert "0.0000" not in said.out and "nan" not in said.out
    facts = json.loads((run / "summary.json").read_text())
    assert facts["not_scored"] == ["test"] and "test" not in facts and facts["scored"] == final
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "<td>test</td><td>not scored: no node of it has a label</td>" in page
    capsys.readouterr()
    infer = ["infer", str(run), str(folders["test"]), str(tmp_path / "s.npy")]
    assert main([*infer, "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert set(found["scores"]) == {"train", "valid"} and found["not_scored"] == ["test"]


def test_full_graph_training_says_it_too(folders, capsys):
    base = ["train-full", str(folders["test"]), "--epochs", "1"]
    assert main([*base, "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert set(found["scores"]) == {"train", "valid"} and found["not_scored"] == ["test"]
    assert main(base) == 0
    assert "\ntest       not scored: no node of it has a label" in capsys.readouterr().out


@pytest.fixture
def training(folders):
    graph = Graph.open(folders["valid"])
    model = SAGE([graph.features.width, 8, 5])
    loader = Loader(graph, [3, 3], "train", 200, contents=BatchContents(pyg=False))
    return Training(model, loader, torch.optim.Adam(model.parameters()))


def test_a_loop_of_ones_own(training):
    valid = training.loader.beside("valid")
    assert math.isnan(evaluate(training.model, valid))
    with pytest.raises(InputError, match="no node of valid= has a label"):
        fit(training, 1, valid=valid)
    assert training.history == [], "before training"
    with pytest.raises(NumericError, match="valid= gave nan after epoch 1"):
        fit(training, 1, valid=lambda model: float("nan"))


def test_an_epoch_without_a_labelled_seed(training, folders):
    """Seeds without labels teach nothing; their epoch has no share that was right."""
    graph = training.loader.graph
    few = Training(training.model, training.loader.beside(graph.split("valid")), training.optimizer)
    (record,) = fit(few, 1)
    assert "train" not in record


def test_a_record_without_a_share_is_reported(folders, tmp_path, capsys):
    from foregather.train.runs.run_loop import epoch_line

    train(settings_of(folders["test"], tmp_path / "r"))
    kept = records(tmp_path / "r")
    del kept[0]["train"]
    assert "train" not in epoch_line(kept[0], 3)
    (tmp_path / "r" / "metrics.jsonl").write_text("".join(json.dumps(k) + "\n" for k in kept))
    assert main(["report", str(tmp_path / "r")]) == 0
    assert f"<td>{kept[0]['loss']:.4f}</td><td></td>" in (tmp_path / "r/report.html").read_text()
