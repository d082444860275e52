"""What does it cost to check every byte when it is read?

The same graph in two folders that share their array files (hard links): one has block checksums,
from the other `checks.json` was taken away, so that nothing is checked. There is no other switch,
and all else is the same code. A round runs each once, in an order that changes from round to round,
after one round to warm up:

- epochs: a Loader under a budget, with feature rows and neighbour lists on disk ("disk") or rows
  alone ("features"), and the same with a GraphSAGE model that is trained on its batches.
- loading: a graph is opened and its arrays are read into memory, with the page cache warm (where
  checking shows most: no disk to wait for) and cold (dropped before each run). In the same rounds
  the way arrays were loaded before (opened as now, to compare the rest): by threads of Python, in
  parts of 16 MiB into memory of NumPy, checked in pieces of 256 KiB. All read into fresh memory.

Seconds are of the wall clock and of the CPU (the process with all its threads, kernel included),
which other work on the machine disturbs less; torch has one thread, since waiting threads of OpenMP
count as busy. A ratio is checked / unchecked: the median over rounds, in brackets where it lies
with 95 % confidence (by order statistics) and the range of single rounds. "By count" is an
estimate: the bytes that an epoch read, at the rate of CRC32C from memory,
over the CPU seconds unchecked. It leaves out that what was checked is then in cache for who copies.

    python benchmarks/block_checks.py [FOLDER] [--nodes 100k] [--rounds 9] [--date 2026-11-17]
"""

import argparse
import ctypes
import functools
import gc
import itertools
import os
import resource
import shutil
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.folder import working_folder
from common.report import Report, median_spread

from foregather import BatchContents, Graph, Loader, _core
from foregather.graph.integrity.blocks import open_sums
from foregather.graph.integrity.checks import FILE
from foregather.graph.load import load
from foregather.graph.on_disk.meta import read_meta
from foregather.graph.synthetic import synthesize
from foregather.nn import SAGE
from foregather.units import format_bytes, parse_count

BATCHES = {"batches": 40, "training": 8}  # of a run
MORE = {"batches": 7, "training": 1, "loading": 7}  # rounds, times those asked for

Runs = dict[str, Callable[[], None]]
Seconds = dict[str, list[tuple[float, float, int]]]
Bytes = np.typing.NDArray[np.uint8]


def make_folders(folder: Path, nodes: int) -> dict[str, Path]:
    """The graph with and without block checksums."""
    folder.mkdir(parents=True, exist_ok=True)
    checked, plain = folder / "checked", folder / "unchecked"
    if not checked.exists():
        synthesize(checked, nodes, degree=12, features=128, classes=8, seed=1)
    shutil.rmtree(plain, ignore_errors=True)
    shutil.copytree(checked, plain, copy_function=os.link)
    (plain / FILE).unlink()
    return {"checked": checked, "unchecked": plain}


def epoch(folder: Path, storage: Any, memory: int, kind: str) -> None:
    """The first batches of an epoch from disk, thrown away or trained on."""
    graph = Graph.open(folder)
    loader = Loader(
        graph, [10, 10], "train", 512, storage=storage, memory=memory, shuffle=True, seed=1,
        contents=BatchContents(pyg=False),
    )  # fmt: skip
    model = SAGE([graph.features.width, 128, 8]) if kind == "training" else None
    optimizer = None if model is None else torch.optim.Adam(model.parameters())
    try:
        for number, batch in enumerate(loader):
            if model is not None and optimizer is not None:
                made = model(batch.x, batch.edge_index)[: batch.batch_size]
                torch.nn.functional.cross_entropy(made, batch.y[: batch.batch_size]).backward()
                optimizer.step()
                optimizer.zero_grad()
            if number + 1 == BATCHES[kind]:
                break
    finally:
        loader.close()


def load_graph(folder: Path) -> None:
    """Every array into memory, as a run does it."""
    load(Graph.open(folder))


def load_before(folder: Path) -> None:
    """The same as it was before the core did it."""
    graph, meta = Graph.open(folder), read_meta(folder)
    for name in ("indptr", "indices", "features", "labels"):
        entry = meta.arrays[name]
        made = np.empty(entry.nbytes, np.uint8)
        sums = open_sums(folder, meta, name)
        descriptor = os.open(folder / entry.file, os.O_RDONLY)

        def part(start: int, made: Bytes = made, at: int = descriptor, sums: Any = sums) -> None:
            step, end = (256 << 10 if sums else 16 << 20), min(made.size, start + (16 << 20))
            for begin in range(start, end, step):
                piece = made[begin : min(end, begin + step)]
                os.preadv(at, [piece.data], 4096 + begin)
                if sums is not None:
                    sums.check(4096 + begin, piece)

        if entry.nbytes <= 16 << 20:
            part(0)
        else:
            with ThreadPoolExecutor(min(4, _core.default_threads())) as pool:
                list(pool.map(part, range(0, entry.nbytes, 16 << 20)))
        os.close(descriptor)
    del graph


