"""Worlds of real gloo ranks for tests: forked from one launcher, always ended, output kept."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.processes import free_port, python_path


class Launcher:
    """Use in `with`; leaving kills every rank that still runs."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.dist.launcher"],
            env={
                **os.environ,
                "PYTHONPATH": python_path(),
                "OMP_NUM_THREADS": "1",
                "TORCH_CPP_LOG_LEVEL": "FATAL",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def ask(self, command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class World:
    """`size` ranks that run a task of rank.py; use in `with`, so that none is left behind."""

    def __init__(
        self, launcher, size, task, folder, port=None, of_rank=None, processes=None, **env
    ):
        self.launcher, self.folder = launcher, Path(folder)
        self.command = {
            "start": task,
            "processes": processes or size,
            "folder": str(folder),
            "env": {
                "WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port or free_port()),
                **env,
            },
            "of_rank": of_rank or {},
        }
        self.codes = {}

    def __enter__(self):
        self.pids = self.launcher.ask(self.command)
        return self

    def __exit__(self, *_):
        for rank in self._running():
            self.signal(rank, signal.SIGKILL)
        self.wait(600)

    def _running(self):
        left = [pid for pid in self.pids if pid not in self.codes]
        if left:
            ended = self.launcher.ask({"poll": left})
            self.codes.update({int(pid): code for pid, code in ended.items()})
        return [rank for rank, pid in enumerate(self.pids) if pid not in self.codes]

    def signal(self, rank, number):
        """Sends a signal to a rank that has not ended; until it is polled its id stays its own."""
        assert self.pids[rank] not in self.codes, f"rank {rank} has ended:\n{self.output(rank)}"
        os.kill(self.pids[rank], number)

    def wait(self, seconds, ranks=None):
        """Exit codes by rank; a rank that takes longer fails the test."""
        end = time.monotonic() + seconds
        wanted = set(range(len(self.pids)) if ranks is None else ranks)
        while left := wanted & set(self._running()):
            if time.monotonic() > end:
                raise AssertionError(f"ranks {left} did not end:\n{self.output(min(left))}")
            time.sleep(0.02)
        return [self.codes.get(pid) for pid in self.pids]

    def output(self, rank):
        path = self.folder / f"out{rank}"
        return path.read_text() if path.exists() else ""

    def wait_for(self, text, rank, seconds):
        """Until a rank has printed something."""
        end = time.monotonic() + seconds
        while text not in self.output(rank):
            if time.monotonic() > end:
                raise AssertionError(f"rank {rank} did not print {text!r}:\n{self.output(rank)}")
            time.sleep(0.02)
