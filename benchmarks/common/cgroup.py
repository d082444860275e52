"""Cgroup: runs a child under a memory limit (cgroup v1, root); says so where it cannot."""

import os
from pathlib import Path

__all__ = ["Cgroup"]

CGROUPS = Path("/sys/fs/cgroup/memory")


class Cgroup:
    """A memory cgroup (v1) that lasts for a with-block; does nothing where it is not allowed."""

    def __init__(self, limit: int) -> None:
        self.folder = CGROUPS / f"foregather-{os.getpid()}"
        self.limit = limit
        self.works = False

    def __enter__(self) -> "Cgroup":
        try:
            self.folder.mkdir()
            (self.folder / "memory.limit_in_bytes").write_text(str(self.limit))
            self.works = True
        except OSError:
            pass
        return self

    def __exit__(self, *_: object) -> None:
        if self.works:
            self.folder.rmdir()

    def join(self) -> None:
        """Called in the child before it runs."""
        if self.works:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def read(self, name: str) -> int | None:
        """A counter of the cgroup, or None where there is none."""
        return int((self.folder / name).read_text()) if self.works else None
