"""What does deep full-graph training cost on one machine, in memory and in time?

ResGCN+ without dropout on synthetic graphs, float32, one thread, each run in a process of its own.
"plain" is the same layers on the whole graph at once with torch's autograd, and its sums are
products by a compressed sparse matrix of torch (MKL); "plain, our sums" has the core's sums, so
that what is left is recomputation alone. "checkpoint" is `torch.utils.checkpoint` around every
layer, or around segments of about the square root of the layers (the best of three lengths, by
peak). The others are `FullGraph` in mode exact, by what `Runtime` keeps. "peak" is the largest
resident memory in the epochs after the first, above that between them; "CPU" is their processor
time; rounds are interleaved and the median is shown with its spread. Each round has two
processes a run: blocks from 128 KiB on are mapped one by one (MALLOC_MMAP_THRESHOLD_) where the
peak is taken, since glibc else keeps holes; where time is taken, freed memory is kept
(`keep_freed_memory`, as `foregather train` does), since mapping costs more than the work of small
blocks. All train the same: the losses are equal to rounding.

"chunks" compares the processor time of an exact epoch that keeps everything with plain training, by
number of chunks: for the layers, and for the same model as a module of PyG (plain PyG, and split).
"limit" trains under a memory limit of the kernel (cgroup v1) what plain training cannot.

    python benchmarks/full_graph_memory.py [--only cells chunks limit] [--rounds 3] [--quick]
        [--cells 20k:64:32 20k:64:64 ...] [--limit 1M:256:64:4GB]
"""

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from common.cgroup import Cgroup
from common.full_graph import Deep, Module, Ours, Peak, Plain, few_nodes, resident
from common.report import Report

from foregather import Graph, keep_freed_memory
from foregather.graph.synthetic import synthesize
from foregather.nn import resgcn_layers
from foregather.units import format_bytes, parse_count, parse_size

CLASSES, FEATURES, CHUNKS = 40, 64, 32
CELLS = ["20k:64:32", "20k:64:64", "20k:256:32", "20k:256:64", "200k:64:32", "200k:64:64",
         "200k:256:32", "200k:256:64"]  # fmt: skip
Facts = dict[str, Any]


def made(kind: str, graph: Graph, width: int, depth: int, chunks: int) -> Any:
    """A run by its name."""
    torch.manual_seed(0)
    name, _, rest = kind.partition(":")
    if name in ("pyg", "module"):
        model = Deep(graph.features.width, width, CLASSES, depth)
        return Module(graph, model) if name == "pyg" else Ours(graph, model, chunks, {})
    layers = resgcn_layers(graph.features.width, width, CLASSES, depth, dropout=0.0)
    if name in ("plain", "sums"):
        return Plain(graph, layers, name == "sums", int(rest or 0))
    return Ours(graph, layers, chunks, json.loads(rest))


def child(path: str, kind: str, width: int, depth: int, chunks: int, epochs: int) -> None:
    """One run; facts go to the standard output."""
    torch.set_num_threads(1)
    if '"memory"' not in kind:
        keep_freed_memory()  # not where the environment says otherwise
    few = kind if '"memory"' not in kind else 'ours:{"recompute": "segments"}'
    made(few, few_nodes(4 * chunks + 200, FEATURES, CLASSES), 8, 3, chunks).epoch()
    graph = Graph.open(path)
    run = made(kind, graph, width, depth, chunks)
    told = run.run.engine.whole.explain() if isinstance(run, Ours) else ""
    if epochs > 1:
        run.epoch()
        gc.collect()
    before, each = resident(), max(1, epochs - 1)
    with Peak() as peak:
        loss = 0.0
        begin, wall = time.process_time(), time.perf_counter()
        for _ in range(each):
            loss = run.epoch()
        used, wall = time.process_time() - begin, time.perf_counter() - wall
    facts = {"peak": peak.most - before, "cpu": used / each, "wall": wall / each, "loss": loss}
    print(json.dumps({**facts, "told": told}))


