"""What does a folder behind PyG's own NodeLoader cost, beside features in memory and in a map?

PyG's `NodeLoader` with the same sampler of ours, the same input nodes, fan-outs and batch size;
only where the rows are differs: a tensor in memory, `numpy.memmap` as PyG's documentation advises
(with and without the kernel's advice for random reads), and `OnDisk`, whose plan acts through the
stores. Each is a process of its own. Those that read from disk run under one limit of memory (a
cgroup, which counts the page cache too): `OnDisk` has a budget below it, a map all that is left.
Seconds are per batch, without a model: the time that a training loop would wait at most. Bytes are
what the process had the disk read. Rounds take turns; the page cache is dropped before each.

    python benchmarks/pyg_backend.py [--quick] [--folder DIR] [--rounds 3]
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from common.cgroup import Cgroup
from common.report import Report, median_spread
from common.skip import need_disk, skip
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader

from foregather import Graph
from foregather.gather.feature_file import FeatureFile
from foregather.graph.synthetic import synthesize
from foregather.interop.pyg import OnDisk, PygSampler
from foregather.sampling import Neighbor
from foregather.units import format_bytes

FANOUTS, SEEDS, COLUMNS = [10, 5], 1024, 128
DROP = "/proc/sys/vm/drop_caches"
WAYS = ("tensor in memory", "memory map", "memory map, random advice", "OnDisk")


def disk_reads() -> int:
    """Bytes that this process had the disk read so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["read_bytes"])


def loader_of(way: str, graph: Graph, memory: int) -> NodeLoader:
    """PyG's NodeLoader with the rows in one of the places."""
    if way == "OnDisk":
        options = {"shuffle": True, "memory": memory, "storage": "features"}
        return NodeLoader(**OnDisk(graph, FANOUTS, "train", SEEDS, **options).arguments)
    indptr, indices = np.array(graph.indptr), np.array(graph.indices)
    held = Graph(graph.num_nodes, graph.num_edges, indptr, indices)
    if way == "tensor in memory":
        x = torch.from_numpy(np.array(graph.features.data))
    else:
        x = np.load(FeatureFile.of(graph).path, mmap_mode="r")
        if "random" in way:
            x._mmap.madvise(1)  # MADV_RANDOM
    data = Data(
        x=x, num_nodes=graph.num_nodes, y=torch.from_numpy(np.array(graph.labels, np.int64))
    )
    data.edge_index = torch.empty(2, 0, dtype=torch.int64)  # the sampler has the edges
    sampler = PygSampler(Neighbor(FANOUTS), held, threads=0)
    nodes = torch.from_numpy(np.array(graph.split("train"), np.int64))
    return NodeLoader(data, sampler, nodes, batch_size=SEEDS, shuffle=True)


def measure(way: str, folder: str, memory: int, batches: int) -> None:
    """One process: makes the loader, runs the batches, prints seconds and bytes."""
    graph = Graph.open(folder)
    loader = loader_of(way, graph, memory)
    before, rows = disk_reads(), 0
    start = time.perf_counter()
    for number, batch in enumerate(loader, 1):
        rows += len(batch.x)
        float(batch.x[-1, -1])
        if number == batches:
            break
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds / number, "bytes": disk_reads() - before, "rows": rows}))


def run(way: str, folder: Path, memory: int, limit: int, batches: int) -> dict[str, float]:
    """A turn of one way, under the limit where it reads from disk."""
    with open(DROP, "w", encoding="ascii") as file:
        os.sync()
        file.write("1")
    command = [sys.executable, __file__, "--one", way, str(folder), str(memory), str(batches)]
    if way == WAYS[0]:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    else:
        with Cgroup(limit) as group:
            if not group.works:
                print("no cgroup can be made: the map may use all of the memory", flush=True)
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, preexec_fn=group.join
            )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="small sizes, one round")
    options.add_argument("--folder", default=None, help="where the graph is made, on a disk")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--one", nargs=4, default=None, help="a turn; used by the script itself")
    given = options.parse_args()
    if given.one is not None:
        way, folder, memory, batches = given.one
        measure(way, folder, int(memory), int(batches))
        return
    if not os.access(DROP, os.W_OK):
        skip(f"the page cache cannot be dropped: {DROP} is not writable")
    nodes, batches = (20_000, 4) if given.quick else (2_000_000, 40)
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        need_disk(place, 3 * nodes * COLUMNS * 4)
        folder = Path(place) / "graph"
        synthesize(str(folder), nodes, degree=16, features=COLUMNS, classes=10)
        feature_bytes = nodes * COLUMNS * 4
        memory = 150_000_000 + nodes * 80 + feature_bytes // 5
        limit = memory + 550_000_000  # Python, torch and PyG themselves
        found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(1 if given.quick else given.rounds):
            for way in random.sample(WAYS, len(WAYS)):
                found[way].append(run(way, folder, memory, limit, batches))
                print(way, found[way][-1], flush=True)
    if given.quick:
        return
    report = Report("pyg_backend", __doc__)
    report.line(
        f"Synthetic graph of {nodes:,} nodes and {16 * nodes:,} edges, {COLUMNS} float32 columns "
        f"({format_bytes(feature_bytes)}), {batches} batches of {SEEDS} seeds, fan-outs {FANOUTS}, "
        f"shuffled. Budget of OnDisk {format_bytes(memory)}; limit of maps and OnDisk "
        f"{format_bytes(limit)}; the tensor has no limit."
    )
    rows = []
    for way, turns in found.items():
        seconds = [1000 * turn["seconds"] for turn in turns]
        read = [turn["bytes"] / 1e6 / batches for turn in turns]
        rows.append((way, median_spread(seconds), median_spread(read), len(turns)))
    report.table(("rows in", "ms per batch", "MB read per batch", "rounds"), rows)
    report.write()


if __name__ == "__main__":
    main()
