"""The how-to of links and formats.md: what the pages show runs, and lists what folders hold."""

import re
from dataclasses import fields

import pytest

from foregather.graph.convert.typed.description.spec import read_links
from foregather.graph.links.links import Links
from tests.processes import ROOT

HOWTO = (ROOT / "docs/howto/link_data.md").read_text(encoding="utf-8")
FORMATS = (ROOT / "docs/formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["split", "given", "rank"])
def test_examples_run(name, tmp_path, monkeypatch, capsys):
    found = re.search(rf"<!-- test: {name} -->\n```python\n(.*?)^```", HOWTO, re.M | re.S)
    assert found
    monkeypatch.chdir(tmp_path)
    exec(compile(found[1], "link_data.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out


def test_the_description_is_one(tmp_path):
    found = re.search(r"```toml\n(.*?)^```", HOWTO, re.M | re.S)
    assert found
    (tmp_path / "d.toml").write_text(found[1])
    rule = read_links(tmp_path / "d.toml")
    assert rule is not None and rule.times == ("2024-03-01", "2024-04-01")


def test_the_format_lists_the_arrays_of_links():
    section = FORMATS[
        FORMATS.index("## Links: versions") : FORMATS.index("## Feature rows in an order")
    ]
    assert re.findall(r"(\w+)\.npy", section) == [one.name for one in fields(Links)]
