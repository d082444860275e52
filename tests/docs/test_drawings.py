"""Drawings of the pages: each is what its script draws, and stands on a page in words too."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.some import some

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def drawings():
    return sorted((DOCS / "images").glob("*.svg"))


def test_drawings_are_what_the_script_draws(tmp_path):
    script = str(DOCS / "drawings")
    subprocess.run([sys.executable, "-B", script, "--out", str(tmp_path)], check=True, timeout=120)
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text(encoding="utf-8") for path in some(drawings())}


def test_every_drawing_is_on_a_page_and_told_in_words():
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    told: dict[str, list[str]] = {}
    for page in pages:
        for words, name in re.findall(
            r"!\[([^]]*)\]\((?:docs/|\.\./)?images/(\w+)\.svg\)", page.read_text(encoding="utf-8")
        ):
            told.setdefault(name, []).append(words)
    assert set(told) == {path.stem for path in drawings()}
    for words in some([one for several in told.values() for one in several]):
        assert len(words) > 60


def test_drawings_have_titles_both_themes_and_text_as_text():
    for path in some(drawings()):
        text = path.read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        assert root.attrib["aria-label"] == root.findtext(f"{SVG}title")
        assert root.findtext(f"{SVG}desc")
        assert len(root.findall(f"{SVG}text")) > 5
        assert "color-scheme:light dark" in text and "prefers-color-scheme:dark" in text
        assert len(text) < 20_000


def test_the_drawn_figures_are_those_of_readme():
    root = ElementTree.parse(DOCS / "images" / "three_figures.svg").getroot()
    drawn = [e.text or "" for e in root.findall(f"{SVG}text") if e.get("class") == "big"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = re.search(r"!\[(Three measured figures[^]]*)\]", readme)
    assert told is not None and len(drawn) == 3
    numbers = [number for one in drawn for number in re.findall(r"[0-9.]+", one)]
    assert re.findall(r"\d+\.\d+", told[1]) == numbers
