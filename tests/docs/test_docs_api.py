"""Docs: the API pages name what exists, list it in their index, and their examples run."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import foregather

API = Path(__file__).parents[2] / "docs/api"
PAGES = sorted(page for page in API.glob("*.md") if page.name != "index.md")
NEEDS_MORE = {"ranks.md", "full_graph.md"}  # ranks, and a folder: the how-tos have them whole


def names(page: Path) -> list[str]:
    return re.findall(r"^\.\. auto\w+:: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_exist_and_are_documented(page):
    index = (API / "index.md").read_text(encoding="utf-8")
    found = names(page)
    assert found
    for name in found:
        home, _, short = name.rpartition(".")
        assert getattr(import_module(home), short).__doc__
        assert f"`{short}`" in index


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_where_to_start_and_what_the_rest_is_for(page):
    text = page.read_text(encoding="utf-8")
    index = (API / "index.md").read_text(encoding="utf-8")
    start, more = text.split("## Start here\n")[1].split("## More\n")
    _, first, rest = next(row for row in index.splitlines() if f"({page.name})" in row)[2:-2].split(
        " | "
    )
    assert re.findall(r"`(\w+)`", first) == shorts(start)
    assert re.findall(r"`(\w+)`", rest) == shorts(more)
    assert re.match(r"\n[A-Z][^\n]+\.\n\n```", more), "a line in front of the first"


def shorts(text: str) -> list[str]:
    return re.findall(r"^\.\. auto\w+:: [\w.]+\.(\w+)$", text, re.MULTILINE)


def test_few_names_are_to_start_with():
    pages = [page.read_text(encoding="utf-8").partition("## More\n")[0] for page in PAGES]
    assert 30 <= sum(len(shorts(page)) for page in pages) <= 45


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch):
    code = re.search(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert code
    compiled = compile(code[1], str(page), "exec")
    monkeypatch.chdir(tmp_path)
    if page.name not in NEEDS_MORE:
        exec(compiled, {"__name__": "example"})


def test_all_names_of_the_package_are_there():
    for name in foregather.__all__:
        assert getattr(foregather, name) is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", foregather.__version__)
    listed = {name.rpartition(".")[2] for page in PAGES for name in names(page)}
    assert set(foregather.__all__) - {"__version__"} <= listed
