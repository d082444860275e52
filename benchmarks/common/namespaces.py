"""Network namespaces, one a rank, joined by a bridge; links can be shaped, counted and cut.

Needs root and the `ip` and `tc` commands. Names carry the process id, and everything that was
made is removed at the end.
"""

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Namespaces", "why_not"]

INTERFACE = "fg0"  # inside every namespace


def why_not() -> str | None:
    """Why namespaces cannot be made here; None if they can."""
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"the command {missing[0]} is not there"
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = f"fgp{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if tried.returncode:
        return f"no network namespaces: {tried.stderr.strip()}"
    run("ip", "netns", "del", probe)
    return None


def run(*command: str) -> str:
    """Runs a command; raises if it fails."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Namespaces:
    """`size` namespaces; use in `with`.

    Args:
        size: how many.
        rate: of each link, as `tc` says it ("1gbit", "25mbit"), or None for no limit.
    """

    def __init__(self, size: int, rate: str | None = None) -> None:
        self.size, self.rate = size, rate
        self.tag = f"{os.getpid() % 100000}"
        self.bridge = f"fgb{self.tag}"

    def name(self, rank: int) -> str:
        """Name of a rank's namespace."""
        return f"fgn{self.tag}x{rank}"

    def link(self, rank: int) -> str:
        """The end of a rank's link at the bridge."""
        return f"fgv{self.tag}x{rank}"

    def address(self, rank: int) -> str:
        """Address of a rank."""
        return f"10.77.0.{rank + 1}"

    def __enter__(self) -> "Namespaces":
        try:
            run("ip", "link", "add", self.bridge, "type", "bridge")
            run("ip", "link", "set", self.bridge, "up")
            for rank in range(self.size):
                self._add(rank)
        except BaseException:
            self.remove()
            raise
        return self

    def _add(self, rank: int) -> None:
        space, link = self.name(rank), self.link(rank)
        run("ip", "netns", "add", space)
        run("ip", "link", "add", link, "type", "veth", "peer", INTERFACE, "netns", space)
        run("ip", "link", "set", link, "master", self.bridge, "up")
        inside = ("ip", "-n", space)
        run(*inside, "address", "add", f"{self.address(rank)}/24", "dev", INTERFACE)
        run(*inside, "link", "set", INTERFACE, "up")
        run(*inside, "link", "set", "lo", "up")
        if self.rate is not None:
            shape = ("root", "tbf", "rate", self.rate, "burst", self.burst, "latency", "100ms")
            run("tc", "-n", space, "qdisc", "add", "dev", INTERFACE, *shape)  # what it sends
            run("tc", "qdisc", "add", "dev", link, *shape)  # what it receives

    @property
    def burst(self) -> str:
        """Two milliseconds of the rate: what may pass at once after a pause."""
        assert self.rate is not None
        units = {"gbit": 125_000_000, "mbit": 125_000, "kbit": 125}
        unit = next(name for name in units if self.rate.endswith(name))
        return f"{max(16_384, int(float(self.rate.removesuffix(unit)) * units[unit] * 0.002))}b"

    def command(self, rank: int) -> list[str]:
        """What to put before a command that is to run in a rank's namespace."""
        return ["ip", "netns", "exec", self.name(rank)]

    def environment(self, rank: int, port: int) -> dict[str, str]:
        """What torch.distributed needs to know."""
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(self.size),
            "MASTER_ADDR": self.address(0),
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": INTERFACE,
        }

    def sent(self, rank: int) -> int:
        """Bytes that a rank sent, as the kernel counts them at the other end of its link."""
        return int(Path(f"/sys/class/net/{self.link(rank)}/statistics/rx_bytes").read_text())

    def cut(self, rank: int) -> None:
        """Takes a rank's link away."""
        run("ip", "link", "set", self.link(rank), "down")

    def remove(self) -> None:
        """Removes everything, whatever of it is there."""
        quiet: dict[str, Any] = {"capture_output": True, "check": False}
        for rank in range(self.size):
            subprocess.run(["ip", "link", "del", self.link(rank)], **quiet)
            subprocess.run(["ip", "netns", "del", self.name(rank)], **quiet)
        subprocess.run(["ip", "link", "del", self.bridge], **quiet)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()
