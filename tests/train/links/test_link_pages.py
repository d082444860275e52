"""Docs: the pages on links: their tables, configs and commands run."""

import re
import shlex
from pathlib import Path

import pytest

from foregather.cli.main import main
from foregather.train.settings import read_settings
from tests.some import some

PAGES = Path(__file__).parents[3] / "docs/howto"


def block(page, name):
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- test: {name} -->\n```\w*\n(.*?)```", text, re.DOTALL)
    return found[1] if found else None


def run_python(page, name):
    if (code := block(page, name)) is not None:
        exec(compile(code, f"{page} {name}", "exec"), {"__name__": "example"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "config", "files", "best"),
    [
        ("recommend", ("shop", "shop.toml"), ["best.csv", "rows.user.parquet"], 0.3),
        ("knowledge", ("toml", "facts.toml"), ["best.csv"], 0.05),
        ("events", ("toml", "messages.toml"), ["scores.csv"], 0.6),
    ],
)
def test_from_tables_to_predictions(page, config, files, best, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_python(page, {"recommend": "tables", "knowledge": "facts", "events": "events"}[page])
    if config is not None:
        Path(config[1]).write_text(block(page, config[0]))
    if (pairs := block(page, "pairs")) is not None:
        Path("pairs.csv").write_text(pairs)
    run_python(page, "split")
    for line in some(block(page, "commands").splitlines()):
        words = shlex.split(line)
        assert words[0] == "foregather"
        assert main(words[1:]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    found = re.search(r"test +\S+ ([01]\.\d+), popularity ([01]\.\d+) \(exact", said)
    assert found, said
    assert float(found[1]) > best
    for name in files:
        assert Path(name).stat().st_size > 0


def test_the_config_of_the_page_is_one(tmp_path):
    text = (PAGES / "recommend.md").read_text(encoding="utf-8")
    (tmp_path / "c.toml").write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[-1])
    settings = read_settings(tmp_path / "c.toml")
    assert settings.link.relation == "user, bought, item" and settings.train.metric == "recall@20"
