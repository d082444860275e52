"""Is building CSC in memory as fast as SciPy?

The same edges (shuffled, power-law targets) go through both, in interleaved runs. SciPy always
moves a value with each edge, so it is given the smallest there is (int8) where we compute no
order, and the input position where we do. Every cell is ours against SciPy: below 1 we are faster.

    python benchmarks/build_csc.py [--edges 20000000] [--nodes 1000000] [--runs 5] [--date ...]
"""

import argparse
import datetime
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
from common.report import FOLDER, machine_line
from scipy.sparse import _sparsetools

from foregather import _core


def make_edges(nodes: int, edges: int, order: str) -> tuple[np.ndarray, np.ndarray]:
    """Targets with a power law (rank^-0.8); hubs anywhere, or hubs first."""
    rng = np.random.default_rng(0)
    target = (nodes * rng.random(edges) ** 5).astype(np.uint32)
    if order == "hubs anywhere":
        target = rng.permutation(nodes).astype(np.uint32)[target]
    return rng.integers(0, nodes, edges, dtype=np.uint32), target


def contenders(
    source: np.ndarray, target: np.ndarray, nodes: int
) -> dict[tuple[str, str], Callable[[], object]]:
    """What is run, by (rows, who)."""
    edges = source.size
    # Outputs are made once and touched, for both: page faults are not what is compared.
    indptr, indices = np.zeros(nodes + 1, np.int64), np.zeros(edges, np.uint32)
    order = np.zeros(edges, np.int64)
    rows32, columns32 = target.view(np.int32), source.view(np.int32)
    sp_indptr, sp_indices = np.zeros(nodes + 1, np.int32), np.zeros(edges, np.int32)
    small, small_out = np.ones(edges, np.int8), np.zeros(edges, np.int8)
    place, place_out = np.arange(edges, dtype=np.int64), np.zeros(edges, np.int64)

    def ours(with_order: bool, threads: int, sort_rows: bool) -> Callable[[], object]:
        given = order if with_order else None
        return lambda: _core.build_csc(
            source, target, nodes, indptr, indices, given, threads, sort_rows
        )

    def scipy_raw(values: np.ndarray, out: np.ndarray) -> Callable[[], object]:
        return lambda: _sparsetools.coo_tocsr(
            nodes, nodes, edges, rows32, columns32, values, sp_indptr, sp_indices, out
        )

    def scipy_sorted(values: np.ndarray) -> Callable[[], object]:
        matrix = sp.coo_matrix((values, (columns32, rows32)), shape=(nodes, nodes))
        return matrix.tocsc

    cells: dict[tuple[str, str], Callable[[], object]] = {
        ("unsorted", "scipy"): scipy_raw(small, small_out),
        ("unsorted, order", "scipy"): scipy_raw(place, place_out),
        ("sorted", "scipy"): scipy_sorted(small),
        ("sorted, order", "scipy"): scipy_sorted(place),
    }
    for rows in ("unsorted", "unsorted, order", "sorted", "sorted, order"):
        for threads in (1, 2):
            cells[rows, f"{threads}"] = ours(
                rows.endswith("order"), threads, rows.startswith("sorted")
            )
    return cells


def measure(cells: dict[tuple[str, str], Callable[[], object]], runs: int):
    """Seconds of every run; all contenders take turns in each round, after one to warm up."""
    times: dict[tuple[str, str], list[float]] = {key: [] for key in cells}
    for turn in range(runs + 1):
        for key, run in cells.items():
            start = time.perf_counter()
            run()
            if turn:
                times[key].append(time.perf_counter() - start)
    return times


def table(times) -> list[str]:
    def cell(values: list[float]) -> str:
        return f"{statistics.median(values):.4f} ({min(values):.4f} to {max(values):.4f})"

    lines = [
        "| rows | SciPy, s | ours 1 thread, s | ratio | ours 2 threads, s | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for rows in dict.fromkeys(rows for rows, _ in times):
        base = times[rows, "scipy"]
        parts = [rows, cell(base)]
        for threads in ("1", "2"):
            mine = times[rows, threads]
            # the ratio of each round, then its median: what slows the machine slows both
            ratio = statistics.median(a / b for a, b in zip(mine, base, strict=True))
            parts += [cell(mine), f"**{ratio:.2f}**"]
        lines.append("| " + " | ".join(parts) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    lines = [
        "# Is building CSC in memory as fast as SciPy?",
        "",
        f"{options.date}. {machine_line()} SciPy {scipy.__version__}.",
        "",
        f"{options.nodes:,} nodes, {options.edges:,} edges in random order, uint32 ids, targets "
        f"with a power law (rank^-0.8). Median (and spread) of {options.runs} interleaved runs "
        "after one to warm up; a ratio is the median over rounds of ours / SciPy, so below 1 we "
        "are faster.",
        "",
        "SciPy *unsorted* is the bare kernel `_sparsetools.coo_tocsr`, with int8 values (it "
        "cannot do without) or int64 positions where we compute the order; *sorted* is "
        "`coo_matrix.tocsc()`, which does more: it sums duplicates (and so loses their positions, "
        "which we keep) and allocates its result. Ours checks every id; SciPy's kernel does not.",
    ]
    cases = [
        ("Hubs anywhere", "hubs anywhere", options.nodes, options.edges),
        ("Hubs first (low ids have most edges)", "hubs first", options.nodes, options.edges),
        ("A small graph: 20,000 nodes, 300,000 edges", "hubs anywhere", 20_000, 300_000),
    ]
    for title, order, nodes, edges in cases:
        source, target = make_edges(nodes, edges, order)
        times = measure(contenders(source, target, nodes), options.runs)
        lines += ["", f"## {title}", "", *table(times)]
    text = "\n".join(lines) + "\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"build_csc_{options.date}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
