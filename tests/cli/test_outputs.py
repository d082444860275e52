"""Files that commands write: refused before the work, never over what somebody else made."""

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from foregather import Graph, StorageError
from foregather.cli.flags import commands_of
from foregather.cli.main import Command, main
from foregather.cli.quickstart.files import MARK
from foregather.graph.synthetic import synthesize
from foregather.pipeline import FullGraph
from foregather.sampling import Neighbor
from foregather.targets import check_target
from tests.some import some

SMALL = ("--depth", "2", "--width", "8", "--epochs", "1", "--chunks", "1")


@pytest.fixture
def run(capsys, tmp_path_factory, monkeypatch):
    """A command in this process: exit code, output, errors; runs go to a folder of its own."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))

    def call(*args: object) -> tuple[int, str, str]:
        code = main([*map(str, args)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A graph and a run on it."""
    folder = tmp_path_factory.mktemp("made")
    synthesize(folder / "g", 200, degree=4, features=4, classes=3, seed=0)
    flags = ("--train.epochs", "1", "--train.batch-size", "64", "--json")
    assert main(["train", "--graph", str(folder / "g"), "--run", str(folder / "r"), *flags]) == 0
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def train_nothing(monkeypatch):
    """Training would be an error: what is refused is refused before it."""

    def train_epoch(self):
        raise AssertionError("it trained")

    monkeypatch.setattr(FullGraph, "train_epoch", train_epoch)


# ---- no command writes into a graph, or over a part of a run ---------------------------------

INSIDE = {
    "infer": ("infer", "r", "g", "OUT", "--overwrite"),
    "train-full --save": ("train-full", "g", *SMALL, "--save", "OUT", "--overwrite"),
    "train-full --timeline": ("train-full", "g", *SMALL, "--timeline", "OUT.png"),
    "report --out": ("report", "r", "--out", "OUT"),
    "plan --plot": ("plan", "g", "--memory", "1GB", "--plot", "OUT.png"),
    "info --plot": ("info", "g", "--plot", "OUT.png"),
    "bench --plot": ("bench", "cache", "g", "--bulks", "1", "--plot", "OUT.png"),
    "convert": ("convert", "g", "OUT", "--overwrite"),
    "synth": ("synth", "OUT", "--nodes", "100", "--overwrite"),
    "partition": ("partition", "g", "OUT", "--overwrite"),
    "reorder": ("reorder", "g", "OUT", "--overwrite"),
    "quickstart": ("quickstart", "OUT", "--nodes", "100", "--epochs", "1"),
}


def test_every_command_with_an_output_is_in_the_list():
    named = {line.split()[0] for line in INSIDE}
    inputs = {
        "train": ("config", "resume"),
        "doctor": ("path",),
        "verify": ("path",),
        "completion": (),
    }
    for name, command in commands_of(Command).items():
        paths = [f.name for f in dataclasses.fields(command) if "Path" in str(f.type)]
        if not named & {name}:
            assert set(paths) == set(inputs[name]), f"{name} may write a file"


@pytest.mark.parametrize("line", INSIDE)
@pytest.mark.parametrize("target", ["g/features.npy", "g/mine", "g/splits/train.npy", "link/mine"])
def test_nothing_is_written_into_a_graph(run, made, monkeypatch, line, target):
    monkeypatch.chdir(made)
    train_nothing(monkeypatch)
    if not os.path.lexists("link"):
        os.symlink("g", "link")
    before = contents(made / "g")
    code, _, err = run(*(arg.replace("OUT", target) for arg in INSIDE[line]))
    assert code == 2 and err.count("\n") == 1, err
    assert contents(made / "g") == before
    assert (
        "which is a graph folder, and nothing is written into one" in err
        or "not a graph folder" in err
    )


@pytest.mark.parametrize(
    "name", ["config.toml", "model.safetensors", "checkpoints/x", "plots/loss.svg", "trace.json"]
)
@pytest.mark.parametrize("line", ["infer", "train-full --save", "report --out"])
def test_parts_of_a_run_are_not_replaced(run, made, monkeypatch, line, name):
    monkeypatch.chdir(made)
    train_nothing(monkeypatch)
    before = contents(made / "r")
    code, _, err = run(*(arg.replace("OUT", f"r/{name}") for arg in INSIDE[line]))
    assert code == 2 and f"{name} is a part of the run r, which is not replaced" in err
    assert contents(made / "r") == before


def test_files_of_ones_own_may_lie_beside_a_run(run, made, monkeypatch):
    monkeypatch.chdir(made)
    code, _, err = run("infer", "r", "g", "r/mine.npy")
    assert code == 0, err
    assert np.load("r/mine.npy").shape == (200, 3)
    os.remove("r/mine.npy")
    assert run("report", "r", "--out", "r/page.html")[0] == 0
    assert run("report", "r", "--out", "r/page.html")[0] == 0  # a report is replaced by one
    Path("r/page.html").unlink()


def test_what_python_saves_stays_out_of_graphs_too(made):
    graph = Graph.open(made / "g")
    bulk = Neighbor([2]).sample_bulk(graph, [np.arange(5)], seed=0)
    with pytest.raises(
        StorageError, match="features.npy would be inside g, which is a graph folder"
    ):
        bulk.save(made / "g" / "features.npy")
    with pytest.raises(StorageError, match="inner would be inside g, which is a graph folder"):
        graph.save(made / "g" / "inner")


def test_a_damaged_graph_and_folders_above_are_seen_too(tmp_path):
    folder = tmp_path / "g"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "meta.json").write_text('{"format": "foregather-graph", cut')
    with pytest.raises(StorageError, match="would be inside g, which is a graph folder"):
        check_target(folder / "deep" / "deeper" / "new")
    (folder / "meta.json").write_text('{"format": "another"}')
    check_target(folder / "deep" / "deeper" / "new")


