"""What does a folder behind PyG's own NodeLoader cost, beside features in memory and in a map?

PyG's `NodeLoader` with the same sampler of ours, the same input nodes, fan-outs and batch size;
only where the rows are differs: a tensor in memory, `numpy.memmap` as PyG's documentation advises
(with and without the kernel's advice for random reads), and `OnDisk`, whose plan acts through the
stores. Each is a process of its own. Those that read from disk run under one limit of memory (a
cgroup, which counts the page cache too): `OnDisk` has a budget below it, a map all that is left.
Seconds are per batch, without a model: the time that a training loop would wait at most. Bytes are
what the process had the disk read. Rounds take turns; the page cache is dropped before each. A
turn ends after 40 batches, or with the first that ends after `--seconds`; the table says how many
there were. A turn whose first batch takes longer than that is stopped, and counts as "more than".

    python benchmarks/pyg_backend.py [--quick] [--folder DIR] [--rounds 3] [--seconds 60]
        [--keep DIR]     # the graph and finished rounds are kept there, to go on later
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

Round = dict[str, dict[str, float]]  # by way


def disk_reads(process: int | str = "self") -> int:
    """Bytes that a process had the disk read so far."""
    text = Path(f"/proc/{process}/io").read_text()
    fields = dict(line.split(": ") for line in text.splitlines())
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


def measure(way: str, folder: str, memory: int, batches: int, limit: float) -> None:
    """One process: makes the loader, runs the batches, prints seconds and bytes."""
    graph = Graph.open(folder)
    loader = loader_of(way, graph, memory)
    before, rows = disk_reads(), 0
    start = time.perf_counter()
    for number, batch in enumerate(loader, 1):
        rows += len(batch.x)
        float(batch.x[-1, -1])
        seconds = time.perf_counter() - start
        if number == batches or seconds > limit:
            break
    read = disk_reads() - before
    print(json.dumps({"seconds": seconds / number, "bytes": read, "rows": rows, "batches": number}))


def finish(child: subprocess.Popen[str], seconds: float, more: float = 15) -> dict[str, float]:
    """What a turn prints; one whose first batch takes longer, after `more` to start, is cut."""
    try:
        text, _ = child.communicate(timeout=2 * seconds + more)
    except subprocess.TimeoutExpired:
        read = disk_reads(child.pid)
        child.kill()
        child.communicate()
        return {"seconds": seconds, "bytes": read, "rows": 0, "batches": 0}
    if child.returncode:
        sys.exit(f"a turn failed with exit code {child.returncode}")
    found: dict[str, float] = json.loads(text.splitlines()[-1])
    return found


def run(way: str, folder: Path, memory: int, limit: int, ends: list[str]) -> dict[str, float]:
    """A turn of one way, under the limit where it reads from disk; `ends`: batches, seconds."""
    with open(DROP, "w", encoding="ascii") as file:
        os.sync()
        file.write("1")
    command = [sys.executable, __file__, "--one", way, str(folder), str(memory), *ends]
    pipe = subprocess.PIPE
    if way == WAYS[0]:
        return finish(subprocess.Popen(command, stdout=pipe, text=True), float(ends[1]))
    with Cgroup(limit) as group:
        if not group.works:
            print("no cgroup can be made: the map may use all of the memory", flush=True)
        child = subprocess.Popen(command, stdout=pipe, text=True, preexec_fn=group.join)
        return finish(child, float(ends[1]))


def rounds(place: Path, given: argparse.Namespace, sizes: tuple[int, int, int, int]) -> list[Round]:
    """The turns of every round, by way; those that are kept there are not run again."""
    nodes, batches, memory, limit = sizes
    folder, kept = place / "graph", place / "rounds.json"
    if not (folder / "meta.json").exists():
        need_disk(place, 3 * nodes * COLUMNS * 4)
        synthesize(str(folder), nodes, degree=16, features=COLUMNS, classes=10)
    found: list[Round] = json.loads(kept.read_text()) if kept.exists() else []
    while len(found) < (1 if given.quick else given.rounds):
        turns: Round = {}
        for way in random.sample(WAYS, len(WAYS)):
            turns[way] = run(way, folder, memory, limit, [str(batches), str(given.seconds)])
            print(way, turns[way], flush=True)
        found.append(turns)
        kept.write_text(json.dumps(found))
    return found


def write(found: list[Round], sizes: tuple[int, int, int, int]) -> None:
    """The dated report."""
    nodes, batches, memory, limit = sizes
    report = Report("pyg_backend", __doc__)
    report.line(
        f"Synthetic graph of {nodes:,} nodes and {16 * nodes:,} edges, {COLUMNS} float32 columns "
        f"({format_bytes(nodes * COLUMNS * 4)}), at most {batches} batches of {SEEDS} seeds, "
        f"fan-outs {FANOUTS}, shuffled. Budget of OnDisk {format_bytes(memory)}; limit of maps and "
        f"OnDisk {format_bytes(limit)}; the tensor has no limit."
    )
    rows = []
    for way in WAYS:
        turns = [one[way] for one in found]
        seconds = [1000 * turn["seconds"] for turn in turns]
        read = [turn["bytes"] / 1e6 / max(1, turn["batches"]) for turn in turns]
        counts = [int(turn["batches"]) for turn in turns]
        cells = [median_spread(seconds), median_spread(read)]
        if 0 in counts:
            cells = [f"more than {cell}" for cell in cells]
        rows.append((way, *cells, ", ".join(map(str, counts))))
    report.table(("rows in", "ms per batch", "MB read per batch", "batches of each round"), rows)
    report.write()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="small sizes, one round")
    options.add_argument("--folder", default=None, help="where the graph is made, on a disk")
    options.add_argument("--keep", type=Path, help="a folder for graph and rounds, to go on later")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=60.0, help="after which a turn ends")
    options.add_argument("--one", nargs=5, default=None, help="a turn; used by the script itself")
    given = options.parse_args()
    if given.one is not None:
        way, folder, memory, batches, seconds = given.one
        measure(way, folder, int(memory), int(batches), float(seconds))
        return
    if not os.access(DROP, os.W_OK):
        skip(f"the page cache cannot be dropped: {DROP} is not writable")
    nodes, batches = (20_000, 4) if given.quick else (2_000_000, 40)
    memory = 150_000_000 + nodes * 80 + nodes * COLUMNS * 4 // 5
    limit = memory + 550_000_000  # Python, torch and PyG themselves
    sizes = (nodes, batches, memory, limit)
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        found = rounds(given.keep, given, sizes)
    else:
        with tempfile.TemporaryDirectory(dir=given.folder) as place:
            found = rounds(Path(place), given, sizes)
    if not given.quick:
        write(found, sizes)


if __name__ == "__main__":
    main()
