"""world: runs a benchmark's own script once a rank, and waits for all; none outlives the call."""

import os
import socket
import subprocess
import sys

from .namespaces import Namespaces

__all__ = ["run_on_loopback", "run_over_links"]

PORT = 29533


def run_on_loopback(script: str, size: int, arguments: list[str], seconds: float = 900) -> None:
    """`size` ranks of a script that talk over the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, script, *arguments]
    _wait(
        [(command, {**shared, "RANK": str(rank)}) for rank in range(size)],
        seconds,
    )


def run_over_links(
    script: str, size: int, rate: str | None, arguments: list[str], seconds: float = 450
) -> None:
    """`size` ranks of a script, each in a network namespace of its own; links of `rate`."""
    with Namespaces(size, rate) as spaces:
        command = [sys.executable, script, *arguments]
        _wait(
            [
                ([*spaces.command(rank), *command], spaces.environment(rank, PORT))
                for rank in range(size)
            ],
            seconds,
        )


def _wait(ranks: list[tuple[list[str], dict[str, str]]], seconds: float) -> None:
    own = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen(command, env={**own, **more}) for command, more in ranks]
    try:
        if any(process.wait(seconds) for process in started):
            raise SystemExit("a rank failed")
    finally:
        for process in started:
            process.kill()
            process.wait()
