"""How much of what the kernel and the gather reach alone does the Loader deliver?

Alone: `Neighbor` samples bulks and `gather_rows` copies the feature rows of each minibatch into one
buffer that is used again; nothing else is made. Loader: the same minibatches as PyG `Data`, with
x, y, edge_index, n_id, e_id and the rest, each dropped when the next one is taken. The rounds are
interleaved and their order is drawn; the ratio is Loader over alone in minibatches a second,
paired by round. 128 float32 columns, fan-out [15, 10, 5], 1024 seeds a minibatch.

Around it: the first batch of a loop, CPU and wall (a later epoch, so that tables and blocks are
there); the first epoch of a Loader against later ones; anonymous memory above the loaded graph at
its highest, beside what `explain()` states; and batches so small that only the calls count: a graph
of 2,708 nodes, fan-out [10, 10], 32 seeds and 1 seed a batch.

    python benchmarks/loader.py [--rounds 9] [--batches 48] [--around]
"""

import argparse
import statistics
import threading
import time
from pathlib import Path

import numpy as np
from common.report import Report, median_spread

from foregather import BatchContents, Graph, Loader, _core
from foregather.graph.features import Features
from foregather.graph.synthetic import synthetic_arrays
from foregather.loader.seeds import Seeds
from foregather.sampling import Neighbor

FANOUT, SEEDS, BULK, COLUMNS = [15, 10, 5], 1024, 8, 128


def make_graph(nodes: int, edges: int) -> Graph:
    """The synthetic graph; the values of features do not matter, but every page is there."""
    made = synthetic_arrays(nodes, edges=edges, features=0, classes=40)
    x = np.ones((nodes, COLUMNS), np.float32)
    labels = (np.arange(nodes) % 40).astype(np.int16)
    return Graph(nodes, edges, made.indptr, made.indices, Features(x), labels=labels)


def input_nodes(graph: Graph, batches: int) -> np.ndarray:
    """Random nodes that make an epoch of `batches` batches, so that nothing is made in vain."""
    return np.random.default_rng(1).choice(graph.num_nodes, batches * SEEDS, replace=False)


class Alone:
    """Kernel and gather, nothing else."""

    def __init__(self, graph: Graph, batches: int, threads: int) -> None:
        self.graph, self.threads, self.batches = graph, threads, batches
        self.rule = Neighbor(FANOUT)
        self.seeds = Seeds.make(graph, input_nodes(graph, batches), SEEDS, shuffle=True)
        self.out = np.zeros((1 << 20, COLUMNS), np.float32)

    def __call__(self, epoch: int) -> int:
        """Runs an epoch; returns the edges sampled."""
        assert self.graph.features is not None
        edges = 0
        for start in range(0, self.batches, BULK):
            seeds = [self.seeds.batch(epoch, start + b)[0] for b in range(BULK)]
            bulk = self.rule.sample_bulk(
                self.graph, seeds, seed=0, epoch=epoch, first_batch=start, threads=self.threads
            )
            for sample in bulk:
                out = self.out[: sample.node.size]
                _core.gather_rows(self.graph.features.data, sample.node, out, None, self.threads)
                edges += sample.row.size
        return edges


class Delivered:
    """The Loader as a user has it."""

    def __init__(self, graph: Graph, batches: int, threads: int, **options: object) -> None:
        self.loader = Loader(
            graph,
            FANOUT,
            input_nodes(graph, batches),
            SEEDS,
            shuffle=True,
            threads=threads,
            bulk=BULK,
            **options,  # type: ignore[arg-type]
        )

    def __call__(self, epoch: int) -> int:
        """Takes the batches of an epoch; returns the edges delivered."""
        self.loader.set_epoch(epoch)
        edges = 0
        for batch in self.loader:
            edges += batch.e_id.shape[0]
            del batch
        return edges


