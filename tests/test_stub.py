"""The stub of the core is generated, and the one checked in is current."""

import subprocess
import sys
from pathlib import Path

import foregather


def test_stub_is_current(tmp_path):
    made = tmp_path / "_core.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "foregather._core"]
    subprocess.run([*command, "-o", str(made)], check=True)
    kept = Path(foregather.__file__).with_name("_core.pyi")
    assert kept.read_text() == made.read_text(), "run `make stubs` and commit the result"
