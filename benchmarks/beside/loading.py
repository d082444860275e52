"""loading: how long does a batch take until a model can have it, with its feature rows?

Ours are PyG's `Data` as PyG's own are; beside DGL and GraphBolt, which expand each layer, ours do
the same. Then the first batch, a graph so small that only Python counts, and single seeds.
"""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch
from torch_geometric.data import Data

from foregather import BatchContents, Loader, _core
from foregather.sampling import Neighbor

from .found import Peers
from .graphs import Case
from .rounds import Bar, Cell, Row, Turn, Work, compare

__all__ = [
    "WORKERS",
    "as_data",
    "measure_first",
    "measure_loader",
    "measure_one_seed",
    "measure_tiny",
    "pyg_loader",
]

FANOUTS, SEEDS, WORKERS = [15, 10, 5], 1024, (0, 1, 2)
OURS = "foregather"
ALONE = "foregather's kernel and gather alone"
Expand = Literal["once", "per-layer"]
LAYERED = {"expand": "per-layer", "contents": BatchContents(pyg=False)}


def as_data(case: Case, x: torch.Tensor | None = None, weight: bool = False) -> Data:
    """The graph for PyG, its edges sorted by target, so that its loader need not sort them."""
    graph = case.graph
    degree = graph.in_degree()
    targets = np.repeat(np.arange(graph.num_nodes), degree)
    pairs = torch.from_numpy(np.stack([graph.indices.astype(np.int64), targets]))
    if x is None:
        assert graph.features is not None
        x = torch.from_numpy(np.asarray(graph.features.data))
    more = {}
    if weight:  # what `gcn_norm` gives once for the whole graph, so that no batch pays for it
        root = 1 / np.sqrt(np.maximum(degree, 1)).astype(np.float32)
        more["edge_weight"] = torch.from_numpy(root[targets] * root[graph.indices])
    y = torch.from_numpy(case.labels())
    return Data(x=x, y=y, edge_index=pairs, num_nodes=graph.num_nodes, **more)


