"""mapped: PyG with its features in a map, in a process whose page cache is as large as our cache.

Its limit is what the process itself holds at most in an epoch, as counted in one without a limit,
plus the bytes that our cache of feature rows has: so both keep the same share of the rows. While
it holds less than at most, more pages fit: the limit favours PyG. Where the kernel ends it all the
same, it gets 64 MiB more and begins anew.
"""

import os
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from common.cgroup import Cgroup

from foregather.units import format_bytes

from .graphs import Case
from .models import Setting, input_nodes
from .process import EndedError, Process
from .rounds import Work

__all__ = ["MappedPyG"]

LIMIT, UNLIMITED = "memory.limit_in_bytes", 1 << 40
WAYS = ("plain", "trimmed")
RESERVE = 16 << 20  # what a watcher that looks every 5 ms may miss
MORE = 64 << 20  # given in addition, as often as the kernel ends the process for its limit
TRIES = 6
TRIED = 2  # batches by which the way to read is chosen
VARIANTS = (("normal", 0), ("random", 0), ("random", 2))  # advice to the kernel, and workers


class MappedPyG:
    """PyG's epochs for a with-block.

    Args:
        case: the graph.
        setting: model and batches.
        cache: bytes for feature rows.
    """

    def __init__(self, case: Case, setting: Setting, cache: int) -> None:
        self._group = Cgroup(UNLIMITED)
        self._case, self._setting, self._cache = case, setting, cache
        self._reserve = RESERVE
        self.works: dict[str, Work] = {}
        self.note = ""

    def __enter__(self) -> "MappedPyG":
        forget(self._case.folder / "x.npy")
        self._group.__enter__()
        try:
            for tried in range(TRIES):
                self._start()
                try:
                    self._prepare()
                    break
                except EndedError:
                    if tried + 1 == TRIES:
                        raise
                    self._reserve += MORE
                    self._process.close()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        """A process without a limit so far."""
        if self._group.works:
            (self._group.folder / LIMIT).write_text(str(UNLIMITED))
        self._process = Process("mapped_worker", 2, join=self._group.join)

    def _prepare(self) -> None:
        """Sets the limit, finds the best way to read, and makes the works."""
        nodes, size = input_nodes(self._case, self._setting)
        held = self._limit([self._work(way, *VARIANTS[0], nodes, size) for way in WAYS])
        some = nodes[: TRIED * size]
        trial = {
            f"{advice} advice, {workers} workers": self._work(
                "trimmed", advice, workers, some, size
            )
            for advice, workers in VARIANTS
        }
        costs = {name: work(0).seconds for name, work in trial.items()}
        best = min(costs, key=lambda name: costs[name])
        advice, workers = dict(zip(costs, VARIANTS, strict=True))[best]
        made = {way: self._work(way, advice, workers, nodes, size) for way in WAYS}
        for work in made.values():  # does the limit hold them?
            work(0)
        self.works = {f"PyG, {way}, map": work for way, work in made.items()}
        self.note = f"{best}; {held}"

    def _work(self, way: str, advice: str, workers: int, nodes: Any, size: int) -> Work:
        """Epochs of a model over input nodes, by one way of reading."""
        path = self._case.folder / f"seeds_mapped_{size}_{len(nodes)}.npy"
        np.save(path, nodes.numpy())
        return self._process.work(
            f"{way} {advice} {workers} {len(nodes)}",
            "epoch",
            way=way,
            advice=advice,
            workers=workers,
            setting=asdict(self._setting),
            folder=str(self._case.folder),
            name=self._case.name,
            nodes=str(path),
            size=size,
        )

    def _limit(self, works: list[Work]) -> str:
        """Sets the limit by the most that an epoch of any of them holds; says what it is."""
        if not self._group.works:
            return "the page cache has no limit here: cgroups need root"
        most, ended = 0, threading.Event()

        def watch() -> None:
            nonlocal most
            while not ended.wait(0.005):
                most = max(most, own_bytes(self._group))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for work in works:
                work(0)
        finally:
            ended.set()
            watcher.join()
        limit = int(most * 1.03) + self._reserve + self._cache
        (self._group.folder / LIMIT).write_text(str(limit))
        return f"limit {format_bytes(limit)}, of it {format_bytes(limit - most)} above its own most"

    def __exit__(self, *_: object) -> None:
        self._process.close()
        ends = time.monotonic() + 20
        while self._group.works and time.monotonic() < ends:  # its workers end a little later
            if not (self._group.folder / "cgroup.procs").read_text():
                break
            time.sleep(0.05)
        self._group.__exit__()


def forget(path: Path) -> None:
    """Drops a file's pages, which are counted where they were first read or written: here."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def own_bytes(group: Cgroup) -> int:
    """Bytes that the processes of a cgroup need, their workers' included: all but pages of files.

    Batches from workers are in shared memory, which the kernel counts as cache as well.
    """
    text = (group.folder / "memory.stat").read_text()
    told = dict(line.split() for line in text.splitlines())
    used = group.read("memory.usage_in_bytes") or 0
    return used - int(told["total_cache"]) + int(told["total_shmem"])
