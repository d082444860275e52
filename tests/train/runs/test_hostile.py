"""Hostile folders: every file of a run or a graph replaced in turn by what no writer of ours makes.

Each command ends in a sentence or works, waits for nothing, and changes nothing outside.
"""

import os
import shutil
import signal
from contextlib import contextmanager

import pytest

from foregather.cli.main import main
from foregather.errors import StorageError
from foregather.train.runs.run import Run
from foregather.train.settings import MemorySettings
from tests.train.runs import settings_of, small_folder, train

ALL = bool(os.environ.get("FOREGATHER_ALL_HOSTILE"))
EACH = 1 if ALL else 8  # of the combinations, every so many is tried in the suite


def link_out(path, outside):
    target = outside / "target"
    shutil.move(path, target)
    path.symlink_to(target)


def remove(path):
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def anew(make):
    def replace(path, outside):
        remove(path)
        make(path)

    return replace


KINDS = {
    "a link out": link_out,
    "a dangling link": anew(lambda path: path.symlink_to("nowhere")),
    "a loop": anew(lambda path: path.symlink_to(path.name)),
    "a pipe": anew(os.mkfifo),
    "a folder": anew(os.mkdir),
    "a link to a device": anew(lambda path: path.symlink_to("/dev/zero")),
    "empty": anew(lambda path: path.touch()),
    "huge": anew(lambda path: (path.touch(), os.truncate(path, 1 << 40))),
}


@contextmanager
def soon():
    """An end to waiting, which is a failure; no measure of speed."""

    def late(number, frame):
        raise AssertionError("it waits for something that does not come")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(300)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def facts_of(folder):
    """All that a command could have changed."""
    return {
        name: (folder / name).read_bytes() if (folder / name).is_file() else None
        for name in files_of(folder)
    }


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return small_folder(tmp_path_factory)


@pytest.fixture(scope="module")
def finished(graph, tmp_path_factory):
    run = tmp_path_factory.mktemp("finished") / "r"
    settings = settings_of(graph, run, memory=MemorySettings("60MB", "features"))
    train(settings, say=lambda text: None)
    assert main(["report", str(run), "--batches", "4", "--json"]) == 0
    return run


def changed_copy(source, place, name, change):
    """A copy of a folder with one file changed, and the folder beside it that nobody may touch."""
    outside = place / "outside"
    outside.mkdir(parents=True)
    copy = shutil.copytree(source, place / "copy")
    change(copy / name, outside)
    return copy, outside


def attempt(command, capsys):
    """The exit code; an exception of any kind goes through and fails the test."""
    with soon():
        code = main(command)
    said = capsys.readouterr()
    assert code in (0, 2), said
    sentences = [line for line in said.err.splitlines() if line.startswith("foregather: ")]
    assert len(sentences) == (code == 2), said
    assert "Traceback" not in said.err
    return code


@pytest.mark.slow
def test_run_folders(graph, finished, tmp_path, capsys):
    tried = refused = 0
    for name in files_of(finished):
        for kind, change in KINDS.items():
            for number, command in enumerate(("report", "train", "infer")):
                tried += 1
                if (tried + number) % EACH:
                    continue
                place = tmp_path / str(tried)
                run, outside = changed_copy(finished, place, name, change)
                before = facts_of(outside)
                flags = {
                    "report": ["report", str(run), "--batches", "0"],
                    "train": ["train", "--resume", str(run), "--train.final", "sampled"],
                    "infer": ["infer", str(run), str(graph), str(place / "scores.npy")],
                }[command]
                refused += attempt([*flags, "--json"], capsys) == 2
                assert facts_of(outside) == before, (name, kind, command)
                shutil.rmtree(place)
    assert tried > 300 and refused > 3


def test_graph_folders(graph, tmp_path, capsys):
    tried = refused = 0
    for name in files_of(graph):
        for kind, change in KINDS.items():
            for number, command in enumerate(("info", "verify", "train")):
                tried += 1
                if (tried + number) % EACH:
                    continue
                place = tmp_path / str(tried)
                folder, outside = changed_copy(graph, place, name, change)
                before = facts_of(outside)
                flags = [command, str(folder)]
                if command == "train":
                    flags = ["train", "--graph", str(folder), "--run", str(place / "r")]
                    flags += ["--train.epochs", "1", "--train.final", "sampled"]
                code = attempt([*flags, "--json"], capsys)
                refused += code == 2
                assert code == 2 or name == "splits" or name.endswith(".crc"), (name, kind, command)
                assert facts_of(outside) == before, (name, kind, command)
                shutil.rmtree(place)
    assert refused > 5


def test_a_page_that_is_a_link_is_replaced(finished, tmp_path, capsys):
    run, rc = tmp_path / "r", tmp_path / "bashrc"
    shutil.copytree(finished, run)
    for name in ("report.html", "curve.json", "plots/loss.svg"):
        (run / name).unlink()
        rc.write_text("theirs")
        (run / name).symlink_to(rc)
        assert main(["report", str(run), "--batches", "4"]) == 0
        assert rc.read_text() == "theirs" and not (run / name).is_symlink()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_report_on_a_full_disk(finished, tmp_path, capsys, monkeypatch, call):
    run = tmp_path / "r"
    shutil.copytree(finished, run)
    before = facts_of(run)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    assert main(["report", str(run)]) == 2
    monkeypatch.undo()
    said = capsys.readouterr().err
    assert said == (
        "foregather: no space left on the disk while writing report.html; free some space and run "
        "again\n"
    )
    assert facts_of(run) == before


# ---- NAME.partial ------------------------------------------------------------------------------


def test_a_folder_of_others_is_neither_cleared_nor_used(graph, tmp_path):
    settings = settings_of(graph, tmp_path / "r")
    theirs = tmp_path / "r.partial"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years")
    with pytest.raises(StorageError, match=r"r\.partial exists and was not made by"):
        Run.create(settings)
    assert (theirs / "thesis.tex").read_text() == "years" and not (tmp_path / "r").exists()
    shutil.move(theirs, tmp_path / "elsewhere")
    theirs.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match=r"r\.partial exists and was not made by"):
        Run.create(settings)
    assert os.listdir(tmp_path / "elsewhere") == ["thesis.tex"]
    theirs.unlink()
    Run.create(settings).close()
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "r"]


def test_a_folder_that_appears_meanwhile_is_kept(graph, tmp_path, monkeypatch):
    real = Run.save

    def save(self):
        (tmp_path / "r").mkdir()
        (tmp_path / "r" / "thesis.tex").write_text("years")
        return real(self)

    monkeypatch.setattr(Run, "save", save)
    with pytest.raises(StorageError, match="appeared while it was being made"):
        Run.create(settings_of(graph, tmp_path / "r"))
    assert os.listdir(tmp_path / "r") == ["thesis.tex"] and os.listdir(tmp_path) == ["r"]
