"""Exact inference and evaluation of a graph with a hub, under a limit of the kernel."""

import numpy as np
import pytest

from foregather import Graph
from tests.loader.memory.test_limited import run_limited

NODES, WIDTH, DEGREE = 16_000, 500, 8_000  # 32 MB of rows; those of the hub are 16 MB
BUDGET = 30_000_000
BESIDE = 12_000_000  # the model, and rows on their way to the file

# imports and a first small sweep come before the limit: they are not covered
CHILD = """
import os, sys
from pathlib import Path
import numpy as np
import torch
from foregather import Graph, infer
from foregather.nn import SAGE
group, folder, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
(group / "cgroup.procs").write_text(str(os.getpid()))

def model(kind, width):
    torch.manual_seed(0)
    if kind == "SAGE":
        return SAGE([width, 16, 4])
    from torch_geometric import nn
    return getattr(nn, kind)(width, 16, 2, 4)

def compute(kind, graph, width, budget):
    out = folder / f"{graph}-{kind}.npy"
    options = {"storage": "disk", "threads": 1}
    return infer(model(kind, width), Graph.open(folder / graph), out, memory=budget, **options)

for kind in sys.argv[5:]:
    compute(kind, "small", 8, "30MB")
used = int((group / "memory.usage_in_bytes").read_text())
(group / "memory.limit_in_bytes").write_text(str(used + limit))
for kind in sys.argv[5:]:
    assert compute(kind, "large", 500, sys.argv[4])["bytes"] > 0
print("done", int((group / "memory.max_usage_in_bytes").read_text()) - used)
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 8)).astype(np.float32)
    Graph.from_edge_index(rng.integers(0, 200, (2, 900)), 200, x=x).save(tmp_path / "small")
    hub = np.stack([rng.choice(NODES, DEGREE, replace=False), np.full(DEGREE, 17)])
    pairs = np.concatenate([rng.integers(0, NODES, (2, 40_000)), hub], axis=1)
    x = rng.normal(size=(NODES, WIDTH)).astype(np.float32)
    Graph.from_edge_index(pairs, NODES, x=x).save(tmp_path / "large")
    return tmp_path


@pytest.mark.slow
def test_a_hub_is_inferred_within_the_budget(folder):
    pytest.importorskip("torch_geometric")
    kinds = ("SAGE", "GAT", "GCN")
    done = run_limited(folder, BUDGET + BESIDE, str(BUDGET), *kinds, child=CHILD)
    assert done.returncode == 0 and "done" in done.stdout, done.stderr[-2000:]
    for kind in kinds:
        assert np.load(folder / f"large-{kind}.npy").shape == (NODES, 4)
