"""Runs that cannot be trained, or whose numbers leave the range of numbers: a sentence, exit 2."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from foregather import Graph
from foregather.cli.main import main
from foregather.errors import InputError, NumericError
from foregather.train.checkpoints.checkpoint import latest_checkpoint, list_checkpoints
from foregather.train.metrics import check_split, count_classes
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from tests.train.runs import settings_of, small_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_folder(tmp_path_factory)


def changed(folder, place, **arrays):
    graph = Graph.open(folder)
    return replace(graph, path=None, meta={}, **arrays).save(place)


def with_label(folder, value):
    labels = np.array(Graph.open(folder).labels, np.int64)
    labels[7] = value
    return labels


def missing(folder, share):
    labels = np.array(Graph.open(folder).labels)
    labels[: int(len(labels) * share)] = -1
    return labels


def several(folder, *values):
    """Two columns of 0 and 1, and `values` from node 7 on."""
    labels = np.zeros((Graph.open(folder).num_nodes, 2), np.float32)
    labels[::2, 0] = 1
    labels[7 : 7 + len(values), 1] = values
    return labels


NEITHER = (
    r"hold {} for node {}, column 1, expected 0 or 1 in every column .*set train.task to regression"
)
CASES = {
    "infinite": (lambda f: {"labels": several(f, np.inf)}, "the label of node 7 is infinite"),
    "-2": (lambda f: {"labels": several(f, -1, -2).astype(np.int8)}, NEITHER.format("-2", 8)),
    "200": (lambda f: {"labels": several(f, 200).astype(np.uint8)}, NEITHER.format("200", 7)),
    "no column": (
        lambda f: {"labels": several(f)[:, :0].astype(np.uint8)},
        "the labels have no column",
    ),
    "all of a matrix": (
        lambda f: {"labels": np.full((2000, 3), -1, np.int8)},
        "every label is missing",
    ),
    "a matrix of the split": (
        lambda f: {
            "labels": np.where(np.arange(2000)[:, None] < 100, np.nan, several(f)),
            "splits": {"train": np.arange(100)},
        },
        "every node of the split 'train' has a label that is missing",
    ),
    "empty": (
        lambda f: {"splits": {"train": np.arange(0)}},
        "the split 'train' has no nodes, so there is nothing to train on",
    ),
    "missing": (lambda f: {"labels": missing(f, 1.0)}, r"every label is missing \(-1\)"),
    "of the split": (
        lambda f: {"labels": missing(f, 0.5), "splits": {"train": np.arange(100)}},
        "every node of the split 'train' has a label that is missing",
    ),
    "2^40": (
        lambda f: {"labels": with_label(f, 1 << 40)},
        "the labels hold class 1099511627776, but there are only 2000 nodes",
    ),
    "-5": (
        lambda f: {"labels": with_label(f, -5)},
        "the labels hold -5, expected classes of at least 0",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_graphs_that_cannot_be_trained_on(folder, tmp_path, case, capsys):
    make, words = CASES[case]
    graph = changed(folder, tmp_path / "g", **make(folder))
    run = tmp_path / "r"
    assert main(["train", "--graph", str(graph), "--run", str(run), "--json"]) == 2
    said = json.loads(capsys.readouterr().out)
    with pytest.raises(InputError, match=words):
        raise InputError(said["error"])
    assert not run.exists() and not (tmp_path / "r.partial").exists()


def test_few_nodes_may_have_many_classes():
    edges = np.array([[0, 1], [1, 0]])
    graph = Graph.from_edge_index(edges, 2, y=np.array([0, 60000]))
    assert count_classes(graph) == 60001
    with pytest.raises(InputError, match="there is no split"):
        check_split(graph, "train")


@pytest.mark.parametrize("batch", ["100", "5000"])
@pytest.mark.parametrize("final", ["exact", "sampled"])
def test_a_learning_rate_beyond_all_numbers(folder, tmp_path, batch, final, capsys):
    flags = ["--train.epochs", "1", "--train.batch-size", batch, "--train.final", final]
    flags += ["--optimizer.lr", "1e30", "--train.threads", "1", "--json"]
    assert main(["train", "--graph", str(folder), "--run", str(tmp_path / "r"), *flags]) == 2
    said = json.loads(capsys.readouterr().out)
    assert said["kind"] == "NumericError" and "smaller learning rate" in said["error"]
    state, path, damaged = latest_checkpoint(tmp_path / "r" / "checkpoints")
    assert not damaged and path.name == "checkpoint-00000000-00000000.safetensors"
    assert all(bool(torch.isfinite(w).all()) for w in state["training"]["model"].values())


def test_weights_that_are_no_numbers_are_not_put_down(folder, tmp_path):
    with Run.create(settings_of(folder, tmp_path / "r"), say=lambda text: None) as run:
        before = list_checkpoints(run.folder / "checkpoints")
        with torch.no_grad():
            next(run.trainer.model.parameters()).view(-1)[3] = float("nan")
        with pytest.raises(NumericError, match="holds NaN or infinity after epoch 0; the last"):
            run.save()
        with pytest.raises(NumericError, match="the loss is nan"):
            run_loop(run)
    assert list_checkpoints(tmp_path / "r" / "checkpoints") == before


def test_a_file_where_a_folder_should_be_is_named(folder, tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("words")
    for way in ("thesis.txt/r", "thesis.txt/deep/r"):
        assert main(["train", "--graph", str(folder), "--run", str(tmp_path / way)]) == 2
        said = capsys.readouterr().err
        assert "thesis.txt is not a folder" in said and "choose another" in said
    assert main(["synth", str(tmp_path / "thesis.txt/g"), "--nodes", "100"]) == 2
    assert "thesis.txt is not a folder" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "words"


def test_a_run_resumed_elsewhere_says_how_its_graph_is_named(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(folder.parent)
    flags = ["--train.epochs", "1", "--train.batch-size", "1000", "--train.threads", "1"]
    run = tmp_path / "r"
    assert main(["train", "--graph", folder.name, "--run", str(run), *flags]) == 0
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["train", "--resume", str(run)]) == 2
    said = capsys.readouterr().err
    assert f"r was trained on the graph {folder.name}, which is not here" in said
    assert "--graph FOLDER" in said
    assert main(["train", "--resume", str(run), "--graph", str(folder)]) == 0
