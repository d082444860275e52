"""Training runs in every storage mode under a limit of the kernel: budget and a little beside."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foregather.graph.synthetic import synthesize

CGROUPS = Path("/sys/fs/cgroup/memory")
BUDGET = 120_000_000
BESIDE = 40_000_000  # model, optimiser, checkpoints and the trace

# imports, threads and a first small run come before the limit: they are not covered
CHILD = """
import os, sys
from pathlib import Path
from foregather.cli.main import main
group, folder, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
(group / "cgroup.procs").write_text(str(os.getpid()))

def train(graph, name, *flags):
    small = ["--train.epochs", "1", "--train.batch-size", "200", "--train.threads", "1", "--json"]
    flags = [*small, "--sampler.fanouts", "4", "3", "--model.hidden", "16", *flags]
    return main(["train", "--graph", str(folder / graph), "--run", str(folder / name), *flags])

for storage in ("features", "disk"):
    train("small", f"first-{storage}", "--memory.budget", "60MB", "--memory.storage", storage)
used = int((group / "memory.usage_in_bytes").read_text())
(group / "memory.limit_in_bytes").write_text(str(used + limit))
(group / "memory.memsw.limit_in_bytes").write_text(str(used + limit)) if (
    group / "memory.memsw.limit_in_bytes"
).exists() else None
for storage in sys.argv[5:]:
    code = train("large", storage, "--memory.budget", sys.argv[4], "--memory.storage", storage)
    assert code == 0, storage
print("done")
"""


def run_limited(
    folder: Path, limit: int, budget: str, *modes: str, child: str = CHILD
) -> subprocess.CompletedProcess:
    """Runs a child process in a memory cgroup of its own, which it limits itself."""
    group = CGROUPS / f"foregather-runs-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a memory cgroup (v1, root): {error.strerror}")
    try:
        command = [sys.executable, "-c", child, str(group), str(folder), str(limit), budget, *modes]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, capture_output=True, text=True, env=environment)
    finally:
        group.rmdir()


@pytest.fixture
def folder(tmp_path):
    split = (0.06, 0.02, 0.02)
    synthesize(tmp_path / "small", 1000, degree=4, features=8, classes=4, split=split)
    synthesize(tmp_path / "large", 100_000, degree=6, features=512, classes=4, split=split)
    return tmp_path


@pytest.mark.slow
def test_every_storage_mode_keeps_its_budget(folder):
    modes = ("auto", "features", "disk")  # 205 MB of features do not fit, so auto reads them
    done = run_limited(folder, BUDGET + BESIDE, str(BUDGET), *modes)
    assert done.returncode == 0 and done.stdout.rstrip().endswith("done"), done.stderr[-2000:]
