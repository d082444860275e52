"""What does deep full-graph training cost on one machine, in memory and in time?

ResGCN+ without dropout on a synthetic graph, float32, one thread, each run in a process of its own.
"plain" is the same layers on the whole graph at once with torch's autograd, and its sums are
products by a compressed sparse matrix of torch (MKL); "plain, our sums" has the core's sums, so
that what is left is recomputation alone. "checkpoint" is `torch.utils.checkpoint` around every
layer, or around segments of about the square root of the layers (the best of three lengths, by
peak). The others are `FullGraph` in mode exact, by what `Runtime` keeps. "peak" is the largest
resident memory in the epochs after the first, above that between them; "CPU" is their processor
time; rounds are interleaved and the median is shown with its spread. Each round has two
processes a run: blocks from 128 KiB on are mapped one by one (MALLOC_MMAP_THRESHOLD_) where the
peak is taken, since glibc else keeps holes, and not where time is taken, since mapping costs more
than the work of small blocks. All train the same: the losses are equal to rounding.

    python benchmarks/full_graph_memory.py [--nodes 20000] [--width 64] [--depth 32] [--chunks 32]
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

import numpy as np
import torch
from common.report import Report
from torch.utils.checkpoint import checkpoint

from foregather import Graph
from foregather.graph.synthetic import synthesize, synthetic_arrays
from foregather.nn import resgcn_layers
from foregather.pipeline import FullGraph, Runtime, make_chunks
from foregather.pipeline.whole.adjacency import Adjacency, Lists
from foregather.units import format_bytes

CLASSES, FEATURES = 40, 64


class Products:
    """Means over in-neighbours as torch computes them: a sparse matrix and its transpose."""

    def __init__(self, lists: Lists) -> None:
        count = lists.indptr.shape[0] - 1
        degree = (lists.indptr[1:] - lists.indptr[:-1]).clamp(min=1)
        weight = torch.repeat_interleave(1 / degree, lists.indptr[1:] - lists.indptr[:-1])
        there = (lists.indptr.int(), lists.source, weight.float())
        back = (lists.ptr.int(), lists.target, (1 / degree)[lists.target.long()].float())
        self.there = torch.sparse_csr_tensor(*there, size=(count, count))
        self.back = torch.sparse_csr_tensor(*back, size=(count, count))

    def mean(self, rows: torch.Tensor) -> torch.Tensor:
        """Means."""
        return Product.apply(rows, self)


class Product(torch.autograd.Function):
    """A product with constant weights; nothing is saved."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, products: Products) -> torch.Tensor:  # noqa: D102
        ctx.products = products
        return products.there @ rows

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # noqa: D102
        return ctx.products.back @ gradient, None


class Sums:
    """The same by the core's sums."""

    def __init__(self, lists: Lists) -> None:
        self.lists, self.span = lists, slice(0, lists.indptr.shape[0] - 1)

    def mean(self, rows: torch.Tensor) -> torch.Tensor:
        """Means."""
        return Sum.apply(rows, self)


