"""A disk that the kernel holds to 500 reads per second: a warning, and the same weights."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from foregather.graph.synthetic import synthesize

CGROUPS = Path("/sys/fs/cgroup/blkio")
READS = 500  # per second

CHILD = """
import os, sys
from pathlib import Path
from foregather.cli.main import main
from foregather.loader.disk import out_of_core

out_of_core._SLOW = 0.5  # seconds of waiting; else the test would have to wait for ten
folder, run, group = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if group:
    Path(group, "cgroup.procs").write_text(str(os.getpid()))
sizes = ["--train.epochs", "2", "--train.batch-size", "100", "--train.threads", "1"]
model = ["--sampler.fanouts", "3", "2", "--model.hidden", "8", "--train.final", "sampled"]
memory = ["--memory.budget", "40MB", "--memory.storage", "features"]
sys.exit(main(["train", "--graph", str(folder / "g"), "--run", run, *sizes, *model, *memory]))
"""


@pytest.fixture
def group(tmp_path):
    """A cgroup whose processes read the disk of the test's folder slowly."""
    device = os.stat(tmp_path).st_dev
    made = CGROUPS / f"foregather-slow-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a blkio cgroup (v1, root): {error.strerror}")
    try:
        limit = f"{os.major(device)}:{os.minor(device)} {READS}"
        (made / "blkio.throttle.read_iops_device").write_text(limit)
        yield made
    except OSError as error:
        pytest.skip(f"the disk of the test's folder cannot be throttled: {error.strerror}")
    finally:
        made.rmdir()


def train(folder: Path, name: str, group: str) -> tuple[str, dict[str, torch.Tensor]]:
    """What a run said, and its weights."""
    command = [sys.executable, "-c", CHILD, str(folder), str(folder / name), group]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "FOREGATHER_CACHE": str(folder / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr, load_file(folder / name / "model.safetensors")


@pytest.mark.slow
def test_a_throttled_disk_is_named_and_changes_nothing(tmp_path, group):
    synthesize(tmp_path / "g", 20_000, degree=8, features=512, classes=5, seed=3)
    free, weights = train(tmp_path, "free", "")
    said, slow = train(tmp_path, "slow", str(group))
    found = re.search(r"warning: the disk did ([\d,]+) reads/s", said)
    assert found and float(found[1].replace(",", "")) <= 1.2 * READS, said
    assert "foregather doctor" in said
    assert slow.keys() == weights.keys()
    assert all(torch.equal(slow[name], weights[name]) for name in slow), free
