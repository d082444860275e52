"""What processes that tests start need: where `tests` is, and a port that is free."""

import os
import socket
from pathlib import Path

ROOT = Path(__file__).parents[1]


def python_path() -> str:
    """PYTHONPATH by which a process finds `tests`, and all that this process was told to look in.

    What was there stays: a copy of the project leads its processes to its own core by it.
    """
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([str(ROOT), *(place for place in given if place not in ("", str(ROOT)))])


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
