"""Damaged, cut, empty and missing files of a run are named on its page and on the terminal."""

import html
import json
import shutil

import pytest

from foregather.cli.main import main
from foregather.observe.report import charts_of, read_run, write_comparison, write_report
from tests.train.runs import settings_of, small_folder, train

FILES = ("metrics.jsonl", "summary.json", "config.toml", "trace.json", "environment.json")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(settings_of(small_folder(tmp_path_factory), folder))
    return folder


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


def told(folder, capsys):
    """What the page and the terminal say is damaged, which is the same."""
    assert main(["report", "--batches", "0", str(folder)]) == 0
    said = capsys.readouterr().out
    lines = [line[10:] for line in said.splitlines() if line.startswith("damaged ")]
    page = (folder / "report.html").read_text(encoding="utf-8")
    shown = [part.split(".</p>")[0] for part in page.split('<p class="damaged">')[1:]]
    assert lines == [html.unescape(text) for text in shown]
    return lines, page


def test_a_whole_run_has_nothing_damaged(copy, capsys):
    assert told(copy, capsys)[0] == []


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["noise", "empty", "cut"])
def test_a_damaged_file_is_named(copy, capsys, name, how):
    path = copy / name
    data = path.read_bytes()
    if how == "cut" and name == "config.toml":  # in the middle of a line
        data = data[: data.index(b"=") + 1] * 2
    path.write_bytes({"noise": b"\xff\x00{[", "empty": b"", "cut": data[: len(data) // 2]}[how])
    lines, page = told(copy, capsys)
    assert len(lines) == 1 and lines[0].startswith(f"{name} is damaged")
    assert "No epoch is finished" not in page


def test_metrics_that_lack_epochs_are_counted(copy, capsys):
    lines = (copy / "metrics.jsonl").read_text().splitlines(keepends=True)
    (copy / "metrics.jsonl").write_text("".join(lines[:2]))
    assert told(copy, capsys)[0] == ["metrics.jsonl is damaged: it has 2 of 3 epochs"]
    (copy / "metrics.jsonl").write_text("".join([*lines[:2], lines[2][:40]]))
    words = "metrics.jsonl is damaged: 2 of its 3 lines are records of epochs"
    assert told(copy, capsys)[0] == [words]
    page = write_comparison([read_run(copy), read_run(copy)])
    assert page.count(f"{words}.</p>") == 2


@pytest.mark.parametrize("name", ["metrics.jsonl", "summary.json", "environment.json"])
def test_a_missing_file_is_named(copy, capsys, name):
    (copy / name).unlink()
    lines, page = told(copy, capsys)
    assert len(lines) == 1 and lines[0].startswith(f"{name} is missing, so ")
    assert "No epoch is finished" not in page


def test_a_run_that_begins_has_no_epoch(copy):
    for name in ("metrics.jsonl", "summary.json", "model.safetensors", "trace.json"):
        (copy / name).unlink()
    facts = read_run(copy)
    assert facts["damaged"] == [] and "No epoch is finished yet." in write_report(facts)


def test_the_facts_name_damaged_files(copy, capsys):
    (copy / "trace.json").write_text("[")
    assert main(["report", "--json", "--batches", "0", str(copy)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["damaged"] == ["trace.json is damaged, so the timeline is not shown"]
    assert "timeline" not in charts_of(read_run(copy))
