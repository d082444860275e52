"""The portable form of the core, as on systems other than Linux, goes on compiling."""

import shutil
import subprocess
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"
MACRO = "FOREGATHER_PORTABLE"


def sources():
    """Files that the macros of base/platform.hpp tell apart."""
    macros = ("FOREGATHER_LINUX", "FOREGATHER_URING")
    found = [(f, f.read_text("utf-8")) for f in sorted(CSRC.rglob("*.cpp"))]
    return [f for f, text in found if any(macro in text for macro in macros)]


def checked(source, *flags):
    command = ["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{CSRC}"]
    return subprocess.run([*command, *flags, str(source)], capture_output=True, text=True)


def test_what_depends_on_the_platform_compiles_without_linux():
    if shutil.which("c++") is None:
        pytest.skip("no compiler here")
    names = {source.name for source in sources()}
    assert names == {"platform.cpp", "ring.cpp"}
    for source in sources():
        done = checked(source, f"-D{MACRO}")
        assert done.returncode == 0, done.stderr
