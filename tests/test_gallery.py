"""The gallery: its page, its pictures and the script that makes them name the same things."""

import importlib.util
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.some import some

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "docs" / "make_gallery.py"


def load():
    spec = importlib.util.spec_from_file_location("make_gallery", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_pictures_and_script_agree():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^]]{10,}\]\(images/gallery/(\w+)\.svg\)", page)
    script = load()
    assert sorted(shown) == sorted([*script.PICTURES, *script.COMPARED])
    assert {path.stem for path in some(script.OUT.iterdir())} == set(shown)
    told = page.replace("\\\n", " ").split()
    for command in some(script.commands("20k", 6)):
        words = command[command.index("foregather") + 1 :]
        if words[0] != "report":
            assert set(words) <= set(told), "the page names the commands that were run"


def test_pictures_are_drawings_for_light_and_dark_pages():
    for path in some(load().OUT.glob("*.svg")):
        text = path.read_text(encoding="utf-8")
        assert len(text) < 100_000 and ElementTree.fromstring(text).attrib["aria-label"]
        assert (
            "color-scheme:light dark" in text and "(prefers-color-scheme:dark){:root{color" in text
        )


@pytest.mark.slow
def test_the_pictures_can_be_made_anew(tmp_path):
    flags = ["--nodes", "2k", "--epochs", "2", "--out", str(tmp_path)]
    subprocess.run([sys.executable, str(SCRIPT), *flags], check=True, timeout=900)
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {path.name for path in some(load().OUT.iterdir())}
