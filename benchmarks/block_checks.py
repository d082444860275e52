"""What does it cost to check every byte when it is read?

The same graph in two folders that share their array files (hard links): one has block checksums,
from the other `checks.json` was taken away, so that nothing is checked. There is no other switch. A
round runs each once, in an order that changes from round to round, after one round to warm up:

- epochs: a Loader under a budget, with feature rows and neighbour lists on disk ("disk") or rows
  alone ("features"), and the same with a GraphSAGE model that is trained on its batches.
- loading: the arrays of the graph, read into memory with the page cache warm (where checking shows
  most: no disk to wait for) and cold (dropped before each run).

A ratio is the median over rounds of checked / unchecked, of the wall clock and of the CPU time of
the process (all threads, kernel included), which other work on the machine disturbs less. The rate
of CRC32C alone, over a buffer in the core's cache and one far larger, is beside it.

    python benchmarks/block_checks.py FOLDER [--nodes 100k] [--rounds 9] [--date 2026-11-17]
"""

import argparse
import os
import resource
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.report import Report, median_spread

from foregather import Graph, Loader, _core
from foregather.graph.blocks import open_sums, read_checked
from foregather.graph.checks import FILE
from foregather.graph.meta import read_meta
from foregather.graph.synthetic import synthesize
from foregather.nn import SAGE
from foregather.units import format_bytes, parse_count

BATCHES = 8

Run = Callable[[Path], None]
Seconds = dict[str, list[tuple[float, float]]]


def make_folders(folder: Path, nodes: int) -> dict[str, Path]:
    """The graph with and without block checksums."""
    checked, plain = folder / "checked", folder / "unchecked"
    if not checked.exists():
        synthesize(checked, nodes, degree=12, features=128, classes=8, seed=1)
    shutil.rmtree(plain, ignore_errors=True)
    shutil.copytree(checked, plain, copy_function=os.link)
    (plain / FILE).unlink()
    return {"checked": checked, "unchecked": plain}


def epoch(folder: Path, storage: str, memory: int, train: bool) -> None:
    """The first batches of an epoch from disk, thrown away or trained on."""
    graph = Graph.open(folder)
    loader = Loader(
        graph, [10, 10], "train", 512, storage=storage, memory=memory, shuffle=True, seed=1,
        pyg=False,
    )  # fmt: skip
    model = SAGE([graph.features.width, 128, 8]) if train else None
    optimizer = None if model is None else torch.optim.Adam(model.parameters())
    try:
        for number, batch in enumerate(loader):
            if model is not None and optimizer is not None:
                made = model(batch.x, batch.edge_index)[: batch.batch_size]
                torch.nn.functional.cross_entropy(made, batch.y[: batch.batch_size]).backward()
                optimizer.step()
                optimizer.zero_grad()
            if number == BATCHES:
                break
    finally:
        loader.close()


def load(folder: Path, cold: bool) -> None:
    """Every array into memory, in parts of 16 MiB."""
    meta = read_meta(folder)
    for name, entry in meta.arrays.items():
        path = folder / entry.file
        made = np.empty(entry.nbytes, np.uint8)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if cold:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            sums = open_sums(folder, meta, name)
            for start in range(0, entry.nbytes, 16 << 20):
                end = min(entry.nbytes, start + (16 << 20))
                read_checked(descriptor, start, end, path, sums, made[start:end])
        finally:
            os.close(descriptor)


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(folders: dict[str, Path], run: Run, rounds: int) -> Seconds:
    """(wall, CPU) seconds of each folder, round by round."""
    rng = np.random.default_rng(1)
    found: Seconds = {name: [] for name in folders}
    for turn in range(rounds + 1):
        for name in rng.permutation(list(folders)).tolist():
            wall, cpu = time.perf_counter(), cpu_seconds()
            run(folders[name])
            if turn:
                found[name].append((time.perf_counter() - wall, cpu_seconds() - cpu))
    return found


def row_of(name: str, found: Seconds) -> list[str]:
    cells = [name]
    for column in (0, 1):
        values = {key: [pair[column] for pair in pairs] for key, pairs in found.items()}
        ratios = [a / b for a, b in zip(values["checked"], values["unchecked"], strict=True)]
        cells += [median_spread(values["unchecked"]), median_spread(values["checked"])]
        middle = statistics.median(ratios)
        cells.append(f"**{middle:.3f}** ({min(ratios):.2f} to {max(ratios):.2f})")
    return cells


def crc_rates(rounds: int) -> list[list[str]]:
    rows = []
    for size in (256 << 10, 256 << 20):
        data = np.random.default_rng(0).integers(0, 256, size, np.uint8)
        sums = _core.BlockSums("x", size, 4, 0)
        sums.sums[:] = np.concatenate([_core.Summer().update(data)])
        rates = []
        for _ in range(rounds):
            turns = max(1, (512 << 20) // size)
            start = time.thread_time()
            for _ in range(turns):
                sums.check(0, data)
            rates.append(turns * size / (time.thread_time() - start) / 1e9)
        rows.append([format_bytes(size), median_spread(rates)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", default="100k")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--date", default=None)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folders = make_folders(options.folder, parse_count(options.nodes))
    graph = Graph.open(folders["checked"])
    memory = (250 << 20) + graph.features.nbytes // 4 + graph.indices.nbytes
    report = Report("block_checks", __doc__, options.date)
    tables: Any = sum(p.stat().st_size for p in folders["checked"].rglob("*.crc"))
    report.line(
        f"Graph of {graph.num_nodes:,} nodes and {graph.num_edges:,} edges, "
        f"{format_bytes(graph.nbytes)}; tables of {format_bytes(tables)} on disk, budget "
        f"{format_bytes(memory)}, {options.rounds} rounds; seconds as median (range)."
    )
    cases: dict[str, Run] = {
        "batches, disk": lambda f: epoch(f, "disk", memory, False),
        "batches, features": lambda f: epoch(f, "features", memory, False),
        "training, disk": lambda f: epoch(f, "disk", memory, True),
        "training, features": lambda f: epoch(f, "features", memory, True),
        "loading, warm": lambda f: load(f, False),
        "loading, cold": lambda f: load(f, True),
    }
    rows = [row_of(name, measure(folders, run, options.rounds)) for name, run in cases.items()]
    head = ["", "wall, unchecked", "wall, checked", "ratio"]
    report.table([*head, "CPU, unchecked", "CPU, checked", "ratio"], rows)
    report.line(f"CRC32C by {_core.crc32c_means()}, one core, GB a second:")
    report.table(["buffer", "GB/s"], crc_rates(options.rounds))
    report.write()


if __name__ == "__main__":
    main()