def measure(path: str, kind: str, *sizes: int, group: Any = None, peak: bool = True) -> Facts:
    """One run: the peak in a process of its own, time in another; {} if it was killed."""
    command = [sys.executable, __file__, "--child", path, kind, *map(str, sizes)]
    facts: Facts = {}
    both = ({}, {"MALLOC_MMAP_THRESHOLD_": "131072"}) if peak else ({},)
    for more in both:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **more},
            preexec_fn=group.join if group else None,
        )
        if done.returncode:
            print(kind, done.returncode, done.stderr.strip().splitlines()[-1:], file=sys.stderr)
            return {}
        found = json.loads(done.stdout.splitlines()[-1])
        facts = {**found, **facts, "peak": found["peak"]}
    return facts


def in_rounds(path: str, kinds: dict[str, tuple[str, int]], sizes: tuple[int, int],
              rounds: int, epochs: int, peak: bool) -> dict[str, list[Facts]]:  # fmt: skip
    """All runs, interleaved; those that failed are left out."""
    found: dict[str, list[Facts]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, (kind, chunks) in kinds.items():
            facts = measure(path, kind, *sizes, chunks, epochs, peak=peak)
            print(name, facts, flush=True)
            if facts:
                found[name].append(facts)
    return {name: some for name, some in found.items() if some}


def cell_kinds(depth: int, quick: bool) -> dict[str, tuple[str, int]]:
    """The runs of a cell, by their names in the report."""
    root = math.isqrt(depth)
    found = {"plain": "plain", "plain, our sums": "sums", "checkpoint a layer": "plain:1"}
    for length in (root - 1, root, root + 2):
        found[f"checkpoint, segments of {length}"] = f"plain:{length}"
    found[f"checkpoint, segments of {root}, our sums"] = f"sums:{root}"
    for kept in ("none", "segments", "all", "disk"):
        found[f"ours, {kept}"] = f'ours:{{"recompute": "{kept}"}}'
    if quick:
        wanted = ("plain", f"checkpoint, segments of {root}", "ours, segments")
        found = {name: found[name] for name in wanted}
    return {name: (kind, CHUNKS) for name, kind in found.items()}


def cells(report: Report, given: argparse.Namespace, folder: str) -> None:
    """Peak and time against plain training and checkpointing."""
    for cell in given.cells:
        nodes, width, depth = (parse_count(part) for part in cell.split(":"))
        kinds = cell_kinds(depth, given.quick)
        if given.runs:
            kinds = {n: k for n, k in kinds.items() if any(part in n for part in given.runs)}
        path = made_graph(folder, nodes)
        found = in_rounds(path, kinds, (width, depth), given.rounds, given.epochs, True)
        report.line(
            f"## {nodes:,} nodes, {depth} layers of width {width}\n\nRows of one layer are "
            f"{format_bytes(nodes * width * 4)}; mean degree 16, {CHUNKS} chunks, {given.rounds} "
            f"rounds of {given.epochs} epochs."
        )
        report.table(HEAD, table(found))


def made_graph(folder: str, nodes: int) -> str:
    """A graph of this size, made once."""
    path = Path(folder) / f"graph{nodes}"
    if not path.exists():
        synthesize(str(path), nodes, degree=16, features=FEATURES, classes=CLASSES, seed=0)
    return str(path)


HEAD = ["run", "peak", "of segments", "CPU s an epoch", "spread", "of plain", "of segments", "loss"]


def table(found: dict[str, list[Facts]]) -> list[list[object]]:
    """Medians, and ratios to plain training and to the best segmented checkpointing."""

    def median(name: str, what: str) -> float:
        return statistics.median(one[what] for one in found[name])

    segmented = [n for n in found if n.startswith("checkpoint, segments") and "our" not in n]
    best = min(segmented, key=lambda n: median(n, "peak"), default=None)
    rows: list[list[object]] = []
    for name in found:
        cpu = [one["cpu"] for one in found[name]]
        peak, middle = median(name, "peak"), statistics.median(cpu)
        of_best = ["", ""]
        if best:
            least = median(best, "peak")  # 0 where a quick run is too small to be seen
            of_peak = f"{peak / least:.2f}" if least else "-"
            of_best = [of_peak, f"{middle / median(best, 'cpu'):.2f}"]
        of_plain = f"{middle / median('plain', 'cpu'):.2f}" if "plain" in found else ""
        spread = f"{min(cpu):.2f} to {max(cpu):.2f}"
        loss = f"{found[name][-1]['loss']:.5f}"
        label = f"{name} (the best)" if name == best else name
        rows.append([label, format_bytes(int(peak)), of_best[0], f"{middle:.2f}", spread,
                     of_plain, of_best[1], loss])  # fmt: skip
    return rows


def chunks(report: Report, given: argparse.Namespace, folder: str) -> None:
    """Processor time of an exact epoch against plain training, by number of chunks."""
    nodes, width, depth = (2_000, 16, 4) if given.quick else (20_000, 64, 16)
    path = made_graph(folder, nodes)
    kinds = {"plain": ("plain", 1), "PyG": ("pyg", 1)}
    for count in (1, 8, 32):
        kinds[f"layers, {count}"] = ('ours:{"recompute": "none"}', count)
        kinds[f"module, {count}"] = ("module", count)
    found = in_rounds(path, kinds, (width, depth), given.rounds, given.epochs, False)
    rows = []
    for name, some in found.items():
        plain = "PyG" if name.startswith(("module", "PyG")) else "plain"
        cpu = [one["cpu"] for one in some]
        times = statistics.median(cpu) / statistics.median(one["cpu"] for one in found[plain])
        spread = f"{min(cpu):.2f} to {max(cpu):.2f}"
        rows.append([name, f"{statistics.median(cpu):.2f}", spread, f"{times:.2f} of {plain}"])
    report.line(f"## Chunks: {nodes:,} nodes, {depth} layers of width {width}, all kept")
    report.table(["run, chunks", "CPU s an epoch", "spread", "of plain"], rows)


def limit(report: Report, given: argparse.Namespace, folder: str) -> None:
    """Under a limit of the kernel: a budget against plain training."""
    *counts, size = given.limit.split(":")
    nodes, width, depth = (parse_count(part) for part in counts)
    path, rows = made_graph(folder, nodes), []
    bound = parse_size(size)
    runs = {f"budget of {size}": (f'ours:{{"memory": "{size}", "scratch": "{folder}"}}', bound),
            "plain": ("plain", bound)}  # fmt: skip
    if given.unlimited:
        runs["in memory, no limit"] = ('ours:{"recompute": "segments"}', 1 << 40)
    for name, (kind, most) in runs.items():
        with Cgroup(most) as group:
            if not group.works:
                report.line("limit: a memory cgroup (v1) cannot be made here; run as root.")
                return
            facts = measure(path, kind, width, depth, 2 * CHUNKS, 1, group=group, peak=False)
            used = format_bytes(group.read("memory.max_usage_in_bytes") or 0)
        print(name, facts, used, flush=True)
        if not facts:
            rows.append([name, "killed", "", "", used, "", ""])
            continue
        seconds = [f"{facts['cpu']:.0f}", f"{facts['wall']:.0f}"]
        rows.append([name, "done", *seconds, used, f"{facts['loss']:.5f}", facts["told"]])
    report.line(f"## Limit: {nodes:,} nodes, {depth} layers of width {width}, one epoch, {size}")
    head = ["run", "outcome", "CPU s", "wall s", "most used", "loss", "kept"]
    report.table(head, rows)


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=[*PARTS])
    parser.add_argument("--cells", nargs="*", default=CELLS, help="nodes:width:depth")
    parser.add_argument("--runs", nargs="*", help="runs of cells whose name contains one of these")
    parser.add_argument("--limit", default="1M:256:64:4GB", help="nodes:width:depth:bytes")
    parser.add_argument("--unlimited", action="store_true", help="the same without a limit, too")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where graphs are made and kept; else they are removed")
    parser.add_argument("--quick", action="store_true", help="small graphs, one round")
    parser.add_argument("--child", nargs=6, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        path, kind, *sizes = given.child
        child(path, kind, *map(int, sizes))
        return
    if given.quick:
        given.cells, given.limit, given.rounds = ["2k:16:8"], "10k:64:8:450MB", 1
    report = Report("full_graph_memory", __doc__)
    with tempfile.TemporaryDirectory() as made_here:
        for part in given.only:
            PARTS[part](report, given, given.folder or made_here)
    report.write()


PARTS = {"cells": cells, "chunks": chunks, "limit": limit}

if __name__ == "__main__":
    main()
