"""Paths that are kept mean the same after `os.chdir`, also where the new folder has such a name."""

import os

import numpy as np
import pytest
import torch

from foregather import BatchContents, Graph, InputError, Loader, StorageError, infer
from foregather.files import absolute
from foregather.gather.feature_file import FeatureFile
from foregather.gather.store import open_store
from foregather.graph.on_disk.workspace import Workspace
from foregather.graph.synthetic import synthesize
from foregather.nn import SAGE
from foregather.sampling import DiskTopology, Neighbor
from foregather.train.runs.run import Run
from foregather.train.runs.run_loop import run_loop
from foregather.train.settings import Settings, TrainSettings, read_settings

CHECKS = (".crc", "checks.json")


@pytest.fixture(params=["checked", "unchecked"])
def two(request, tmp_path, monkeypatch):
    """Folders a and b with a graph `g` each; the working folder is a."""
    for number, name in enumerate("ab"):
        synthesize(tmp_path / name / "g", 600, degree=5, features=8, classes=3, seed=number)
        if request.param == "unchecked":
            for top, _, files in os.walk(tmp_path / name / "g"):
                for file in files:
                    if file.endswith(CHECKS):
                        os.remove(os.path.join(top, file))
    monkeypatch.chdir(tmp_path / "a")
    return tmp_path


def test_a_graph_stays_the_one_that_was_opened(two):
    graph = Graph.open("g")
    assert graph.checked == any(name.endswith(".crc") for name in os.listdir("g"))
    right = np.load("g/features.npy")
    seeds = [np.arange(20)]
    expected = Neighbor([3, 3]).sample_bulk(Graph.open("g"), seeds, seed=0)[0].node.copy()
    os.chdir(two / "b")
    assert graph.path == two / "a" / "g"
    assert FeatureFile.of(graph).path == two / "a" / "g" / "features.npy"
    with open_store(graph, memory="1MB") as store:
        np.testing.assert_array_equal(store[np.arange(9)], right[:9])
    with DiskTopology(graph, memory="10MB") as topology:
        found = topology.sample_bulk(Neighbor([3, 3]), seeds, seed=0)[0].node
        np.testing.assert_array_equal(found, expected)
    for options in ({}, {"memory": "40MB", "storage": "disk"}):
        for batch in Loader(
            graph, [3, 3], "train", 256, contents=BatchContents(pyg=False), **options
        ):
            np.testing.assert_array_equal(batch.x.numpy(), right[batch.n_id.numpy()])
    assert graph.verify().num_nodes == 600


def test_inference_reads_the_graph_that_was_opened(two):
    torch.manual_seed(0)
    model = SAGE([8, 4, 3])
    infer(model, Graph.open("g"), "right.npy")
    graph = Graph.open("g")
    os.chdir(two / "b")
    facts = infer(model, graph, "out.npy", memory="60MB", storage="features")
    assert facts["out"] == "out.npy"  # as it was given
    np.testing.assert_allclose(np.load("out.npy"), np.load(two / "a" / "right.npy"), atol=1e-5)


def test_a_run_stays_in_its_folder_and_its_config_as_it_was_given(tmp_path, monkeypatch):
    for name in "ab":
        synthesize(tmp_path / name / "g", 300, degree=4, features=4, classes=3, seed=ord(name))
    monkeypatch.chdir(tmp_path / "a")
    settings = Settings(graph="g", run="r", train=TrainSettings(epochs=1, batch_size=64))
    with Run.create(settings, lambda text: None) as run:
        os.chdir(tmp_path / "b")
        facts = run_loop(run)
    assert facts["run"] == "r" and run.folder == tmp_path / "a" / "r"
    assert (tmp_path / "a" / "r" / "summary.json").exists() and not os.path.lexists("r")
    kept = read_settings(tmp_path / "a" / "r" / "config.toml")
    assert (kept.graph, kept.run) == ("g", "r")


def test_a_workspace_stays_where_it_was_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").mkdir()
    with Workspace("made") as work:
        os.chdir("b")
        (work.path / "built").mkdir()
        work.commit("built")
    assert (tmp_path / "made").is_dir() and os.listdir(tmp_path / "b") == []
    assert not (tmp_path / "made.partial").exists()


def test_links_and_steps_upwards_stay_as_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/inner")
    synthesize(tmp_path / "far" / "g", 50, degree=3, features=2, classes=2)
    graph = Graph.open("link/../g")  # beside what the link points to, not beside the link
    assert graph.num_nodes == 50 and graph.path == tmp_path / "link" / ".." / "g"
    assert absolute("link") == tmp_path / "link"


def test_a_working_folder_that_is_gone_is_a_sentence(tmp_path, monkeypatch):
    synthesize(tmp_path / "g", 50, degree=3, features=2, classes=2)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(StorageError, match="'x' is relative to the working folder, which"):
        Graph.open("x")
    assert Graph.open(tmp_path / "g").num_nodes == 50
    with pytest.raises((StorageError, InputError)):
        Graph.open(tmp_path / "g").save("y")
