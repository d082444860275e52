"""Docs: the page on typed training: its tables, its config and its commands run."""

import re
from pathlib import Path

import numpy as np

from foregather.cli.main import main
from foregather.train.settings import Settings, read_settings
from tests.some import some

PAGE = (Path(__file__).parents[3] / "docs/howto/typed_train.md").read_text(encoding="utf-8")


def block(name):
    found = re.search(rf"<!-- test: {name} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found, name
    return found[1]


def test_three_commands_from_tables_to_predictions(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block("tables"), "tables", "exec"), {"__name__": "example"})
    Path("shop.toml").write_text(block("shop"))
    for line in some(block("commands").splitlines()):
        words = line.split()
        assert words[0] == "foregather"
        assert main(words[1:]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert re.search(r"test +roc_auc [01]\.\d+, chance 0.5000 \(exact: with every edge\)", said)
    assert np.load("scores.npy").shape == (300, 2)
    assert Path("scores.npy.ids.csv").read_text().splitlines()[:2] == ["id", "u0"]
    best = float(re.search(r"test +roc_auc ([01]\.\d+)", said)[1])
    assert best > 0.7  # what was bought tells who comes back


def test_the_config_is_one(tmp_path):
    found = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[-1]
    (tmp_path / "c.toml").write_text(found)
    settings = read_settings(tmp_path / "c.toml")
    assert settings.typed.target == "user" and settings.typed.fanouts["*"] == [5, 5]
    assert settings.sampler == Settings().sampler
