"""`foregather train-full` as a person meets it: one rank, two ranks, save and resume, errors."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from foregather import Graph
from foregather.cli.main import main
from foregather.graph.synthetic import synthesize
from foregather.train.checkpoints.ranks import is_too_old

SMALL = ("--depth", "2", "--width", "8", "--epochs", "3")


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """The command in this process: exit code, output, errors; runs go to a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*args: object) -> tuple[int, str, str]:
        code = main(["train-full", *map(str, args)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def two_ranks(*args: object) -> subprocess.CompletedProcess:
    launch = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    command = [sys.executable, *launch, "-m", "foregather", "train-full", *map(str, args)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)


NEW_TORCH = pytest.mark.skipif(is_too_old(), reason="checkpoints of many ranks need torch 2.9")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "graph"
    synthesize(path, 400, degree=6, features=16, classes=4, seed=0)
    return path


def test_one_rank_plans_trains_saves_and_goes_on(run, graph, tmp_path):
    state = tmp_path / "state.safetensors"
    code, out, err = run(graph, *SMALL, "--explain", "--save", state)
    assert code == 0, err
    assert "chosen: single" in out and "test " in out and state.exists()
    code, out, _ = run(graph, "--depth", "2", "--width", "8", "--epochs", "5", "--resume", state,
                       "--chunks", "4", "--json")  # fmt: skip
    facts = json.loads(out)
    assert code == 0 and facts["epochs"] == 5 and facts["chunks"] == 4
    state.write_bytes(b"no state")
    code, _, err = run(graph, *SMALL, "--chunks", "2", "--resume", state)
    assert code == 2 and "is not a state of full-graph training" in err


@pytest.mark.slow
@NEW_TORCH
def test_two_ranks_train_as_one(run, graph):
    options = (*SMALL, "--chunks", "4", "--mode", "fast", "--json")
    _, alone, _ = run(graph, *options)
    both = two_ranks(graph, *options)
    assert both.returncode == 0, both.stderr
    one, two = json.loads(alone), json.loads(both.stdout)  # the second rank says nothing
    assert two["stages"] == 2 and two["bytes_an_epoch"] > 0 == one["bytes_an_epoch"]
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert two["scores"] == pytest.approx(one["scores"], abs=0.02)


def test_bad_input_is_one_sentence(run, graph):
    code, _, err = run(graph, *SMALL, "--memory", "1KB")
    assert code == 2 and err.count("\n") == 1 and "the least memory of any is" in err
    code, _, err = run(graph, *SMALL, "--chunks", "4", "--ways", "2")
    assert code == 2 and "there is one rank" in err


@pytest.mark.parametrize("kind", ["numbers", "columns"])
def test_labels_that_are_not_one_class_a_node(run, graph, tmp_path, kind):
    """Numbers by squares, columns by the entries that are there: a loss, and no error."""
    stored = Graph.open(graph)
    labels = np.linspace(0.25, 3, stored.num_nodes, dtype=np.float32)
    if kind == "columns":
        labels = np.eye(4, dtype=np.int8)[np.asarray(stored.labels)]
        labels[::3, 1] = -1
    place = replace(stored, path=None, meta={}, labels=labels).save(tmp_path / "g")
    code, out, err = run(place, *SMALL, "--chunks", "2", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["loss"] > 0 and facts["scores"].keys() == {"train", "valid", "test"}
    assert facts["metric"] == ("micro_f1" if kind == "columns" else "rmse")
