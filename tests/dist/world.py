"""Worlds of real gloo ranks for tests: forked from one launcher, always ended, output kept."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.processes import free_port, python_path


class Launcher:
    """Use in `with`; leaving kills every rank that still runs."""

    def __enter__(self) -> "Launcher":
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
        assert self.process.stdin is not None and self.process.stdout is not None
        self._commands, self._answers = self.process.stdin, self.process.stdout
        assert self._answers.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._commands.close()
        self._answers.close()

    def ask(self, command: dict[str, Any]) -> Any:
        self._commands.write(json.dumps(command) + "\n")
        self._commands.flush()
        return json.loads(self._answers.readline())


class World:
    """`size` ranks that run a task of rank.py; use in `with`, so that none is left behind."""

    def __init__(
        self,
        launcher: Launcher,
        size: int,
        task: str,
        folder: str | Path,
        port: int | None = None,
        of_rank: dict[str, dict[str, str]] | None = None,
        processes: int | None = None,
        **env: str,
    ) -> None:
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
        self.codes: dict[int, int] = {}

    def __enter__(self) -> "World":
        self.pids: list[int] = self.launcher.ask(self.command)
        return self

    def __exit__(self, *_: object) -> None:
        for rank in self._running():
            self.signal(rank, signal.SIGKILL)
        self.wait(600)

    def _running(self) -> list[int]:
        left = [pid for pid in self.pids if pid not in self.codes]
        if left:
            ended = self.launcher.ask({"poll": left})
            self.codes.update({int(pid): code for pid, code in ended.items()})
        return [rank for rank, pid in enumerate(self.pids) if pid not in self.codes]

    def signal(self, rank: int, number: int) -> None:
        """Sends a signal to a rank that has not ended; until it is polled its id stays its own."""
        assert self.pids[rank] not in self.codes, f"rank {rank} has ended:\n{self.output(rank)}"
        os.kill(self.pids[rank], number)

    def wait(self, seconds: float, ranks: Iterable[int] | None = None) -> list[int | None]:
        """Exit codes by rank; a rank that takes longer fails the test."""
        end = time.monotonic() + seconds
        wanted = set(range(len(self.pids)) if ranks is None else ranks)
        while left := wanted & set(self._running()):
            if time.monotonic() > end:
                raise AssertionError(f"ranks {left} did not end:\n{self.output(min(left))}")
            time.sleep(0.02)
        return [self.codes.get(pid) for pid in self.pids]

    def output(self, rank: int) -> str:
        path = self.folder / f"out{rank}"
        return path.read_text() if path.exists() else ""

    def wait_for(self, text: str, rank: int, seconds: float) -> None:
        """Until a rank has printed something."""
        end = time.monotonic() + seconds
        while text not in self.output(rank):
            if time.monotonic() > end:
                raise AssertionError(f"rank {rank} did not print {text!r}:\n{self.output(rank)}")
            time.sleep(0.02)
