"""What does it cost to check every byte when it is read?

The same graph in two folders that share their array files (hard links): one has block checksums,
from the other `checks.json` was taken away, so that nothing is checked. There is no other switch,
and all else is the same code. A round runs each once, in an order that changes from round to round,
after one round to warm up:

- epochs: a Loader under a budget, with feature rows and neighbour lists on disk ("disk") or rows
  alone ("features"), and the same with a GraphSAGE model that is trained on its batches.
- loading: a graph is opened and its arrays are read into memory, with the page cache warm (where
  checking shows most: no disk to wait for) and cold (dropped before each run). Beside it the way
  arrays were loaded before: by threads of Python in parts of 16 MiB, checked in pieces of 256 KiB.

Seconds are of the wall clock and of the CPU (the process with all its threads, kernel included),
which other work on the machine disturbs less. A ratio is checked / unchecked: the median over
rounds with their range, and behind it that of the fastest rounds. "Of the work" is the cost by
count: the bytes that an epoch read, at the rate of CRC32C from memory, over the CPU seconds
unchecked; noise of the machine cannot hide or feign it.

    python benchmarks/block_checks.py FOLDER [--nodes 100k] [--rounds 9] [--date 2026-11-17]
"""

import argparse
import gc
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
from common.report import Report, median_spread

from foregather import Graph, Loader, _core
from foregather.graph.integrity.blocks import open_sums
from foregather.graph.integrity.checks import FILE
from foregather.graph.load import load
from foregather.graph.on_disk.meta import read_meta
from foregather.graph.synthetic import synthesize
from foregather.nn import SAGE
from foregather.units import format_bytes, parse_count

BATCHES = 8

Run = Callable[[Path], None]
Seconds = dict[str, list[tuple[float, float, int]]]
Bytes = np.typing.NDArray[np.uint8]


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


def load_graph(folder: Path) -> None:
    """Every array into memory, as a run does it."""
    load(Graph.open(folder))


def load_before(folder: Path) -> None:
    """The same as it was before the core did it."""
    meta = read_meta(folder)
    for name in ("indptr", "indices", "features", "labels"):
        entry = meta.arrays[name]
        made = np.empty(entry.nbytes, np.uint8)
        descriptor = os.open(folder / entry.file, os.O_RDONLY)
        sums = open_sums(folder, meta, name)

        def part(start: int, made: Bytes = made, at: int = descriptor, sums: Any = sums) -> None:
            step, end = (256 << 10 if sums else 16 << 20), min(made.size, start + (16 << 20))
            for begin in range(start, end, step):
                piece = made[begin : min(end, begin + step)]
                os.preadv(at, [piece.data], 4096 + begin)
                if sums is not None:
                    sums.check(4096 + begin, piece)

        try:
            with ThreadPoolExecutor(min(4, _core.default_threads())) as pool:
                list(pool.map(part, range(0, entry.nbytes, 16 << 20)))
        finally:
            os.close(descriptor)


def drop(folder: Path) -> None:
    """Array files out of the page cache; nothing may map them."""
    gc.collect()
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


def measure(
    folders: dict[str, Path], run: Run, rounds: int, before: Run = lambda _: None
) -> Seconds:
    """(wall, CPU, bytes) of each folder, round by round."""
    rng = np.random.default_rng(1)
    found: Seconds = {name: [] for name in folders}
    for turn in range(rounds + 1):
        for name in rng.permutation(list(folders)).tolist():
            before(folders[name])
            wall, cpu, read = time.perf_counter(), cpu_seconds(), bytes_read()
            run(folders[name])
            if turn:
                took = (time.perf_counter() - wall, cpu_seconds() - cpu, bytes_read() - read)
                found[name].append(took)
    return found


def row_of(name: str, found: Seconds, rate: float | None = None) -> list[str]:
    cells = [name]
    for column in (0, 1):
        values = {key: [took[column] for took in all_] for key, all_ in found.items()}
        ratios = [a / b for a, b in zip(values["checked"], values["unchecked"], strict=True)]
        cells += [median_spread(values["unchecked"]), median_spread(values["checked"])]
        middle, least = statistics.median(ratios), min(values["checked"]) / min(values["unchecked"])
        cells.append(f"**{middle:.3f}** ({min(ratios):.2f} to {max(ratios):.2f}); {least:.3f}")
    if rate is not None:
        read = statistics.median(took[2] for took in found["checked"])
        cpu = statistics.median(took[1] for took in found["unchecked"])
        cells += [format_bytes(read), f"{read / rate / cpu:.1%}"]
    return cells


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
        f"{format_bytes(memory)}, {options.rounds} rounds ({3 * options.rounds} of loading); "
        "seconds as median (range)."
    )
    del graph
    rates = crc_rates(options.rounds)
    rate = 1e9 * statistics.median(rates[256 << 20])
    rows = [
        row_of(
            f"{kind}, {storage}",
            measure(
                folders,
                lambda f, s=storage, t=kind == "training": epoch(f, s, memory, t),
                options.rounds,
            ),
            rate,
        )
        for kind in ("batches", "training")
        for storage in ("disk", "features")
    ]
    head = ["", "wall, unchecked", "wall, checked", "ratio"]
    head += ["CPU, unchecked", "CPU, checked", "ratio"]
    report.table([*head, "read", "of the work"], rows)
    loading: list[tuple[str, Run, Run]] = [
        ("warm", load_graph, lambda _: None),
        ("warm, as before", load_before, lambda _: None),
        ("cold", load_graph, drop),
        ("cold, as before", load_before, drop),
    ]
    rows = [row_of(n, measure(folders, run, 3 * options.rounds, b)) for n, run, b in loading]
    report.table(["loading", *head[1:]], rows)
    report.line(f"CRC32C by {_core.crc32c_means()}, one core, GB a second:")
    report.table(
        ["buffer", "GB/s"], [[format_bytes(k), median_spread(v)] for k, v in rates.items()]
    )
    report.write()


if __name__ == "__main__":
    main()
