"""Trains in child processes that are killed at random moments, until one reaches the end.

    python tests/train/killed.py SEED KILLS FOLDER...

Children are forked from a process that has imported torch but never used it, so each costs
milliseconds and not seconds. FOLDER/config.toml says what to train; FOLDER/a is a run that is left
alone and tells how long one takes, FOLDER/b the one that is killed. Prints kills and resumes.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # what the first optimiser would import

from foregather.cli.main import main


def child(config: str, run: Path) -> None:
    torch.set_num_threads(1)
    resume = run.exists()
    arguments = ["--resume", str(run)] if resume else [config, "--run", str(run)]
    os._exit(main(["train", *arguments, "--json"]))


def start(config: str, run: Path) -> int:
    process = os.fork()
    if process == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        child(config, run)
    return process


def drive(folder: Path, seed: int, most: int) -> None:
    config = str(folder / "config.toml")
    began = time.monotonic()
    os.waitpid(start(config, folder / "a"), 0)
    whole = time.monotonic() - began
    moments, run = random.Random(seed), folder / "b"
    kills = resumes = 0
    while True:
        resumes += run.exists()
        process = start(config, run)
        if kills < most:
            end = time.monotonic() + 60
            while kills % 2 and not run.exists() and time.monotonic() < end:
                time.sleep(0.001)  # every other kill finds something to resume
            reach = 0.1 if kills < 2 else 0.4  # two kills at least, however the load changes
            time.sleep(moments.uniform(0.0, reach * whole))
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            kills += 1
            continue
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"the training failed after {kills} kills")
        print(kills, resumes)
        return


if __name__ == "__main__":
    for name in sys.argv[3:]:
        drive(Path(name), int(sys.argv[1]), int(sys.argv[2]))
