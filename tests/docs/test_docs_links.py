"""Docs: every relative link in the README, CONTRIBUTING and the pages points to something."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")],
)
_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return _SPAN.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Heading anchors as GitHub and MyST make them."""
    found = set()
    for heading in re.findall(r"^#+ +(.+?) *$", page.read_text(encoding="utf-8"), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(plain.replace(" ", "-"))
    return found


def relative(targets: list[str]) -> list[str]:
    return [target for target in targets if not re.match(r"[a-z][a-z+.-]*:", target)]


def broken(page: Path) -> list[str]:
    wrong = []
    for target in relative(_LINK.findall(prose(page))):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        inside = file == ROOT or ROOT in file.parents
        fits = file.suffix != ".md" or not anchor or (file.is_file() and anchor in anchors(file))
        if not (inside and file.exists() and fits):
            wrong.append(target)
    return wrong


#: A file of the repository, from its top, or a test file from the top of `tests` or by its name.
_PLACE = re.compile(r"(?<![\w./<-])(?:tests|src|csrc|benchmarks)/[\w./*<>-]*")
_TEST = re.compile(r"`((?:[\w*]+/)*test_[\w*]+\.(?:py|cpp))")
_ROW_OF_PYG = re.compile(r"^\| `test_.*$", re.MULTILINE)  # the table of PyG's own tests


def missing_places(text: str) -> list[str]:
    """Paths of the repository that a page names and that are not there, in code blocks too."""
    wrong = []
    for place in _PLACE.findall(text):
        pattern = re.sub(r"<\w+>|DATE", "*", place.rstrip("./"))
        if not any(ROOT.glob(pattern)):
            wrong.append(place)
    for test in _TEST.findall(_ROW_OF_PYG.sub("", text)):
        if test.split("/")[0] not in ("tests", "csrc", "test") and not any(
            (ROOT / "tests").glob(f"**/{test}" if "/" not in test else test)
        ):
            wrong.append(test)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_places_that_a_page_names_exist(page: Path) -> None:
    assert missing_places(page.read_text(encoding="utf-8")) == []


def test_a_place_that_moved_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "tests/cli").mkdir(parents=True)
    (tmp_path / "tests/cli/test_a.py").touch()
    text = (
        "`tests/cli/test_a.py::test_x`, `tests/cli`, `cli/test_a.py`, `test_a.py`,\n"
        "| `test_pyg.py` `test_x` | 1 |\n`tests/*/*.py`, `test/nn/test_c.py`, https://x.org/src/y,\n"
        "`tests/test_a.py`, `nn/test_a.py` and\n"
        "`test_b.py`\n```bash\npython benchmarks/gone.py --quick\n```\n"
    )
    assert missing_places(text) == [
        *("tests/test_a.py", "benchmarks/gone.py", "nn/test_a.py", "test_b.py"),
    ]


def test_every_report_is_linked_from_a_page() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in relative(_LINK.findall(prose(page)))
    }
    reports = sorted((ROOT / "benchmarks/reports").glob("*.md"))
    assert len(reports) > 40
    assert [report.name for report in reports if report not in linked] == []


def test_there_are_pages() -> None:
    names = {page.name for page in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "index.md", "glossary.md", "formats.md"} <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_exist(page: Path) -> None:
    assert broken(page) == []


def test_every_page_is_in_the_contents() -> None:
    docs = ROOT / "docs"
    pages = {str(page.relative_to(docs).with_suffix("")) for page in docs.rglob("*.md")}
    listed = {
        str((index.parent / line.strip()).relative_to(docs))
        for index in docs.rglob("index.md")
        for body in _TOCTREE.findall(index.read_text(encoding="utf-8"))
        for line in body.splitlines()
        if line.strip() and not line.startswith(":")
    }
    assert pages - {"index"} == listed


def test_the_tests_named_in_the_design_exist() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 10
    for file, test in named:
        path = ROOT / file
        assert f"def {test}(" in path.read_text(encoding="utf-8"), f"{file} has no {test}"


def test_the_example_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert code is not None
    monkeypatch.chdir(tmp_path)
    exec(code[1], {})
    lines = capsys.readouterr().out.splitlines()
    assert int(lines[0]) > 0 and (tmp_path / "demo.fg" / "meta.json").is_file()
    assert lines[1] == "512 64 2"


def test_a_broken_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "there.md").write_text("# A Heading\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#a-heading) [c](https://x.org) `[d](code.md)`\n"
        "```\n[e](fence.md)\n```\n[f](missing.md) [g](there.md#none) [h](../outside.md)\n"
    )
    assert broken(page) == ["missing.md", "there.md#none", "../outside.md"]


def test_the_places_named_in_the_design_exist() -> None:
    text = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+\.(?:py|cpp))(?:::([\w.]+))?`", text))
    assert len(named) > 40
    for path, name in named:
        if path.startswith("tests/"):
            continue  # above
        homes = [ROOT / "src/foregather" / path, ROOT / "csrc" / path, ROOT / path]
        found = next((home for home in homes if home.is_file()), None)
        assert found is not None, path
        source = found.read_text(encoding="utf-8")
        for part in filter(None, name.split(".")):
            assert re.search(rf"^\s*(def|class) {part}\b", source, re.MULTILINE), (path, name)
