"""The end of the process while batches are being made: quiet, with the exit code of the program."""

import subprocess
import sys
from pathlib import Path

import pytest

from foregather.graph.synthetic import synthesize
from tests.ends import end_of_one

# Daemon threads inside a kernel at every moment of the end, without a loader that could stop them.
KERNELS = """
import sys, threading, time
import numpy as np
from foregather import Graph, _core
from foregather.sampling import Neighbor
graph = Graph.open(sys.argv[1])
seeds = [np.arange(2000 * k, 2000 * k + 2000) for k in range(8)]
def work():
    while True:
        Neighbor([10, 10]).sample_bulk(graph, seeds)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("exit") / "g"
    synthesize(path, 20_000, degree=8, features=96, classes=5, seed=3)
    return path


def run(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["memory", "features", "disk"])
def test_a_loader_in_a_daemon_thread(folder, storage):
    """Its body is in torch, which aborts there by itself: 12 of 12 processes without a loader."""
    assert end_of_one(folder, storage, 0.02) == ""


def test_kernels_in_daemon_threads(folder):
    done = run(KERNELS, folder, "", 0.3)
    assert done.returncode == 0, done.stderr
    assert "terminate" not in done.stderr


def test_bindings_ask_for_the_lock_in_a_way_that_survives_the_end():
    """`nb::gil_scoped_release` would abort where the interpreter ends the thread; see gil.hpp."""
    folder = Path(__file__).parents[2] / "csrc" / "python"
    sources = [*folder.rglob("*.cpp"), *folder.rglob("*.hpp")]
    assert len(sources) > 10
    used = [f.name for f in sources if "nb::gil_scoped" in _code(f) or "call_guard<nb" in _code(f)]
    assert used == []


def _code(file):
    return "\n".join(line.split("//")[0] for line in file.read_text().splitlines())


# A list of leaks would name a loader that something else still holds, as a traceback may.
HELD = """
import ctypes, sys
from foregather import Graph, Loader, _core
if sys.argv[2] == "list":
    _core.testing.list_leaks()
loader = Loader(Graph.open(sys.argv[1]), [5, 5], "train", batch_size=64)
if sys.argv[3] == "held":
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loader))
for batch in loader:
    if sys.argv[3] != "all":
        raise KeyboardInterrupt
"""


@pytest.mark.parametrize("how", ["all", "interrupted"])
def test_nothing_is_held_after_the_end(folder, how):
    """The bindings make no cycle of references that would keep what they made."""
    done = run(HELD, folder, "list", how)
    assert (how == "all") == (done.returncode == 0), done.stderr
    assert "leaked" not in done.stderr


def test_what_is_held_is_listed_to_those_who_ask(folder):
    """After an interrupt, a user sees the traceback and no list of names of the bindings."""
    asked, silent = run(HELD, folder, "list", "held"), run(HELD, folder, "", "held")
    assert "nanobind: leaked" in asked.stderr
    assert "nanobind" not in silent.stderr
    assert "KeyboardInterrupt" in asked.stderr and "KeyboardInterrupt" in silent.stderr