class Sum(torch.autograd.Function):
    """A sum with constant weights; nothing is saved."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, sums: Sums) -> torch.Tensor:  # noqa: D102
        ctx.sums = sums
        return sums.lists.sums(rows, sums.span)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # noqa: D102
        return ctx.sums.lists.gradient(gradient, ctx.sums.span), None


class Whole:
    """What a layer sees of the whole graph."""

    def __init__(self, rows: torch.Tensor, place: Products | Sums) -> None:
        self.rows = self.own = rows
        self.count, self._place = rows.shape[0], place

    def aggregate(self, norm: str = "mean") -> torch.Tensor:
        """Means over in-neighbours."""
        assert norm == "mean"
        return self._place.mean(self.rows)

    def dense(self, part: Any, *values: torch.Tensor) -> torch.Tensor:
        """`part(*values)`."""
        return part(*values)


class Plain:
    """Epochs on the whole graph at once; `segment` layers are recomputed together, 0: none are."""

    def __init__(self, graph: Graph, layers: list[Any], ours: bool, segment: int) -> None:
        lists = Adjacency(graph, make_chunks(graph, 1, "natural"), torch.float32).lists("mean")
        self.place = Sums(lists) if ours else Products(lists)
        self.features = torch.from_numpy(graph.features[:])
        self.train = torch.from_numpy(graph.split("train"))
        self.labels = torch.from_numpy(graph.labels[graph.split("train")].astype("i8"))
        self.layers, self.segment = layers, segment
        weights = [p for layer in layers for p in layer.parameters()]
        self.optimizer = torch.optim.Adam(weights, 0.01)

    def part(self, x: torch.Tensor, layers: list[Any]) -> torch.Tensor:
        """Some layers."""
        for layer in layers:
            near = Whole(layer.message(x), self.place) if layer.aggregates else None
            x = layer.update(x, near)
        return x

    def epoch(self) -> float:
        """One epoch; its loss."""
        x = self.features
        step = self.segment or len(self.layers)
        for first in range(0, len(self.layers), step):
            some = self.layers[first : first + step]
            if self.segment and first + step < len(self.layers):  # the last one need not
                x = checkpoint(self.part, x, some, use_reentrant=False)
            else:
                x = self.part(x, some)
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(x[self.train], self.labels)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


class Ours:
    """The same by `FullGraph`."""

    def __init__(self, graph: Graph, layers: list[Any], chunks: int, options: Any) -> None:
        runtime = Runtime(**options)
        self.run = FullGraph(graph, layers, chunks, partition="natural", runtime=runtime)

    def epoch(self) -> float:
        """One epoch; its loss."""
        return self.run.train_epoch().loss


class Peak:
    """The largest resident memory while it watches, as the kernel marks it."""

    def __enter__(self) -> "Peak":
        self.most = resident()
        Path("/proc/self/clear_refs").write_text("5")  # the kernel's own mark starts again here
        return self

    def __exit__(self, *_: Any) -> None:
        lines = Path("/proc/self/status").read_text().splitlines()
        marked = next(line for line in lines if line.startswith("VmHWM"))
        self.most = max(self.most, int(marked.split()[1]) * 1024)


def resident() -> int:
    """Resident bytes now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def made(kind: str, graph: Graph, given: argparse.Namespace) -> Plain | Ours:
    """A run by its name."""
    torch.manual_seed(0)
    layers = resgcn_layers(graph.features.width, given.width, CLASSES, given.depth, dropout=0.0)
    name, _, rest = kind.partition(":")
    if name in ("plain", "sums"):
        return Plain(graph, layers, name == "sums", int(rest or 0))
    return Ours(graph, layers, given.chunks, json.loads(rest))


def warm(given: argparse.Namespace, kind: str) -> None:
    """A few nodes trained: what torch loads and allocates once is there afterwards."""
    nodes = 4 * given.chunks + 200
    few = synthetic_arrays(nodes, degree=4, features=FEATURES, classes=CLASSES)
    pairs = np.stack([few.indices.astype("i8"), np.repeat(np.arange(nodes), np.diff(few.indptr))])
    rest = {"x": few.features, "y": few.labels, "splits": few.splits}
    small = argparse.Namespace(**{**vars(given), "width": 8, "depth": 3})
    if '"memory"' in kind:
        kind = 'ours:{"recompute": "segments"}'
    made(kind, Graph.from_edge_index(pairs, nodes, **rest), small).epoch()


def child(path: str, kind: str, given: argparse.Namespace) -> None:
    """One run; facts go to the standard output."""
    torch.set_num_threads(1)
    warm(given, kind)
    graph = Graph.open(path)
    run = made(kind, graph, given)
    run.epoch()
    gc.collect()
    before = resident()
    with Peak() as peak:
        loss = 0.0
        begin, wall = time.process_time(), time.perf_counter()
        for _ in range(given.epochs - 1):
            loss = run.epoch()
        used, wall = time.process_time() - begin, time.perf_counter() - wall
    each = max(1, given.epochs - 1)
    facts = {"peak": peak.most - before, "cpu": used / each, "wall": wall / each, "loss": loss}
    print(json.dumps(facts))