def pyg_loader(
    data: Data, fanouts: list[int], nodes: torch.Tensor, size: int, workers: int
) -> Iterable[Any]:
    """PyG's loader with its best settings for a graph in memory."""
    from torch_geometric.loader import NeighborLoader

    return NeighborLoader(
        data,
        fanouts,
        input_nodes=nodes,
        batch_size=size,
        shuffle=True,
        is_sorted=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def our_loader(case: Case, fanouts: list[int], nodes: torch.Tensor, size: int, **more: Any) -> Any:
    return Loader(case.graph, fanouts, nodes, size, shuffle=True, **more)


def epochs(loader: Iterable[Any], threads: int) -> Work:
    """Epochs that use nothing of a batch."""

    def turn(number: int) -> Turn:
        torch.set_num_threads(threads)
        nodes = edges = count = 0
        begin = perf_counter()
        for batch in loader:
            nodes, edges, count = nodes + len(batch.n_id), edges + edges_of(batch), count + 1
            del batch
        return Turn(perf_counter() - begin, count, nodes, edges)

    return turn


def edges_of(batch: Any) -> int:
    """Edges of all layers."""
    if getattr(batch, "edge_index", None) is None:
        return sum(layer.edge_index.shape[1] for layer in batch.layers)
    return int(batch.edge_index.shape[1])


def alone(
    case: Case, fanouts: list[int], seeds: list[Any], threads: int, expand: Expand = "once"
) -> Work:
    """The sampler's kernel and the copying of rows, into memory that is used again: the bound."""
    rule, rows = Neighbor(fanouts, expand=expand), case.graph.features
    assert rows is not None
    data, held = rows.data, np.zeros((0, rows.width), rows.data.dtype)

    def turn(number: int) -> Turn:
        nonlocal held
        nodes = edges = 0
        begin = perf_counter()
        for start in range(0, len(seeds), 8):
            some = seeds[start : start + 8]
            bulk = rule.sample_bulk(
                case.graph, some, seed=0, epoch=number, first_batch=start, threads=threads
            )
            for sample in bulk:
                if len(held) < len(sample.node):
                    held = np.zeros((len(sample.node) * 5 // 4, rows.width), data.dtype)
                _core.gather_rows(data, sample.node, held[: len(sample.node)], None, threads)
                nodes, edges = nodes + len(sample.node), edges + sample.row.size
        return Turn(perf_counter() - begin, len(seeds), nodes, edges)

    return turn


def first_of(make: Callable[[], Iterable[Any]]) -> Work:
    """Seconds until the first batch is there; the loop is left after it."""

    def turn(number: int) -> Turn:
        begin = perf_counter()
        loop = iter(make())
        batch = next(loop)
        seconds = perf_counter() - begin
        made = Turn(seconds, 1, len(batch.n_id), edges_of(batch))
        del loop, batch
        return made

    return turn


def dgl_works(
    peers: Peers, case: Case, kind: str, fanouts: list[int], seeds: list[Any], threads: int,
    workers: tuple[int, ...],
) -> dict[str, Work]:  # fmt: skip
    """DGL and GraphBolt by ids and numbers of workers."""
    process = peers.dgl.get(threads)
    if process is None:
        return {}
    path = case.folder / f"seeds_{kind}_{len(seeds)}_{len(seeds[0])}.npy"
    np.save(path, np.stack(seeds))
    works = {}
    for system, label in (("dgl", "DGL"), ("gb", "GraphBolt")):
        for ids in ("int64", "int32"):
            for count in workers:
                name = f"{label}, {ids}, {count} workers"
                works[name] = process.work(
                    f"{kind} {case.name} {name} {path.name}",
                    "first" if kind.startswith("first") else "loader",
                    system=system,
                    ids=ids,
                    workers=count,
                    folder=str(case.folder),
                    seeds=str(path),
                    fanouts=fanouts,
                    anew=kind == "first, made",
                )
    return works


def measure_loader(case: Case, peers: Peers, rounds: int, batches: int) -> list[Row]:
    """Epochs on one thread and on two."""
    size = min(SEEDS, case.nodes // (4 * batches))
    seeds = case.seeds(batches, size)
    nodes = torch.from_numpy(np.concatenate(seeds))
    rows: list[Row] = []
    data = as_data(case) if peers.neighbor_loader else None
    for threads in (1, 2):
        label = f"{case.name}, {threads} thread{'s' * (threads > 1)}"
        works = {OURS: epochs(our_loader(case, FANOUTS, nodes, size, threads=threads), threads)}
        works[ALONE] = alone(case, FANOUTS, seeds, threads)
        for count in WORKERS if threads == 2 else (0,):
            if data is not None:
                loader = pyg_loader(data, FANOUTS, nodes, size, count)
                works[f"PyG NeighborLoader, {count} workers"] = epochs(loader, threads)
        rows += compare(Cell("loader", f"{label}, a node once", OURS, works), rounds)
        loader = our_loader(case, FANOUTS, nodes, size, threads=threads, **LAYERED)
        works = {OURS: epochs(loader, threads)}
        works[ALONE] = alone(case, FANOUTS, seeds, threads, "per-layer")
        numbers = (0, 2) if threads == 2 else (0,)
        works |= dgl_works(peers, case, "loader", FANOUTS, seeds, threads, numbers)
        bars = [Bar("DGL", 8)] if threads == 2 else []
        rows += compare(Cell("loader", f"{label}, per layer", OURS, works, bars), rounds)
    return rows


def measure_first(case: Case, peers: Peers, rounds: int) -> list[Row]:
    """The first batch of a new loader, and of a new loop over one that was used before."""
    size = min(SEEDS, case.nodes // 128)
    seeds = case.seeds(32, size)
    nodes = torch.from_numpy(np.concatenate(seeds))
    torch.set_num_threads(2)
    data = as_data(case) if peers.neighbor_loader else None
    rows: list[Row] = []
    for fresh, label in ((True, "loader made anew"), (False, "next loop")):
        works = {OURS: first_of(maker(lambda: our_loader(case, FANOUTS, nodes, size), fresh))}
        for count in WORKERS if data is not None else ():

            def make(count: int = count) -> Iterable[Any]:
                return pyg_loader(data, FANOUTS, nodes, size, count)

            works[f"PyG NeighborLoader, {count} workers"] = first_of(maker(make, fresh))
        kind = "first, made" if fresh else "first"
        works |= dgl_works(peers, case, kind, FANOUTS, seeds, 2, (0,))
        bars = [Bar("PyG", 2)]
        rows += compare(Cell("first batch", f"{case.name}, {label}", OURS, works, bars), rounds)
    return rows


def maker(make: Callable[[], Iterable[Any]], fresh: bool) -> Callable[[], Iterable[Any]]:
    """The function itself, or one that gives the same loader each time."""
    if fresh:
        return make
    kept = make()
    return lambda: kept


def measure_tiny(case: Case, peers: Peers, rounds: int) -> list[Row]:
    """An epoch over all nodes of a graph where Python is most of the work."""
    fanouts, size = [10, 10], 32
    nodes = torch.arange(case.nodes)
    works = {OURS: epochs(our_loader(case, fanouts, nodes, size), 2)}
    mixed = np.random.default_rng(0).permutation(case.nodes)
    works[ALONE] = alone(case, fanouts, np.array_split(mixed, -(-case.nodes // size)), 2)
    if peers.neighbor_loader:
        data = as_data(case)
        for count in WORKERS:
            loader = pyg_loader(data, fanouts, nodes, size, count)
            works[f"PyG NeighborLoader, {count} workers"] = epochs(loader, 2)
    seeds = case.seeds(-(-case.nodes // size), size)
    works |= dgl_works(peers, case, "tiny", fanouts, seeds, 2, (0,))
    label = f"{case.name}, batches of {size}, {fanouts}"
    return compare(Cell("tiny graph", label, OURS, works, [Bar("PyG", 3)], 1e6), rounds)


def measure_one_seed(case: Case, peers: Peers, rounds: int, count: int) -> list[Row]:
    """Batches of one seed, as for requests that come one by one."""
    fanouts = [10, 10]
    nodes = torch.from_numpy(case.seeds(1, count)[0])
    works = {OURS: epochs(our_loader(case, fanouts, nodes, 1), 2)}
    if peers.neighbor_loader:
        loader = pyg_loader(as_data(case), fanouts, nodes, 1, 0)
        works["PyG NeighborLoader, 0 workers"] = epochs(loader, 2)
    seeds = case.seeds(count, 1)
    works |= dgl_works(peers, case, "one", fanouts, seeds, 2, (0,))
    bars = [Bar("", 150, "under")]
    label = f"{case.name}, {fanouts}, an epoch of {count} batches"
    return compare(Cell("one seed", label, OURS, works, bars, 1e6), rounds)
