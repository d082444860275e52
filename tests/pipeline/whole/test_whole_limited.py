"""A budget of full-graph training and evaluation is kept under a limit; a kill leaves nothing."""

import signal
import subprocess
import sys
import time

import pytest

from foregather.graph.synthetic import synthesize
from tests.loader.memory.test_limited import run_limited

# imports and the graph come before the limit; the budget counts them, so the limit is the budget
CHILD = """
import os, sys
from pathlib import Path
import torch
from foregather import Graph
from foregather.errors import BudgetError
from foregather.nn import resgcn_layers
from foregather.pipeline import FullGraph, Runtime
group, folder, limited, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.manual_seed(0)
(group / "cgroup.procs").write_text(str(os.getpid()))
layers = resgcn_layers(16, 64, 4, 24, dropout=0.0)
graph = Graph.open(folder / "graph")

def made(**options):
    return FullGraph(graph, layers, 32, partition="natural", runtime=Runtime(**options))

try:
    made(memory="1MB", scratch=folder)
except BudgetError as error:
    budget = error.least + {"disk": 24 << 20, "again": 140 << 20}.get(kind, 0)
(group / "memory.limit_in_bytes").write_text(str(budget))
run = made() if kind == "plain" else made(memory=budget, scratch=folder)
print(run.engine.whole.explain(), flush=True)
run.fit(1)
run.evaluate("valid")
print("loss", run.fit(1)[-1].loss, int((group / "memory.failcnt").read_text()))
"""

KILLED = """
import sys
from foregather import Graph
from foregather.nn import resgcn_layers
from foregather.pipeline import FullGraph, Runtime
graph = Graph.open(sys.argv[1] + "/graph")
run = FullGraph(graph, resgcn_layers(16, 64, 4, 8, dropout=0.0), 8, partition="natural",
                runtime=Runtime(recompute="disk", scratch=sys.argv[2]))
print("begun", flush=True)
run.fit(1000)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("limited")
    synthesize(path / "graph", 20_000, degree=8, features=16, classes=4)
    return path


@pytest.mark.slow
def test_a_budget_is_kept_where_plain_training_is_killed(folder):
    """Rows of a layer are 5 MB; 24 layers keep 370 MB, the minimum is about 50 MB."""
    losses = {}
    for kind, said in (("disk", "in a file"), ("again", "run again")):
        done = run_limited(folder, 0, kind, child=CHILD)
        assert done.returncode == 0, (kind, done.stdout, done.stderr[-2000:])
        assert said in done.stdout
        losses[kind] = float(done.stdout.split("loss")[1].split()[0])
    assert losses["disk"] == pytest.approx(losses["again"], rel=1e-5)
    assert run_limited(folder, 0, "plain", child=CHILD).returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_kill_leaves_no_file(folder, tmp_path):
    command = [sys.executable, "-c", KILLED, str(folder), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        time.sleep(1)
        child.kill()
    assert list(tmp_path.iterdir()) == []