def refresh() -> None:
    """Gives freed memory back, so that the next run gets fresh memory, as a new process does."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def drop(folder: Path) -> None:
    """Array files out of the page cache; nothing may map them."""
    refresh()
    for path in folder.rglob("*.*"):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def bytes_read() -> int:
    """What the process has had the disk read for it."""
    text = Path("/proc/self/io").read_text()
    return int(text.split("read_bytes:")[1].split()[0])


def measure(runs: Runs, rounds: int, before: Callable[[], None] = refresh) -> Seconds:
    """(wall, CPU, bytes) of each run, round by round."""
    rng = np.random.default_rng(1)
    found: Seconds = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name in rng.permutation(list(runs)).tolist():
            before()
            wall, cpu, read = time.perf_counter(), cpu_seconds(), bytes_read()
            runs[name]()
            if turn:
                took = (time.perf_counter() - wall, cpu_seconds() - cpu, bytes_read() - read)
                found[name].append(took)
    return found


def ratio_of(over: list[float], under: list[float]) -> str:
    ratios = sorted(a / b for a, b in zip(over, under, strict=True))
    # Ranks between which the median lies: half the rounds, 1.96 standard deviations each way.
    low = max(0, int(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5))
    middle, last = statistics.median(ratios), len(ratios) - 1
    return f"**{middle:.3f}** ({ratios[low]:.2f} to {ratios[last - low]:.2f}; " + (
        f"{ratios[0]:.2f} to {ratios[last]:.2f})"
    )


def row_of(name: str, found: Seconds, over: str = "checked", under: str = "unchecked") -> list[str]:
    cells = [name]
    for column in (0, 1):
        values = {key: [took[column] for took in found[key]] for key in (over, under)}
        cells += [median_spread(values[key]) for key in (under, over)]
        cells.append(ratio_of(values[over], values[under]))
    return cells


def load_rows(folders: dict[str, Path], rounds: int) -> list[list[str]]:
    loads: Runs = {
        prefix + name: functools.partial(way, folder)
        for prefix, way in (("", load_graph), ("before ", load_before))
        for name, folder in folders.items()
    }
    size, rows = format_bytes(Graph.open(folders["checked"]).nbytes), []
    for heat, prepare in (("warm", refresh), ("cold", lambda: drop(folders["checked"]))):
        found = measure(loads, rounds, prepare)
        rows.append(row_of(f"{size}, {heat}", found))
        rows.append(row_of(f"{size}, {heat}, before", found, "before checked", "before unchecked"))
        name = f"{size}, {heat}, checked now over unchecked before"
        rows.append(row_of(name, found, "checked", "before unchecked"))
    return rows


def by_count(found: Seconds, rate: float) -> list[str]:
    read = statistics.median(took[2] for took in found["checked"])
    cpu = statistics.median(took[1] for took in found["unchecked"])
    return [format_bytes(int(read)), f"{read / rate / cpu:.1%}"]


def crc_rates(rounds: int) -> dict[int, list[float]]:
    """GB a second by the bytes of the buffer."""
    found: dict[int, list[float]] = {}
    for size in (256 << 10, 256 << 20):
        data = np.random.default_rng(0).integers(0, 256, size, np.uint8)
        sums = _core.BlockSums("x", size, 4, 0)
        sums.sums[:] = np.concatenate([_core.Summer().update(data)])
        turns = max(1, (512 << 20) // size)
        for _ in range(rounds):
            start = time.thread_time()
            for _ in range(turns):
                sums.check(0, data)
            rate = turns * size / (time.thread_time() - start) / 1e9
            found.setdefault(size, []).append(rate)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="kept; see working_folder")
    parser.add_argument("--nodes", default="100k")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--date", default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with working_folder(options.folder) as folder:
        compare(folder, options)


def compare(folder: Path, options: argparse.Namespace) -> None:
    folders = make_folders(folder, parse_count(options.nodes))
    graph = Graph.open(folders["checked"])
    memory = (250 << 20) + graph.features.nbytes // 4 + graph.indices.nbytes
    report = Report("block_checks", __doc__, options.date)
    tables: Any = sum(p.stat().st_size for p in folders["checked"].rglob("*.crc"))
    report.line(
        f"Graph of {graph.num_nodes:,} nodes and {graph.num_edges:,} edges, "
        f"{format_bytes(graph.nbytes)}; tables of {format_bytes(tables)} on disk, budget "
        f"{format_bytes(memory)}, {MORE['batches'] * options.rounds} rounds "
        f"({options.rounds} of training, {3 * options.rounds} of loading a graph five times as "
        "large); seconds as median (range)."
    )
    del graph
    rates = crc_rates(options.rounds)
    rate = 1e9 * statistics.median(rates[256 << 20])
    head = ["wall, unchecked", "wall, checked", "ratio"]
    head += ["CPU, unchecked", "CPU, checked", "ratio"]
    large = make_folders(folder / "large", 5 * parse_count(options.nodes))
    rows = load_rows(folders, MORE["loading"] * options.rounds)
    report.table(["loading", *head], rows + load_rows(large, 3 * options.rounds))
    rows = []
    for kind, storage in itertools.product(("batches", "training"), ("disk", "features")):
        some = {"storage": storage, "memory": memory, "kind": kind}
        epochs: Runs = {name: functools.partial(epoch, f, **some) for name, f in folders.items()}
        found = measure(epochs, MORE[kind] * options.rounds)
        rows.append(row_of(f"{kind}, {storage}", found) + by_count(found, rate))
    report.table(["epochs", *head, "read", "by count"], rows)
    report.line(f"CRC32C by {_core.testing.crc32c_means()}, one core, GB a second:")
    report.table(
        ["buffer", "GB/s"], [[format_bytes(k), median_spread(v)] for k, v in rates.items()]
    )
    report.write()


if __name__ == "__main__":
    main()
