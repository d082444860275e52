"""process: a system in a process of its own, which waits while others take their turns."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .rounds import Turn, Work

__all__ = ["PYTHON", "DglProcess", "EndedError", "Process", "why_no_dgl"]

PYTHON = "FOREGATHER_DGL_PYTHON"


def why_no_dgl() -> str | None:
    """What to do so that DGL can be measured; None if it can."""
    python = os.environ.get(PYTHON)
    if not python:
        return (
            f"DGL and GraphBolt: set {PYTHON} to the interpreter of an environment with dgl 2.1, "
            "torch 2.2.1, torchdata 0.7.1 and numpy below 2 (all from pip)"
        )
    try:
        tried = subprocess.run(
            [python, "-c", "import dgl.graphbolt"], capture_output=True, text=True
        )
    except OSError as error:
        return f"DGL and GraphBolt: {PYTHON} cannot be started ({error.strerror})"
    if tried.returncode:
        last = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"DGL and GraphBolt: the interpreter {PYTHON} names cannot import them ({last})"
    return None


class EndedError(RuntimeError):
    """A process ended before it answered."""


class Process:
    """A worker that answers a line of JSON with another.

    Args:
        script: the program, a module beside this one.
        threads: of OpenMP and torch in it.
        python: its interpreter; ours unless given.
        join: called in the process before it runs.
    """

    def __init__(
        self,
        script: str,
        threads: int,
        python: str | None = None,
        join: Callable[[], None] | None = None,
    ) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        if python is not None:
            environment.pop("PYTHONPATH", None)  # made for this interpreter, not for that one
            environment["DGLBACKEND"] = "pytorch"  # or it writes a file into the home folder
        self._process = subprocess.Popen(
            [python or sys.executable, "-m", f"beside.{script}", str(threads)],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            preexec_fn=join,
        )
        self.version = str(self._hear().get("version", ""))

    def work(self, name: str, kind: str, /, **given: object) -> Work:
        """Prepares some work; the function does it once and says what it took."""
        self.ask({"make": name, "kind": kind, **given})

        def turn(number: int) -> Turn:
            said = self.ask({"run": name, "round": number})
            sizes = (said["batches"], said["nodes"], said["edges"])
            return Turn(said["seconds"], *sizes, said.get("loss"))

        return turn

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Sends a message and waits for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        said = self._hear()
        if "error" in said:
            raise RuntimeError(f"a process could not do {message}: {said['error']}")
        return said

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EndedError(f"a process of a peer ended with code {self._process.wait()}")
        said: dict[str, Any] = json.loads(line)
        return said

    def drop(self) -> None:
        """Frees its graphs."""
        self.ask({"drop": True})

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()  # its own workers end with it
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class DglProcess(Process):
    """DGL and GraphBolt, in their own interpreter."""

    def __init__(self, threads: int) -> None:
        super().__init__("dgl_worker", threads, os.environ[PYTHON])
