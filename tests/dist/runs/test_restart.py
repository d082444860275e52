"""torchrun --max-restarts: a run in which a rank was killed reaches the weights of another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.dist.world import World

SCRIPT = Path(__file__).parents[1] / "restarting.py"


def torchrun(folder, victim):
    options = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    command = [sys.executable, "-m", "torch.distributed.run", *options]
    kept = {name: value for name, value in os.environ.items() if name != "FOREGATHER_DATA"}
    return subprocess.run(
        [*command, str(SCRIPT), str(folder), victim],
        env={**kept, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.slow
def test_a_restarted_run_reaches_the_same_weights(launcher, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    ended = torchrun(broken, "1")
    assert ended.returncode == 0, ended.stderr
    assert (broken / "died").exists() and not list(broken.glob("*.part"))
    with World(launcher, 2, "undisturbed", whole, FOREGATHER_DATA="") as world:
        assert world.wait(600) == [0, 0], world.output(0) + world.output(1)
        assert world.output(0) == ended.stdout and "LADIES  test accuracy" in ended.stdout
    for number in (0, 1):
        first, second = (
            torch.load(folder / f"model{number}.pt", weights_only=True)
            for folder in (whole, broken)
        )
        assert all(torch.equal(first[key], second[key]) for key in first)
