"""Docs: the blocks of the page on PyG that can stand alone run."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/howto/pyg.md"
BLOCKS = dict(
    re.findall(
        r"^<!-- test: ([\w ]+) -->\n```python\n(.*?)^```",
        PAGE.read_text(encoding="utf-8"),
        re.M | re.S,
    )
)


@pytest.mark.parametrize("name", ["hgt", "typed folder"])
def test_blocks_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = {"__name__": "example"}
    exec(compile(BLOCKS[name], str(PAGE), "exec"), made)
    assert set(made["batch"].node_types) in ({"paper", "author"}, {"user", "item"})