def test_a_report_replaces_no_other_file(run, made, monkeypatch):
    monkeypatch.chdir(made)
    Path("thesis.txt").write_text("years of work")
    code, _, err = run("report", "r", "--out", "thesis.txt")
    assert code == 2 and "thesis.txt exists and is not the report of a run, so it is kept" in err
    assert Path("thesis.txt").read_text() == "years of work"


# ---- train-full --save -----------------------------------------------------------------------


@pytest.mark.parametrize("flag", [(), ("--overwrite",)])
def test_save_is_checked_before_training(run, made, tmp_path, monkeypatch, flag):
    train_nothing(monkeypatch)
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "file").write_text("mine")
    long = tmp_path / ("n" * 300)
    for target, said in (
        (folder, "not a file" if flag else "exists already"),
        (tmp_path / "file" / "below", "Not a directory|cannot|File exists"),
        (long, "File name too long"),
    ):
        code, _, err = run("train-full", made / "g", *SMALL, "--save", target, *flag)
        assert code == 2 and err.count("\n") == 1
        assert any(part in err for part in said.split("|")), err
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"] and not os.listdir(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_save_where_nothing_may_be_written(run, made, tmp_path, monkeypatch):
    train_nothing(monkeypatch)
    tmp_path.chmod(0o500)
    code, _, err = run("train-full", made / "g", *SMALL, "--save", tmp_path / "w")
    tmp_path.chmod(0o700)
    assert code == 2 and "choose a target you may write to" in err


def test_an_existing_file_is_kept_without_overwrite(run, made, tmp_path, monkeypatch):
    state = tmp_path / "w.safetensors"
    state.write_text("mine")
    with monkeypatch.context() as patch:
        train_nothing(patch)
        code, _, err = run("train-full", made / "g", *SMALL, "--save", state)
    assert code == 2 and "w.safetensors exists already; pass --overwrite" in err
    assert state.read_text() == "mine"
    code, _, err = run("train-full", made / "g", *SMALL, "--save", state, "--overwrite")
    assert code == 0, err
    code, _, err = run(
        "train-full", made / "g", *SMALL, "--resume", state, "--save", state, "--overwrite"
    )
    assert code == 0, err
    assert os.listdir(tmp_path) == ["w.safetensors"]


@pytest.mark.parametrize("appeared", ["folder", "file"])
def test_weights_are_kept_beside_a_target_that_fails_at_the_end(
    run, made, tmp_path, monkeypatch, appeared
):
    target, train_epoch = tmp_path / "w", FullGraph.train_epoch

    def train_and_meddle(self):
        found = train_epoch(self)
        target.mkdir() if appeared == "folder" else target.write_text("mine")
        return found

    monkeypatch.setattr(FullGraph, "train_epoch", train_and_meddle)
    code, _, err = run("train-full", made / "g", *SMALL, "--save", target, "--json")
    kept = tmp_path / "w.kept-1"
    assert code == 2 and err.count("\n") == 1 and f"the weights were kept in {kept}" in err
    assert target.is_dir() or target.read_text() == "mine"
    monkeypatch.setattr(FullGraph, "train_epoch", train_epoch)
    code, out, err = run("train-full", made / "g", *SMALL, "--resume", kept, "--json")
    assert code == 0 and json.loads(out)["epochs"] == 1, err


# ---- quickstart ------------------------------------------------------------------------------


def start(run, folder):
    return run("quickstart", folder, "--nodes", "300", "--epochs", "1", "--json")


def test_quickstart_replaces_only_what_it_made(run, tmp_path):
    code, out, err = start(run, tmp_path / "q")
    assert code == 0, err
    first = json.loads(out)
    assert start(run, tmp_path / "q")[0] == 0  # again, over its own
    for name in ("graph", "accuracy.png"):
        folder = tmp_path / f"q-{name}"
        shutil.copytree(tmp_path / "q", folder)
        if name == "graph":  # another graph took its place
            shutil.rmtree(folder / "graph")
            synthesize(folder / "graph", 50, degree=3, features=4, classes=2, seed=9)
        else:
            (folder / name).write_bytes(b"a picture of mine")
        before = contents(folder)
        code, _, err = start(run, folder)
        assert code == 2 and err.count("\n") == 1, err
        assert f"{name} exists and was not made by quickstart, so it is kept" in err
        assert contents(folder) == before
    assert first["plots"][1].endswith("accuracy.png")


def test_the_page_of_quickstart_shows_what_it_compared(run, tmp_path):
    code, out, err = start(run, tmp_path / "q")
    assert code == 0, err
    facts, page = json.loads(out), (tmp_path / "q" / "report.html").read_text()
    for name, value in some(facts["accuracy"].items()):
        assert f"{name} {value:.3f}" in page
    tenth = facts["storage"]["a tenth cached"]
    assert f"{tenth['requests']:,} reads" in page and "with equal losses" in page
    assert page.index("What neighbours add") < page.index("What a tenth") < page.index("Accuracy<")


@pytest.mark.parametrize("mark", [None, "not json", "[1]", '{"graph": "0"}'])
def test_quickstart_keeps_a_graph_it_does_not_know(run, tmp_path, mark):
    synthesize(tmp_path / "graph", 50, degree=3, features=4, classes=2, seed=9)
    if mark is not None:
        (tmp_path / MARK).write_text(mark)
    before = contents(tmp_path)
    code, _, err = start(run, tmp_path)
    assert code == 2 and "name another folder: foregather quickstart OTHER" in err
    assert contents(tmp_path) == before
