"""Runs of every task: best epochs in the direction of the metric, also from disk and resumed."""

import json
from dataclasses import replace

import numpy as np
import pytest

from foregather import Graph
from foregather.cli.main import main
from foregather.graph.synthetic import synthesize
from foregather.train.metrics import METRICS
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import MemorySettings
from tests.train.runs import records, settings_of, train


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same graph with classes, several labels and numbers, some of them missing."""
    place = tmp_path_factory.mktemp("tasks")
    synthesize(place / "g", 600, degree=6, features=8, classes=4, seed=0)
    graph = Graph.open(place / "g")
    classes = np.array(graph.labels)
    x = np.array(graph.features[np.arange(600)], np.float64)
    several = np.eye(4, dtype=np.int8)[classes] | (x[:, :4] > 1).astype(np.int8)
    several[::7, 2] = -1
    numbers = np.stack([2000 + 50 * x[:, 0] + 3 * classes, -1e-3 * x[:, 1]], axis=1)
    numbers[::5, 1] = np.nan
    labels = {"classes": classes, "several": several, "numbers": numbers.astype(np.float32)}
    return {
        name: replace(graph, path=None, meta={}, labels=held).save(place / name)
        for name, held in labels.items()
    }


def quiet(text):
    """Says nothing."""


CASES = [
    ("classes", "auto", "accuracy"),
    ("classes", "macro_f1", "macro_f1"),
    ("several", "auto", "micro_f1"),
    ("several", "average_precision", "average_precision"),
    ("numbers", "auto", "rmse"),
    ("numbers", "r2", "r2"),
]


@pytest.mark.parametrize(("kind", "metric", "name"), CASES)
def test_a_run_is_rated_by_its_metric(folders, tmp_path, kind, metric, name, capsys):
    settings = settings_of(folders[kind], tmp_path / "r")
    settings = replace(settings, train=replace(settings.train, metric=metric))
    facts, made = train(settings, quiet), records(tmp_path / "r")
    assert facts["metric"] == name and all(one["metric"] == name for one in made)
    best = (max if METRICS[name].higher_is_better else min)(one["valid"] for one in made)
    assert facts["best_valid"] == best
    if kind != "several":  # three epochs are few for labels that most nodes do not have
        assert METRICS[name].is_better(facts["test"], facts["baseline"]["test"])
    budget = MemorySettings("60MB", storage="features", bulk="1")
    disk = train(replace(settings, run=str(tmp_path / "d"), memory=budget), quiet)
    assert [disk[key] for key in ("valid", "test", "best_valid")] == [
        facts[key] for key in ("valid", "test", "best_valid")
    ]
    out = tmp_path / "s.npy"
    capsys.readouterr()
    assert main(["infer", str(tmp_path / "r"), str(folders[kind]), str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scores"]["test"] == facts["test"] and found["metric"] == name
    assert found["baseline"]["test"] == facts["baseline"]["test"]


def test_numbers_are_in_the_unit_of_the_labels(folders, tmp_path):
    settings = settings_of(folders["numbers"], tmp_path / "r")
    settings = replace(settings, train=replace(settings.train, loss="huber", metric="mae"))
    facts = train(settings, quiet)
    assert 1 < facts["test"] < facts["baseline"]["test"] < 100  # the mean over both columns
    assert facts["baseline_is"] == "the median"


def test_an_interrupted_epoch_counts_every_row_once(folders, tmp_path, monkeypatch):
    """The score in training is that of the whole epoch, also where it is of gathered scores."""
    settings = settings_of(folders["several"], tmp_path / "whole")
    settings = replace(settings, train=replace(settings.train, metric="roc_auc", epochs=2))
    train(settings, quiet)
    run = Run.create(replace(settings, run=str(tmp_path / "cut")), quiet)

    def stop():
        if run.trainer.position() == (1, 2):
            run.save()
            raise KeyboardInterrupt

    with run, pytest.raises(KeyboardInterrupt):
        from foregather.train.trainers.trainer import run_epochs

        run.trainer.begin()
        run_epochs(run.trainer, 2, after_step=stop)
    with Run.resume(tmp_path / "cut", None, quiet) as resumed:
        run_loop(resumed)
    ours, theirs = records(tmp_path / "cut"), records(tmp_path / "whole")
    assert [one["train"] for one in ours] == [one["train"] for one in theirs]


def test_patience_knows_that_errors_fall(folders, tmp_path, monkeypatch):
    from foregather.train.trainers import sampled

    scores = iter([3.0, 2.0, 2.5, 2.5, 9.0])
    monkeypatch.setattr(sampled, "evaluate", lambda *given: next(scores))
    settings = settings_of(folders["numbers"], tmp_path / "r")
    settings = replace(settings, train=replace(settings.train, patience=2, epochs=9))
    facts = train(settings, quiet)
    assert (facts["epochs"], facts["best_epoch"], facts["best_valid"]) == (4, 2, 2.0)
