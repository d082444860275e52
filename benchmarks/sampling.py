"""How fast is bulk neighbour sampling, measured in random reads of the same memory?

Each round measures the probe (64-byte reads from a 4 GB array through an index array, the best of
five prefetch distances, three times each) and then `Neighbor` with fan-out [15, 10, 5] and 1024
seeds a minibatch, without replacement, relabelled and ready for a model; one thread and two. The
ratio is sampled edges a second over reads a second of the same round. Weighted `Neighbor` and
`Labor` follow, on one thread, each round beside uniform `Neighbor` on the same seeds. Below, the
cost of one edge over fan-outs, batch sizes and graph sizes shows that cost grows with the edges
sampled.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np
from common.report import Report, median_spread

from foregather import Graph, _core
from foregather.graph.synthetic import synthetic_arrays
from foregather.observe.buffer import aligned_buffer
from foregather.sampling import Bulk, Labor, Neighbor, Sampler
from foregather.units import format_bytes

FANOUT = [15, 10, 5]
SEEDS = 1024
RULES = ["graph", "rule", "nodes", "edges", "ms a minibatch", "over uniform"]
BULK = 16


def synthetic(nodes: int, edges: int) -> Graph:
    made = synthetic_arrays(nodes, edges=edges, features=0, classes=2)
    return Graph(nodes, edges, made.indptr, made.indices)


def actors() -> Graph | None:
    """The co-star graph, 30M edges both ways, where the real graphs are at hand."""
    folder = os.environ.get("FOREGATHER_DATA")
    if not folder or not (Path(folder) / "actors_collab.npz").exists():
        return None
    with np.load(Path(folder) / "actors_collab.npz") as arrays:
        pairs, nodes = arrays["edge_index"], int(arrays["num_nodes"])
    return Graph.from_edge_index(pairs, nodes, undirected=True)


class Probe:
    """Random reads a second."""

    def __init__(self) -> None:
        self.words = aligned_buffer(4 << 30).view(np.uint64)
        self.words[:] = 1  # every page is there before the first measurement
        index = np.random.default_rng(0).integers(0, 1 << 26, 4_000_000)
        self.index = index.astype(np.uint32)

    def __call__(self, threads: int) -> float:
        """The best rate over prefetch distances."""
        best = 0.0
        for distance in (8, 16, 24, 32, 64) * 3:
            start = time.perf_counter()
            _core.testing.read_lines(self.words, self.index, distance, threads)
            best = max(best, len(self.index) / (time.perf_counter() - start))
        return best


def seeds_of(graph: Graph, size: int, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.choice(graph.num_nodes, size, replace=False) for _ in range(count)]


def rate(rule: Sampler, graph: Graph, seeds: list, epoch: int, threads: int) -> tuple:
    start = time.perf_counter()
    bulk = rule.sample_bulk(graph, seeds, seed=0, epoch=epoch, threads=threads)
    seconds = time.perf_counter() - start
    return sum(len(s.row) for s in bulk) / seconds, len(seeds) / seconds, bulk


def teams(name: str, graph: Graph, rounds: int) -> list[list[object]]:
    """Two threads over one, by the minibatches of a bulk; with one, both make parts of it."""
    rule, rows = Neighbor(FANOUT), []
    for count in (1, 2, 3, 8):
        seeds, gain = seeds_of(graph, SEEDS, count), []
        for epoch in range(-1, 4 * rounds):
            one, two = (1 / rate(rule, graph, seeds, max(epoch, 0), t)[1] for t in (1, 2))
            if epoch >= 0:
                gain.append(one / two)
        rows.append([name, count, median_spread(gain)])
    return rows


def compare(name: str, graph: Graph, probe: Probe, rounds: int) -> list[list[object]]:
    rule, seeds = Neighbor(FANOUT), seeds_of(graph, SEEDS, BULK)
    found: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
    for threads in (1, 2):
        rate(rule, graph, seeds, 0, threads)  # tables and arenas are made here
    for epoch in range(1, rounds + 1):
        for threads in (1, 2):
            reads = probe(threads)
            edges, batches, bulk = rate(rule, graph, seeds, epoch, threads)
            del bulk  # gives its arrays back, as a training loop does, so that none are made anew
            found[threads].append((batches, edges / 1e6, edges / reads))
    rows = []
    for threads, values in found.items():
        columns = [median_spread(column) for column in zip(*values, strict=True)]
        rows.append([name, threads, *columns])
    gain = [b[1] / a[1] for a, b in zip(found[1], found[2], strict=True)]
    rows[-1].append(median_spread(gain))
    rows[0].append("")
    return rows


def rules(name: str, graph: Graph, rounds: int) -> list[list[object]]:
    """The cost of a minibatch by other rules, over that of uniform `Neighbor` in the same round."""
    rng, seeds = np.random.default_rng(2), seeds_of(graph, SEEDS, BULK)
    even = 1 - rng.random(graph.num_edges, np.float32)  # (0, 1]
    skewed = np.exp(2 * rng.standard_normal(graph.num_edges, np.float32))
    kinds: dict[str, Sampler] = {
        "Neighbor": Neighbor(FANOUT),
        "weights uniform in (0, 1]": Neighbor(FANOUT, weights=even),
        "weights log-normal, sigma 2": Neighbor(FANOUT, weights=skewed),
        "Labor": Labor(FANOUT),
        "Neighbor, with replacement": Neighbor(FANOUT, replace=True),
        "uniform weights, with replacement": Neighbor(FANOUT, replace=True, weights=even),
    }
    for rule in kinds.values():
        rate(rule, graph, seeds, 0, 1)  # tables and arenas are made here
    costs: dict[str, list[float]] = {kind: [] for kind in kinds}
    sizes: dict[str, tuple[float, float]] = {}
    for epoch in range(1, rounds + 1):
        for kind, rule in kinds.items():
            _, batches, bulk = rate(rule, graph, seeds, epoch, 1)
            costs[kind].append(1e3 / batches)
            sizes[kind] = _sizes(bulk)
    rows: list[list[object]] = []
    for kind, values in costs.items():
        base = costs["Neighbor, with replacement" if "replacement" in kind else "Neighbor"]
        ratio = median_spread([a / b for a, b in zip(values, base, strict=True)])
        nodes, edges = sizes[kind]
        rows.append([name, kind, f"{nodes:,.0f}", f"{edges:,.0f}", median_spread(values), ratio])
    return rows


def _sizes(bulk: Bulk) -> tuple[float, float]:
    """Mean nodes and edges of a minibatch."""
    return statistics.mean(len(s.node) for s in bulk), statistics.mean(len(s.row) for s in bulk)


def scaling(graphs: dict[str, Graph]) -> list[list[object]]:
    rows = []
    for name, graph in graphs.items():
        for fanout in ([5, 5], [10, 10, 10], [15, 10, 5], [20, 15, 10]):
            for size in (256, 1024):
                seeds = seeds_of(graph, size, BULK)
                rule = Neighbor(fanout)
                rate(rule, graph, seeds, 0, 1)
                times = [rate(rule, graph, seeds, epoch, 1) for epoch in range(1, 4)]
                edges = statistics.mean(len(s.row) for s in times[-1][2])
                cost = statistics.median(1e9 / t[0] for t in times)
                table = rule._kernel(graph).table_bytes / graph.num_nodes
                rows.append([name, fanout, size, f"{edges:,.0f}", f"{cost:.1f}", f"{table:.1f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rules", action="store_true", help="only weighted and Labor, 1M nodes")
    args = parser.parse_args()
    if args.rules:
        report = Report("sampling_rules", rules.__doc__)
        small = synthetic(1_000_000, 20_000_000)
        report.line(f"Fan-out {FANOUT}, {SEEDS} seeds; {args.rounds} rounds, bulks of {BULK}.")
        report.table(RULES, rules("1M nodes, 20M edges", small, args.rounds))
        report.write()
        return
    graphs = {
        "1M nodes, 20M edges": synthetic(1_000_000, 20_000_000),
        "10M nodes, 160M edges": synthetic(10_000_000, 160_000_000),
    }
    real = actors()
    if real is not None:
        graphs["actors_collab, 30M edges"] = real
    report = Report("sampling", __doc__)
    probe = Probe()
    rows = [
        row for name, graph in graphs.items() for row in compare(name, graph, probe, args.rounds)
    ]
    report.line(f"{args.rounds} rounds, bulks of {BULK} minibatches; median (least to most).")
    head = ["graph", "threads", "minibatches/s", "M edges/s", "edges per read", "two over one"]
    report.table(head, rows)
    report.line("Two threads over one, by the minibatches of a bulk.")
    found = [row for n, g in graphs.items() for row in teams(n, g, args.rounds)]
    report.table(["graph", "minibatches", "two over one"], found)
    report.line("One thread: a minibatch by weight, and by Labor, beside uniform neighbours.")
    report.table(RULES, [row for n, g in graphs.items() for row in rules(n, g, args.rounds)])
    report.line(
        "One thread: edges of a minibatch, ns per sampled edge, table bytes per node of the graph."
    )
    head = ["graph", "fan-out", "seeds", "edges", "ns per edge", "table, bytes per node"]
    report.table(head, scaling(graphs))
    biggest = max(graphs.values(), key=lambda graph: graph.num_edges)
    report.line(f"The largest graph takes {format_bytes(biggest.nbytes)} in memory.")
    report.write()


if __name__ == "__main__":
    main()
