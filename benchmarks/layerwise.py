"""How fast are the bulk kernels of LADIES and FastGCN beside SciPy?

Both references follow the same formula, one minibatch after the other and, as SciPy does, on one
thread.
"SciPy" is the formula as one writes it: rows of the targets are sliced from a CSR matrix, p is the
column sum of their squares (for FastGCN that of all rows, computed once beforehand, as here), s
columns are drawn by `rng.choice` without replacement, the columns are sliced, edges are divided by
s p and each row by its sum. "tuned" replaces what is slow in it: `bincount` for the column sums and
exponential keys over the columns that occur (LADIES), bisection in a cumulative sum made once and
draws until s are distinct (FastGCN), and the same exactly unbiased weights as ours; what is left is
mostly SciPy's slicing. Targets of the next layer are the targets and the columns chosen. All sample
the same seeds, in an order drawn anew in each round. The ratios are medians over rounds.

    python benchmarks/layerwise.py [--rounds 7] [--nodes 1000000] [--edges 20000000]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse
from common.report import Report, median_spread

from foregather import Graph
from foregather.graph.synthetic import synthetic_arrays
from foregather.sampling import FastGCN, Ladies
from foregather.sampling.bulk import Bulk

SEEDS = 1024
SIZES = [(512, 512, 512), (2048, 2048, 2048), (8192, 8192)]
Layers = list[scipy.sparse.csr_matrix]


class SciPy:
    """Both samplers over one graph."""

    def __init__(self, graph: Graph) -> None:
        degree = graph.in_degree()
        value = np.repeat(1 / np.maximum(degree, 1), degree)
        shape = (graph.num_nodes, graph.num_nodes)
        self.matrix = scipy.sparse.csr_matrix(
            (value, np.asarray(graph.indices).astype(np.int32), np.asarray(graph.indptr)), shape
        )
        self.squares = np.asarray(self.matrix.power(2).sum(axis=0)).ravel()
        self.upto = np.cumsum(self.squares)
        self.rng = np.random.default_rng(0)

    def plain(self, seeds: np.ndarray, sizes: tuple[int, ...], common: bool) -> Layers:
        """One minibatch with the reference weights; `common`: FastGCN, else LADIES."""
        made, targets = [], seeds
        for size in sizes:
            rows = self.matrix[targets]
            p = self.squares if common else np.asarray(rows.power(2).sum(axis=0)).ravel()
            p = p / p.sum()
            size = min(size, np.count_nonzero(p))
            chosen = np.sort(self.rng.choice(len(p), size, replace=False, p=p))
            layer = rows[:, chosen] @ scipy.sparse.diags(1 / (size * p[chosen]))
            sums = np.asarray(layer.sum(axis=1)).ravel()
            made.append(scipy.sparse.diags(1 / np.where(sums == 0, 1, sums)) @ layer)
            used = chosen[np.unique(layer.indices)]
            targets = np.union1d(targets, used)
        return made

    def ladies(self, seeds: np.ndarray, sizes: tuple[int, ...]) -> Layers:
        """One minibatch, weighted so that sums are unbiased."""
        made, targets = [], seeds
        for size in sizes:
            rows = self.matrix[targets]
            p = np.bincount(rows.indices, rows.data * rows.data, rows.shape[1])
            met = np.flatnonzero(p)
            key = self.rng.standard_exponential(len(met)) / p[met]
            best = np.argpartition(key, size)[: size + 1] if size < len(met) else None
            if best is None:
                chosen, tau = met, np.inf
            else:
                best = best[np.argsort(key[best])]
                chosen, tau = np.sort(met[best[:-1]]), key[best[-1]]
            made.append(rows[:, chosen] @ scipy.sparse.diags(1 / -np.expm1(-p[chosen] * tau)))
            targets = np.union1d(targets, chosen)
        return made

    def fastgcn(self, seeds: np.ndarray, sizes: tuple[int, ...]) -> Layers:
        """One minibatch; the time of an arrival takes the place of a key."""
        made, targets = [], seeds
        for size in sizes:
            chosen, tau = self.arrivals(size)
            layer = self.matrix[targets][:, chosen]
            weight = 1 / -np.expm1(-self.squares[chosen] * tau)
            made.append(layer @ scipy.sparse.diags(weight))
            used = chosen[np.unique(layer.indices)]
            targets = np.union1d(targets, used)
        return made

    def arrivals(self, size: int) -> tuple[np.ndarray, float]:
        """The first `size` distinct columns of a Poisson process, and when the next one comes."""
        total, drawn, times = self.upto[-1], np.empty(0, np.int64), np.empty(0)
        while True:
            fresh = np.searchsorted(self.upto, self.rng.random(2 * size) * total, side="right")
            gaps = self.rng.standard_exponential(2 * size) / total
            drawn = np.concatenate([drawn, fresh])
            times = np.concatenate([times, (times[-1] if len(times) else 0) + np.cumsum(gaps)])
            nodes, first = np.unique(drawn, return_index=True)
            if len(nodes) > size:
                order = np.argsort(first)[: size + 1]
                return np.sort(nodes[order[:-1]]), float(times[first[order[-1]]])


def layer_edges(made: Bulk | list[Layers]) -> float:
    """Sampled edges a minibatch."""
    if isinstance(made, Bulk):
        return sum(len(sample.row) for sample in made) / len(made)
    return sum(layer.nnz for layers in made for layer in layers) / len(made)


def compare(
    graph: Graph, reference: SciPy, kind: type, sizes: tuple[int, ...], bulk: int, rounds: int
) -> list[list[object]]:
    """Rows of the table: both references, one thread, two threads."""
    rng = np.random.default_rng(1)
    seeds = [rng.choice(graph.num_nodes, SEEDS, replace=False) for _ in range(bulk)]
    sampler = kind(sizes)
    theirs = reference.ladies if kind is Ladies else reference.fastgcn
    made: dict[str, Callable[[int], Bulk | list[Layers]]] = {
        "SciPy": lambda _: [reference.plain(ids, sizes, kind is FastGCN) for ids in seeds],
        "tuned": lambda _: [theirs(ids, sizes) for ids in seeds],
        "1 thread": lambda turn: sampler.sample_bulk(graph, seeds, seed=0, epoch=turn, threads=1),
        "2 threads": lambda turn: sampler.sample_bulk(graph, seeds, seed=0, epoch=turn, threads=2),
    }
    times: dict[str, list[float]] = {name: [] for name in made}
    edges: dict[str, float] = {}
    for turn in range(rounds + 1):  # the first warms up
        for name in rng.permutation(list(made)).tolist():
            start = time.perf_counter()
            result = made[name](turn)
            seconds = time.perf_counter() - start
            edges[name] = layer_edges(result)
            del result
            if turn:
                times[name].append(1000 * seconds / bulk)
    rows: list[list[object]] = []
    for name, own in times.items():
        gains = [""] * 2
        if "thread" in name:
            gains = [
                f"**{median_spread([a / b for a, b in zip(times[other], own, strict=True)])}**"
                for other in ("SciPy", "tuned")
            ]
        size = ", ".join(map(str, sizes))
        rows.append(
            [kind.__name__, f"[{size}]", name, f"{edges[name]:,.0f}", median_spread(own), *gains]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--bulk", type=int, default=8)
    parser.add_argument("--date", default=None)
    args = parser.parse_args()
    arrays = synthetic_arrays(args.nodes, edges=args.edges, features=0, classes=2)
    graph = Graph(args.nodes, args.edges, arrays.indptr, arrays.indices)
    report = Report("layerwise", __doc__, args.date)
    report.line(
        f"{args.nodes:,} nodes, {args.edges:,} edges, {SEEDS} seeds, bulks of {args.bulk}, "
        f"{args.rounds} rounds; median (least to most). The load average above says whether the "
        "machine was idle; where it was not, two threads had no second core to themselves."
    )
    reference = SciPy(graph)
    rows = [
        row
        for kind in (Ladies, FastGCN)
        for sizes in SIZES
        for row in compare(graph, reference, kind, sizes, args.bulk, args.rounds)
    ]
    head = ["sampler", "layer sizes", "by", "edges a minibatch", "ms a minibatch"]
    head += ["times SciPy", "times tuned"]
    report.table(head, rows)
    report.write()


if __name__ == "__main__":
    main()