def kinds(given: argparse.Namespace) -> dict[str, str]:
    """All runs, by their names in the report."""
    root = math.isqrt(given.depth)
    found = {"plain": "plain", "plain, our sums": "sums", "checkpoint a layer": "plain:1"}
    for length in (root - 1, root, root + 2):
        found[f"checkpoint, segments of {length}"] = f"plain:{length}"
    found[f"checkpoint, segments of {root}, our sums"] = f"sums:{root}"
    found["ours, none"] = 'ours:{"recompute": "none"}'
    found["ours, segments"] = 'ours:{"recompute": "segments"}'
    found["ours, all"] = 'ours:{"recompute": "all"}'
    found["ours, disk"] = 'ours:{"recompute": "disk"}'
    return found


def measure(path: str, kind: str, given: argparse.Namespace) -> dict[str, float] | None:
    """One run in a process of its own; None if it failed."""
    sizes = [f"--{n}={getattr(given, n)}" for n in ("width", "depth", "chunks", "epochs", "nodes")]
    command = [sys.executable, __file__, *sizes, "--child", path, kind]
    facts: dict[str, float] = {}
    for more in ({}, {"MALLOC_MMAP_THRESHOLD_": "131072"}):
        environment = {**os.environ, **more}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            print(kind, done.returncode, done.stderr.strip().splitlines()[-1:], file=sys.stderr)
            return None
        found = json.loads(done.stdout.splitlines()[-1])
        facts = {**found, **facts, "peak": found["peak"]}
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--chunks", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="runs whose name contains one of these, divided by ;")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(*given.child, given)
        return
    report = Report("full_graph_memory", __doc__)
    wanted = kinds(given)
    if given.only:
        parts = given.only.split(";")
        wanted = {n: k for n, k in wanted.items() if any(part in n for part in parts)}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in wanted}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "graph")
        synthesize(path, given.nodes, degree=16, features=FEATURES, classes=CLASSES, seed=0)
        for _ in range(given.rounds):
            for name, kind in wanted.items():
                facts = measure(path, kind, given)
                print(name, facts, flush=True)
                if facts is not None:
                    found[name].append(facts)
    row = format_bytes(given.nodes * given.width * 4)
    report.line(
        f"{given.nodes:,} nodes, mean degree 16, {given.depth} layers of width {given.width} (rows "
        f"of one layer are {row}), {given.chunks} chunks; {given.rounds} rounds of "
        f"{given.epochs} epochs."
    )
    report.table(HEAD, table(found))
    report.write()


HEAD = [
    "run",
    "peak",
    "of segments",
    "CPU s an epoch",
    "spread",
    "of plain",
    "of segments",
    "loss",
]


def table(found: dict[str, list[dict[str, float]]]) -> list[list[object]]:
    """Medians, and ratios to plain training and to the best segmented checkpointing."""

    def median(name: str, what: str) -> float:
        return statistics.median(one[what] for one in found[name])

    done = [name for name in found if found[name]]
    segmented = [n for n in done if n.startswith("checkpoint, segments") and "our" not in n]
    best = min(segmented, key=lambda n: median(n, "peak"), default=None)
    rows: list[list[object]] = []
    for name in done:
        cpu = [one["cpu"] for one in found[name]]
        peak, middle = median(name, "peak"), statistics.median(cpu)
        of_best = ["", ""]
        if best:
            of_best = [f"{peak / median(best, 'peak'):.2f}", f"{middle / median(best, 'cpu'):.2f}"]
        of_plain = f"{middle / median('plain', 'cpu'):.2f}" if "plain" in done else ""
        spread = f"{min(cpu):.2f} to {max(cpu):.2f}"
        loss = f"{found[name][-1]['loss']:.5f}"
        label = f"{name} (the best)" if name == best else name
        rows.append([label, format_bytes(int(peak)), of_best[0], f"{middle:.2f}", spread,
                     of_plain, of_best[1], loss])  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
