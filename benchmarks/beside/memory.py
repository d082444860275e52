"""memory: how many bytes does a loader need above the data that was loaded before it?

Each measurement is a process of its own: it loads the graph, notes what it holds, runs an epoch
that uses nothing of a batch, and reports the peak above that. PyG and DGL run without workers,
which would each add a process.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .found import Peers
from .graphs import Case
from .loading import FANOUTS, SEEDS, as_data, epochs, our_loader, pyg_loader
from .process import DglProcess
from .rounds import Bar, Cell, Row, Turn, Work, compare

__all__ = ["measure_memory"]


def measure_memory(case: Case, peers: Peers, rounds: int, batches: int) -> list[Row]:
    """A row a system, in MB; the bar is for the graph of a million nodes."""
    seeds = case.seeds(batches, min(SEEDS, case.nodes // (4 * batches)))
    path = case.folder / "seeds_memory.npy"
    np.save(path, np.stack(seeds))
    works = {
        "foregather": in_child("foregather", case, path),
        "foregather, prefetch=0": in_child("lean", case, path),
    }
    if peers.neighbor_loader:
        works["PyG NeighborLoader"] = in_child("pyg", case, path)
    if peers.dgl:
        for system, label in (("dgl", "DGL"), ("gb", "GraphBolt")):
            works[label] = in_dgl(system, case, path)
    bars = [Bar("", 250, "under")]
    return compare(Cell("memory", case.name, "foregather", works, bars, 1e-6, warm=0), rounds)


def in_child(system: str, case: Case, seeds: Path) -> Work:
    """Bytes, in the place of seconds, of a process of ours."""

    def turn(number: int) -> Turn:
        command = [sys.executable, "-m", "beside.memory", system, str(case.folder), str(seeds)]
        done = subprocess.run(
            command, cwd=Path(__file__).parents[1], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return as_turn(json.loads(done.stdout))

    return turn


def in_dgl(system: str, case: Case, seeds: Path) -> Work:
    """The same of a process of DGL."""

    def turn(number: int) -> Turn:
        process = DglProcess(2)
        try:
            process.work(
                "memory", "memory", system=system, ids="int64", workers=0,
                folder=str(case.folder), seeds=str(seeds), fanouts=FANOUTS,
            )  # fmt: skip
            return as_turn(process.ask({"run": "memory", "round": number}))
        finally:
            process.close()

    return turn


def as_turn(said: dict[str, Any]) -> Turn:
    """Bytes of the epoch, not a batch: so one batch is counted, of the mean size."""
    count = said["batches"]
    return Turn(said["bytes"], 1, said["nodes"] // count, said["edges"] // count)


def resident(name: str) -> int:
    """A line of the process's status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"/proc/self/status has no {name}")


def main() -> None:
    """One measurement."""
    system, folder, path = sys.argv[1:]
    torch.set_num_threads(2)
    case, seeds = Case("", Path(folder)), np.load(path)
    nodes, size = torch.from_numpy(seeds.reshape(-1)), seeds.shape[1]
    if system == "pyg":
        data = as_data(case)
        del case.graph
    else:
        case.graph  # noqa: B018 - loads it
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    if system == "pyg":
        loader = pyg_loader(data, FANOUTS, nodes, size, 0)
    else:
        more = {"prefetch": 0} if system == "lean" else {}
        loader = our_loader(case, FANOUTS, nodes, size, **more)
    made = vars(epochs(loader, 2)(0))
    print(json.dumps({**made, "bytes": resident("VmHWM") - before}))


if __name__ == "__main__":
    main()
