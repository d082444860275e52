"""The stubs of the core are generated, and those checked in are current."""

import subprocess
import sys
from pathlib import Path

import foregather


def test_stubs_are_current(tmp_path):
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-r", "-m", "foregather._core"]
    subprocess.run([*command, "-O", str(tmp_path)], check=True)
    kept, made = Path(foregather.__file__).with_name("_core"), tmp_path / "_core"
    names = sorted(path.name for path in made.iterdir())
    assert names == ["__init__.pyi", "testing.pyi"]
    assert names == sorted(path.name for path in kept.glob("*.pyi"))
    assert not kept.with_suffix(".pyi").exists(), "the stubs are in _core/, written by `make stubs`"
    for name in names:
        text = (kept / name).read_text()
        assert text == (made / name).read_text(), "run `make stubs` and commit the result"


def test_the_library_does_not_use_what_is_for_tests():
    root = Path(foregather.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "_core.testing" not in text and "import testing" not in text, path
