"""Docs: the pages on regression and several labels: their data and their commands run."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from foregather.cli.main import main
from tests.some import some

PAGES = Path(__file__).parents[3] / "docs/howto"


def follow(page, monkeypatch, tmp_path, capsys):
    """What the commands of a page print, one after the other."""
    text = (PAGES / page).read_text(encoding="utf-8")
    blocks = dict(re.findall(r"<!-- test: (\w+) -->\n```\w+\n(.*?)```", text, re.DOTALL))
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks["tables"], "tables", "exec"), {"__name__": "example"})
    said = []
    for line in some(blocks["commands"].splitlines()):
        words = line.split()
        assert words[0] == "foregather"
        assert main(words[1:]) == 0, capsys.readouterr().err
        said.append(capsys.readouterr().out)
    return said


def test_numbers(monkeypatch, tmp_path, capsys):
    said = follow("regression.md", monkeypatch, tmp_path, capsys)
    found = re.search(r"test +rmse (\S+), the mean (\S+) \(exact: with every edge\)", said[1])
    error, guess = map(float, found.groups())
    assert error < 0.7 * guess  # neighbours tell more than the mean
    assert np.load("temperatures.npy").shape == (400, 1)
    summary = json.loads(Path("runs/stations/summary.json").read_text())
    assert summary["task"] == "regression" and summary["baseline_is"] == "the mean"
    assert summary["metric"] == "rmse" and summary["best_valid"] > 0
    page = Path("runs/stations/report.html").read_text()
    assert "the mean" in page and "rmse" in page and "regression" in page
    names = Path("temperatures.npy.ids.csv").read_text().splitlines()[1:]
    one = re.search(r"^s17 +(\S+)$", said[-1], re.MULTILINE)
    assert float(one[1]) == pytest.approx(
        np.load("temperatures.npy")[names.index("s17"), 0], rel=1e-4
    )


def test_several_labels(monkeypatch, tmp_path, capsys):
    said = follow("multilabel.md", monkeypatch, tmp_path, capsys)
    found = re.search(r"test +macro_f1 (\S+), the best constant labels (\S+) \(exact", said[1])
    score, guess = map(float, found.groups())
    assert score > guess + 0.1
    assert np.load("scores.npy").shape == (500, 12)
    wanted = ", ".join(map(str, np.flatnonzero(np.load("scores.npy")[17] > 0)[:6])) or "none"
    assert f"17        labels {wanted}" in said[-1]
