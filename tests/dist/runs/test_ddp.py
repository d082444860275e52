"""A program of one's own with DDP: whoever goes, at whatever moment, the others name it and end.

By hand, all moments, victims and ways: python -m tests.dist.runs.test_ddp
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from itertools import product

import pytest

from tests.dist import ddp_program
from tests.dist.world import Launcher, World
from tests.processes import ROOT

RANKS, END = 3, 600
#: (moment, victim, way, form of the program)
EVERY = [
    case
    for case in product(ddp_program.MOMENTS, range(RANKS), ddp_program.WAYS, ("with", "plain"))
    if case[2] != "exit" or case[0] not in ("exchange", "feed", "backward")  # not in threads
]
TELLING = [
    ("start", 0, "kill", "plain"),
    ("start", 2, "raise", "with"),
    ("grid", 1, "quit", "plain"),
    ("model", 0, "exit", "plain"),
    ("exchange", 2, "raise", "plain"),
    ("feed", 1, "kill", "with"),
    ("backward", 0, "kill", "plain"),
    ("backward", 1, "kill", "plain"),
    ("backward", 2, "kill", "with"),
    ("between", 1, "exit", "with"),
    ("epoch", 1, "kill", "plain"),
    ("end", 0, "raise", "with"),
]


def world_of(launcher, folder, case, **env):
    moment, victim, way, form = case
    of_rank = {
        str(rank): {"TORCHELASTIC_ERROR_FILE": f"{folder}/error{rank}.json"}
        for rank in range(RANKS)
    }
    env |= {"TEST_MOMENT": moment, "TEST_VICTIM": str(victim), "TEST_WAY": way, "TEST_FORM": form}
    env.setdefault("TEST_TIMEOUT", "25")
    return World(launcher, RANKS, "program", folder, of_rank=of_rank, **env)


def wrong(world, case):
    """What is wrong with the last words of the survivors; empty if nothing is."""
    _, victim, way, _ = case
    codes, found = world.wait(END), []
    if codes[victim] != {"kill": -9, "raise": 1, "exit": 3, "quit": 4}[way]:
        found.append(f"the victim ended with {codes[victim]}: {world.output(victim)}")
    for rank in (rank for rank in range(RANKS) if rank != victim):
        last = (world.output(rank).strip().splitlines() or [""])[-1]
        said = last.partition("RankError: ")[2].partition(" gives up: ")
        sentence = said[2] or said[0]
        path = world.folder / f"error{rank}.json"
        told = json.loads(path.read_text())["message"]["message"] if path.exists() else "no file"
        named = re.match(rf"(rank \d did not meet )?rank {victim}\b", sentence) is not None
        if codes[rank] != 1 or not named or told.partition(": ")[2] not in last:
            found.append(f"rank {rank} ended with {codes[rank]}: {last} (error file: {told})")
        if way == "raise" and case[0] != "start" and "the data of this rank are bad" not in last:
            found.append(f"rank {rank} does not say why: {last}")
    return found


@pytest.fixture(scope="module")
def worlds(launcher, tmp_path_factory):
    with ExitStack() as stack:
        yield {
            case: stack.enter_context(world_of(launcher, tmp_path_factory.mktemp("ddp"), case))
            for case in TELLING
        }


@pytest.mark.slow
@pytest.mark.parametrize("case", TELLING, ids=lambda case: " ".join(map(str, case)))
def test_the_rank_that_is_gone_is_named_by_all_others(worlds, case):
    assert wrong(worlds[case], case) == []


def test_also_where_the_program_starts_torch_itself(launcher, tmp_path):
    case = ("backward", 1, "kill", "plain")
    with world_of(launcher, tmp_path, case, TEST_INIT="own") as world:
        assert wrong(world, case) == []


@pytest.mark.slow
def test_the_error_reaches_torchrun(tmp_path):
    """Real processes, to the end of their interpreters."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TEST_TIMEOUT": "200"}
    env |= {"TEST_MOMENT": "between", "TEST_VICTIM": "1", "TEST_WAY": "raise", "TEST_FORM": "plain"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", "-m", ddp_program.__name__],
        env=env, cwd=ROOT, capture_output=True, text=True, timeout=END,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    summary = done.stderr[done.stderr.index("Root Cause") :]
    assert "rank      : 1" in summary and "ValueError: the data of this rank are bad" in summary
    assert "terminate called" not in done.stderr


def main():
    """Tries everything, and says how often the dead rank was named."""
    named = 0
    with Launcher() as launcher:
        for case in EVERY:
            with (
                tempfile.TemporaryDirectory() as folder,
                world_of(launcher, folder, case, TEST_TIMEOUT="15") as world,
            ):
                found = wrong(world, case)
            named += not found
            print("ok " if not found else "BAD", *case, *found, flush=True)
    print(f"{named} of {len(EVERY)} tries named the rank that was gone")


if __name__ == "__main__":
    main()
