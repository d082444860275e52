"""The end of the process while batches are being made: quiet, with the exit code of the program."""

import subprocess
import sys

import pytest

from foregather.graph.synthetic import synthesize

CHILD = """
import sys, threading, time
from foregather import Graph, Loader
options = {} if sys.argv[2] == "memory" else {"memory": "80MB", "storage": sys.argv[2]}
loader = Loader(
    Graph.open(sys.argv[1]), [10, 10], None, 512, shuffle=True, pyg=False, bulk=4, **options
)
ready = threading.Event()
def work():
    while True:
        for number, _ in enumerate(loader):
            if number == 2: ready.set()
threading.Thread(target=work, daemon=True).start()
ready.wait()
time.sleep(float(sys.argv[3]))
"""

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


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_a_loader_in_a_daemon_thread(folder, storage):
    done = run(CHILD, folder, storage, 0.2)
    assert done.returncode == 0, done.stderr
    assert "terminate" not in done.stderr and "nanobind" not in done.stderr


def test_kernels_in_daemon_threads(folder):
    done = run(KERNELS, folder, "", 0.3)
    assert done.returncode == 0, done.stderr
    assert "terminate" not in done.stderr
