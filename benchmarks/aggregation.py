"""How fast are the aggregation kernels on the edges of a batch?

The edges are those of true batches: a synthetic graph of a million nodes, [15, 10, 5] neighbours of
1024 seeds. Rows of all sources are added up by target (forward) and the gradient of the targets is
taken back to the sources (backward), by our kernels; by torch's product with a CSR matrix (MKL),
whose transpose was made beforehand, as our lists by source were; and as PyG does without further
packages: `index_select`, `scatter`, and torch's gradient of both. A second table has the other
reductions beside PyG's form of them.

The bound is what memory allows: the rows that are read once for each edge at the measured rate of
reading random rows of that width, and the rows of the result at the measured rate of copying; what
stays in a cache may come faster. Of the other reductions it has all that their kernels read and
write, forward and backward. Contenders are interleaved in an order drawn anew each round; a
ratio is the median over rounds of theirs / ours: above 1 we are faster.

    python benchmarks/aggregation.py [--quick] [--rounds 9] [--date 2026-11-17]
"""

import argparse
import itertools
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from common.report import Report, median_spread
from torch import Tensor
from torch_geometric.utils import scatter, softmax

from foregather import Graph, Loader, _core
from foregather.graph.features import Features
from foregather.graph.synthetic import synthetic_arrays
from foregather.nn.aggregate import Neighborhoods, aggregate, aggregate_heads, edge_softmax

PAUSE = 0.03  # torch's threads spin for a while after a call
HEADS = 4
STORED = (torch.float32, torch.bfloat16, torch.float16)
Calls = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Batch:
    """The edges of one batch, for its widest layer."""

    edge_index: Tensor
    sources: int
    targets: int
    lists: Neighborhoods


def sample(nodes: int, seeds: int, fanouts: list[int]) -> Batch:
    made = synthetic_arrays(nodes, edges=20 * nodes, features=0, classes=2)
    x = Features(np.zeros((nodes, 1), np.float32))
    graph = Graph(nodes, len(made.indices), made.indptr, made.indices, x)
    batch = next(iter(Loader(graph, fanouts, None, seeds, shuffle=True, seed=1)))
    counts = list(batch.num_sampled_nodes)
    sources, targets = sum(counts), sum(counts[:-1])
    lists = Neighborhoods.of(batch.edge_index, sources, targets)
    return Batch(batch.edge_index.clone(), sources, targets, lists)


def measure(calls: Calls, rounds: int) -> dict[str, list[float]]:
    """Seconds by contender; the first round warms up."""
    rng = np.random.default_rng(1)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name in rng.permutation(list(calls)).tolist():
            time.sleep(PAUSE)
            start = time.perf_counter()
            calls[name]()
            if turn:
                times[name].append(time.perf_counter() - start)
    return times


def ratio(times: dict[str, list[float]], name: str) -> str:
    if name not in times:
        return "-"
    shares = [a / b for a, b in zip(times[name], times["ours"], strict=True)]
    return f"**{statistics.median(shares):.2f}**"


def cell(times: dict[str, list[float]], name: str) -> str:
    return median_spread([1000 * t for t in times[name]]) if name in times else "-"


