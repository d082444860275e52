"""mapped: PyG with its features in a map, in a process whose page cache is as large as our cache.

Its limit is what the process itself holds at most in an epoch, as counted in one without a limit,
plus the bytes that our cache of feature rows has: so both keep the same share of the rows.
"""

import threading
from dataclasses import asdict
from typing import Any

import numpy as np
from common.cgroup import Cgroup

from foregather.units import format_bytes

from .graphs import Case
from .models import Setting, input_nodes
from .process import Process
from .rounds import Work

__all__ = ["MappedPyG"]

VARIANTS = (("normal", 0), ("random", 0), ("random", 2))  # advice to the kernel, and workers


class MappedPyG:
    """PyG's epochs for a with-block.

    Args:
        case: the graph.
        setting: model and batches.
        cache: bytes for feature rows.
    """

    def __init__(self, case: Case, setting: Setting, cache: int) -> None:
        self._group = Cgroup(1 << 40)
        self._case, self._setting, self._cache = case, setting, cache
        self.works: dict[str, Work] = {}
        self.note = ""

    def __enter__(self) -> "MappedPyG":
        self._group.__enter__()
        self._process = Process("mapped_worker", 2, join=self._group.join)
        nodes, size = input_nodes(self._case, self._setting)
        path = self._case.folder / f"seeds_mapped_{size}_{len(nodes)}.npy"
        np.save(path, nodes.numpy())
        given: dict[str, Any] = {
            "setting": asdict(self._setting),
            "folder": str(self._case.folder),
            "name": self._case.name,
            "nodes": str(path),
            "size": size,
        }
        trial = {
            f"{advice} advice, {workers} workers": self._process.work(
                f"trial {advice} {workers}",
                "epoch",
                way="trimmed",
                advice=advice,
                workers=workers,
                **given,
            )
            for advice, workers in VARIANTS
        }
        more = {"way": "plain", "advice": "random", "workers": 0}
        limit = self._limit(self._process.work("largest", "epoch", **more, **given))
        costs = {name: work(0).seconds for name, work in trial.items()}
        best = min(costs, key=lambda name: costs[name])
        advice, workers = dict(zip(costs, VARIANTS, strict=True))[best]
        for way in ("plain", "trimmed"):
            more = {"way": way, "advice": advice, "workers": workers}
            self.works[f"PyG, {way}, map"] = self._process.work(way, "epoch", **more, **given)
        self.note = f"{best}; {limit}"
        return self

    def _limit(self, work: Work) -> str:
        """Sets the limit by what an epoch of the largest model holds; says what it is."""
        if not self._group.works:
            return "the page cache has no limit here: cgroups need root"
        most, ended = 0, threading.Event()

        def watch() -> None:
            nonlocal most
            while not ended.wait(0.02):
                most = max(most, own_bytes(self._group))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            work(0)
        finally:
            ended.set()
            watcher.join()
        limit = int(most * 1.03) + self._cache
        (self._group.folder / "memory.limit_in_bytes").write_text(str(limit))
        return f"limit {format_bytes(limit)}, {format_bytes(self._cache)} of it for pages"

    def __exit__(self, *_: object) -> None:
        self._process.close()
        self._group.__exit__()


def own_bytes(group: Cgroup) -> int:
    """Bytes that the processes of a cgroup hold themselves, without cached pages."""
    text = (group.folder / "memory.stat").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("total_rss "))