def compare(graph: Graph, threads: int, rounds: int, batches: int) -> list[list[object]]:
    contenders = {
        "kernel and gather alone": Alone(graph, batches, threads),
        "Loader, Data": Delivered(graph, batches, threads),
        "Loader, Batch": Delivered(graph, batches, threads, contents=BatchContents(pyg=False)),
    }
    rng = np.random.default_rng(0)
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        found = set()
        for name in rng.permutation(list(contenders)).tolist():
            start = time.perf_counter()
            found.add(contenders[name](turn))
            if turn:  # the first round makes tables and buffers
                rates[name].append(batches / (time.perf_counter() - start))
        assert len(found) == 1, "the contenders did not make the same minibatches"
    alone = rates["kernel and gather alone"]
    rows: list[list[object]] = []
    for name, values in rates.items():
        ratio = [mine / theirs for mine, theirs in zip(values, alone, strict=True)]
        cell = f"**{statistics.median(ratio):.2f}** ({min(ratio):.2f} to {max(ratio):.2f})"
        rows.append([name, threads, median_spread(values), cell])
    return rows


def anonymous_bytes() -> int:
    """Memory of this process that is not a file."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon"))


class Peak:
    """Samples anonymous memory above what it was at the start, while entered."""

    def __enter__(self) -> "Peak":
        self.most = self._base = anonymous_bytes()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.002):
            self.most = max(self.most, anonymous_bytes())

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def megabytes(self) -> float:
        """At most, above the start."""
        return (self.most - self._base) / 1e6


def epoch_of(loader: Loader) -> tuple[float, float, float, float]:
    """Milliseconds: to the first batch, wall and CPU of the process; a batch, wall and CPU."""
    start, cpu, first = time.perf_counter(), time.process_time(), (0.0, 0.0)
    for number, batch in enumerate(loader):
        if not number:
            first = (time.perf_counter() - start, time.process_time() - cpu)
        del batch
    each = (time.perf_counter() - start, time.process_time() - cpu)
    return (*(1e3 * one for one in first), *(1e3 * one / len(loader) for one in each))


def around(graph: Graph, rounds: int, batches: int) -> list[list[object]]:
    """First batch, first epoch, memory, and tiny graphs."""
    rows: list[list[object]] = []
    with Peak() as peak:
        loader = Delivered(graph, batches, 0).loader
        cold = epoch_of(loader)
        warm = [
            median_spread(column)
            for column in zip(*(epoch_of(loader) for _ in range(rounds)), strict=True)
        ]
    names = ["first batch, wall", "first batch, CPU", "a batch, wall", "a batch, CPU"]
    for name, before, later in zip(names, cold, warm, strict=True):
        rows.append([f"{name}, ms", f"{before:.1f}", later])
    rows.append(["above the graph at most, MB", f"{peak.megabytes:.0f}", loader.explain()])
    rng = np.random.default_rng(0)
    pairs, x = rng.integers(0, 2708, (2, 10556)), rng.random((2708, 128), np.float32)
    tiny = Graph.from_edge_index(pairs, 2708, x=x, y=rng.integers(0, 7, 2708))
    for seeds in (32, 1):
        small = Loader(tiny, [10, 10], None, seeds, shuffle=True)
        cold = epoch_of(small)
        later = [epoch_of(small)[2:] for _ in range(3 * rounds)]
        for place, name in enumerate(("wall", "CPU")):
            cell = median_spread([1e3 * one[place] for one in later])
            label = f"2,708 nodes, {seeds} seeds: a batch, {name}, microseconds"
            rows.append([label, f"{1e3 * cold[2 + place]:.0f}", cell])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batches", type=int, default=48)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument(
        "--around", action="store_true", help="only what is around the steady state"
    )
    parser.add_argument("--dry", action="store_true", help="write no report")
    args = parser.parse_args()
    import torch_geometric.data  # noqa: F401  (not a part of the first batch)

    graph = make_graph(args.nodes, args.edges)
    if args.around:
        report = Report("loader_around", around.__doc__)
        found = around(graph, args.rounds, args.batches)
        report.table(["what", "first epoch", "later"], found)
        if args.dry:
            print("\n".join(" | ".join(map(str, row)) for row in found))
        else:
            report.write()
        return
    report = Report("loader", __doc__)
    rows = [row for t in (1, 2) for row in compare(graph, t, args.rounds, args.batches)]
    report.line(
        f"{args.nodes:,} nodes, {args.edges:,} edges; {args.rounds} rounds of {args.batches} "
        "minibatches after one to warm up; median (least to most)."
    )
    report.table(["what", "threads", "minibatches/s", "ratio to alone"], rows)
    if args.dry:
        print("\n".join(" | ".join(map(str, row)) for row in rows))
    else:
        report.write()


if __name__ == "__main__":
    main()