def csr(ptr: Tensor, index: Tensor, columns: int) -> Tensor:
    """A matrix of ones with 4-byte indices, which MKL prefers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape = (len(ptr) - 1, columns)
        return torch.sparse_csr_tensor(ptr.int(), index.int(), torch.ones(len(index)), shape)


def backward(out: Tensor, x: Tensor, grad: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(out, x, grad, retain_graph=True)


def contenders(batch: Batch, width: int, dtype: torch.dtype) -> tuple[Calls, Calls]:
    """Sums and their gradients."""
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(batch.sources, width, generator=rng).to(dtype).requires_grad_()
    grad = torch.rand(batch.targets, width, generator=rng).to(dtype)
    lists, (source, target) = batch.lists, batch.edge_index

    def pyg() -> Tensor:
        return scatter(x.index_select(0, source), target, 0, batch.targets, "sum")

    forward: Calls = {"ours": lambda: aggregate(x.detach(), lists), "pyg": torch.no_grad()(pyg)}
    back = {"ours": backward(aggregate(x, lists), x, grad), "pyg": backward(pyg(), x, grad)}
    if dtype == torch.float32:
        by_source = lists.by_source
        matrix = csr(lists.indptr, lists.source, batch.sources)
        turned = csr(by_source.ptr, by_source.target, batch.targets)
        forward["mkl"] = lambda: torch.mm(matrix, x.detach())
        back["mkl"] = lambda: torch.mm(turned, grad)
    return forward, back


def rates(width: int, dtype: torch.dtype, rounds: int, size: int) -> tuple[float, float]:
    """Bytes a second: of random rows that are read, and of a copy, read and written."""
    bytes_a_row = width * dtype.itemsize
    rows = size // bytes_a_row
    matrix = np.ones((rows, bytes_a_row), np.uint8)
    ids = np.random.default_rng(0).integers(0, rows, rows // 8).astype(np.uint32)
    few = np.ones((len(ids), bytes_a_row), np.uint8)
    threads = torch.get_num_threads()
    given, taken = torch.ones(size // 16), torch.ones(size // 16)
    times = measure(
        {
            "rows": lambda: _core.gather_rows(matrix, ids, few, None, threads),
            "copy": lambda: taken.copy_(given),
        },
        rounds,
    )
    copy = size // 2 / statistics.median(times["copy"])
    # what a gather writes is taken off at the rate of a copy
    spent = statistics.median(times["rows"]) - few.nbytes / copy
    return few.nbytes / max(spent, few.nbytes / copy / 4), copy


def sums(batch: Batch, widths: list[int], rounds: int, size: int) -> list[list[str]]:
    rows = []
    edges = batch.lists.num_edges
    for dtype, width, threads in itertools.product(STORED, widths, (1, 2)):
        torch.set_num_threads(threads)
        random_rate, copy_rate = rates(width, dtype, rounds, size)
        values = width * dtype.itemsize
        for way, calls in zip(
            ("forward", "backward"), contenders(batch, width, dtype), strict=True
        ):
            written = batch.targets if way == "forward" else batch.sources
            bound = edges * values / random_rate + written * values / copy_rate
            times = measure(calls, rounds)
            share = bound / statistics.median(times["ours"])
            rows.append(
                [str(dtype).removeprefix("torch."), str(width), str(threads), way]
                + [cell(times, name) for name in ("ours", "mkl", "pyg")]
                + [ratio(times, "mkl"), ratio(times, "pyg"), f"{1000 * bound:.3g}", f"{share:.0%}"]
            )
    return rows


@dataclass(frozen=True)
class Reduction:
    """One of the other reductions.

    Attributes:
        ours: by our kernels.
        pyg: as PyG does.
        leaves: what gets a gradient.
        rows: rows that its kernels read at random, forward and backward.
        streamed: bytes that they read or write in order.
    """

    ours: Callable[[], Tensor]
    pyg: Callable[[], Tensor]
    leaves: list[Tensor]
    rows: int
    streamed: int

    def bound(self, bytes_a_row: int, random_rate: float, copy_rate: float) -> float:
        """Seconds that memory takes."""
        return self.rows * bytes_a_row / random_rate + self.streamed / copy_rate


def reductions(batch: Batch, width: int) -> dict[str, Reduction]:
    """Mean, maximum, weighted sums and softmax beside PyG's form.

    Rows are counted once an edge and way; the gradient of a maximum also reads who won, that of a
    weight also the rows themselves. In order come results, weights, logits and their gradients.
    """
    lists, (source, target), count = batch.lists, batch.edge_index, batch.targets
    x = torch.rand(batch.sources, width).requires_grad_()
    weight = torch.rand(lists.num_edges).requires_grad_()
    logits = torch.rand(lists.num_edges, HEADS).requires_grad_()
    edges, results = lists.num_edges, (count + batch.sources) * 4 * width

    def messages() -> Tensor:
        return x.index_select(0, source)

    def heads(values: Tensor) -> Tensor:
        return values.view(-1, HEADS, width // HEADS)

    def scattered(rows: Tensor, how: str = "sum") -> Tensor:
        return scatter(rows, target, 0, count, how)

    def softmax_of_target() -> Tensor:
        return softmax(logits, target, num_nodes=count)

    def ours(how: str, by: Tensor | None = None) -> Callable[[], Tensor]:
        return lambda: aggregate(x, lists, how, by)

    again = count * 4 * width  # rows of targets that are read in order: winners, or gradients
    return {
        "mean": Reduction(
            ours("mean"), lambda: scattered(messages(), "mean"), [x], 2 * edges, results
        ),
        "max": Reduction(
            ours("max"), lambda: scattered(messages(), "max"), [x], 3 * edges, results + again
        ),
        "weighted sum": Reduction(
            ours("sum", weight),
            lambda: scattered(messages() * weight[:, None]),
            [x, weight],
            3 * edges,
            results + again + 3 * weight.nbytes,
        ),
        "softmax": Reduction(
            lambda: edge_softmax(logits, lists), softmax_of_target, [logits], 0, 5 * logits.nbytes
        ),
        f"softmax-weighted sum, {HEADS} heads": Reduction(
            lambda: aggregate_heads(heads(x), lists, edge_softmax(logits, lists)),
            lambda: scattered(heads(messages()) * softmax_of_target()[:, :, None]),
            [x, logits],
            3 * edges,
            results + again + (5 + 3) * logits.nbytes,
        ),
    }


def others(batch: Batch, width: int, rounds: int, size: int) -> list[list[str]]:
    """The other reductions, forward and backward at once."""
    rows, known = [], {}
    for (name, one), threads in itertools.product(reductions(batch, width).items(), (1, 2)):
        torch.set_num_threads(threads)
        if threads not in known:
            known[threads] = rates(width, torch.float32, rounds, size)

        def step(call: Callable[[], Tensor], leaves: list[Tensor] = one.leaves) -> object:
            out = call()
            return torch.autograd.grad(out, leaves, torch.ones_like(out))

        times = measure({"ours": partial(step, one.ours), "pyg": partial(step, one.pyg)}, rounds)
        bound = one.bound(4 * width, *known[threads])
        share = bound / statistics.median(times["ours"])
        cells = [cell(times, "ours"), cell(times, "pyg"), ratio(times, "pyg")]
        rows.append([name, str(threads), *cells, f"{1000 * bound:.3g}", f"{share:.0%}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small graph, few rounds")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--date", default=None)
    given = parser.parse_args()
    nodes, seeds, fanouts = (20_000, 64, [5, 5]) if given.quick else (10**6, 1024, [15, 10, 5])
    rounds, size = (2, 2**26) if given.quick else (given.rounds, 2**30)
    widths = [64] if given.quick else [64, 128, 256]
    batch = sample(nodes, seeds, fanouts)
    report = Report("aggregation", __doc__, given.date)
    report.line(
        f"{batch.lists.num_edges:,} edges from {batch.sources:,} sources to {batch.targets:,} "
        f"targets, {rounds} rounds; milliseconds as median (range)."
    )
    start = time.perf_counter()
    lists = Neighborhoods.of(batch.edge_index, batch.sources, batch.targets)
    middle = time.perf_counter()
    assert len(lists.by_source.edge) == lists.num_edges
    report.line(
        f"Lists by target and their check took {1000 * (middle - start):.2g} ms, lists by source "
        f"{1000 * (time.perf_counter() - middle):.2g} ms, once a batch."
    )
    head = ["stored", "columns", "threads", "way", "ours", "MKL", "PyG"]
    head += ["MKL / ours", "PyG / ours", "bound, ms", "bound / ours"]
    report.table(head, sums(batch, widths, rounds, size))
    width = widths[len(widths) // 2]
    report.line(f"Forward and backward of the other reductions, float32, {width} columns:")
    head = ["reduction", "threads", "ours", "PyG", "PyG / ours", "bound, ms", "bound / ours"]
    report.table(head, others(batch, width, rounds, size))
    report.write()


if __name__ == "__main__":
    main()
