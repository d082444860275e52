"""Memory that is freed stays with the process, where it may: large tensors come from the heap."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foregather.graph.synthetic import synthesize

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")

WHERE = """
import re, sys, torch
def in_heap():
    made = torch.empty(64 << 20, dtype=torch.uint8)
    for line in open("/proc/self/maps"):
        if line.rstrip().endswith("[heap]"):
            first, last = (int(part, 16) for part in line.split()[0].split("-"))
            return first <= made.data_ptr() < last
    return False
"""
KEPT = "import foregather\nprint(foregather.keep_freed_memory(), in_heap())"
TRAINED = """
from foregather.cli.main import main
assert main(["train", "--graph", sys.argv[1], "--run", sys.argv[2], "--train.epochs", "1",
             *sys.argv[3:]]) == 0
print(in_heap())
"""


def last_line(code: str, *arguments: str, **env: str) -> str:
    """What a new process prints last."""
    own = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    done = subprocess.run(
        [sys.executable, "-c", WHERE + code, *arguments],
        env=clean | env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_large_tensors_come_from_the_heap() -> None:
    assert last_line("print(in_heap())") == "False"
    assert last_line(KEPT) == "True True"


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD"])
def test_the_users_own_choice_wins(name: str) -> None:
    value = {"MALLOC_ARENA_MAX": "1"}.get(name, "")
    assert last_line(KEPT, **{name: value}) == "False False"


def test_a_run_keeps_memory_unless_it_has_a_budget(tmp_path: Path) -> None:
    synthesize(str(tmp_path / "graph"), 300, degree=4, features=8, classes=3)
    names = [str(tmp_path / name) for name in ("graph", "one", "two")]
    assert last_line(TRAINED, names[0], names[1]) == "True"
    assert last_line(TRAINED, names[0], names[2], "--memory.budget", "500MB") == "False"
