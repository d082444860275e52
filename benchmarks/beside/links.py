"""links: how long does a batch of links take until a model can have it, with its feature rows?

Beside a batch of nodes with the same seeds, and beside PyG's LinkNeighborLoader with pyg-lib, which
draws negatives that may be links and lets batches hold the links that they ask about.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import Data

from foregather import LinkLoader, Loader, Negatives

from .found import Peers
from .graphs import Case
from .loading import WORKERS, as_data, epochs
from .rounds import Bar, Cell, Row, Work, compare

__all__ = ["measure_links", "measure_nodes", "measure_small"]

FANOUTS = [15, 10]
EXACT: dict[str, Any] = {"amount": 1, "exclude": "positives"}
OURS = "LinkLoader, exact negatives, links left out"
LINKS, NODES = "LinkLoader", "Loader"
EXACTLY = "negatives that are no links, links left out"
WAYS: dict[str, dict[str, Any]] = {
    EXACTLY: {"negatives": EXACT},
    "triplets, links left out": {"negatives": Negatives("triplet", exclude="positives")},
    "any negatives": {"negatives": "binary", "exclude_seed_edges": False},
    "disjoint trees, as the first": {"negatives": EXACT, "disjoint": True},
}
Pairs = npt.NDArray[np.int64]


def some_links(case: Case, count: int) -> Pairs:
    """Edges of the graph, drawn without repeats."""
    graph = case.graph
    at = np.random.default_rng(3).choice(graph.num_edges, count, replace=False)
    return np.stack(
        [graph.indices[at].astype(np.int64), np.searchsorted(graph.indptr, at, "right") - 1]
    )


def link_loader(case: Case, links: Pairs, size: int, **options: Any) -> Any:
    return LinkLoader(case.graph, FANOUTS, links, size, **options)


def same_seeds(loader: Any) -> tuple[Pairs, int]:
    """The seeds of the batches of an epoch, as input nodes of batches of one size.

    Batches have a few seeds more or less, as ends are equal by chance: each is cut to the least.
    """
    batches = [batch.seed_id.numpy() for batch in loader]
    size = min(map(len, batches[:-1] or batches))
    rng = np.random.default_rng(4)
    return np.concatenate(
        [rng.permutation(one)[:size] for one in batches if len(one) >= size]
    ), size


def beside_nodes(
    case: Case, links: Pairs, size: int, fanouts: list[int], threads: int, **options: Any
) -> dict[str, Work]:
    """Batches of links, and of nodes with the same seeds."""
    made = LinkLoader(case.graph, fanouts, links, size, threads=threads, **options)
    nodes, seeds = same_seeds(made)
    how = {"threads": threads, "disjoint": options.get("disjoint", False)}
    other = Loader(case.graph, fanouts, nodes, seeds, **how)
    return {LINKS: epochs(made, threads), NODES: epochs(other, threads)}


def measure_nodes(case: Case, rounds: int, batches: int, size: int) -> list[Row]:
    """Batches of links beside batches of nodes with as many seeds, by what links ask for."""
    links, rows = some_links(case, batches * size), []
    for threads in (1, 2):
        for name, options in WAYS.items():
            works = beside_nodes(case, links, size, FANOUTS, threads, **options)
            bars = [Bar(NODES, 1.3, "most")]
            label = f"{case.name}, {size} links, {threads} thread{'s' * (threads > 1)}: {name}"
            rows += compare(Cell("nodes", label, LINKS, works, bars), rounds)
    return rows


def measure_small(case: Case, rounds: int, size: int) -> list[Row]:
    """The same for batches of a few links of a small graph; there is no bar for it."""
    links = some_links(case, 50 * size)
    works = beside_nodes(case, links, size, [10, 10], 2, negatives=EXACT)
    label = f"{case.name}, {size} links, fan-outs 10, 10, 2 threads: {EXACTLY}"
    return compare(Cell("small", label, LINKS, works, [], 1e6), rounds)


def pyg_loader(data: Data, links: Pairs, size: int, workers: int, mode: str) -> Iterable[Any]:
    """PyG's loader with its best settings for a graph in memory."""
    from torch_geometric.loader import LinkNeighborLoader

    return LinkNeighborLoader(
        data,
        FANOUTS,
        edge_label_index=torch.from_numpy(links),
        batch_size=size,
        shuffle=True,
        neg_sampling=mode,
        is_sorted=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def measure_links(
    what: str, case: Case, peers: Peers, rounds: int, batches: int, size: int
) -> list[Row]:
    """Batches of links beside PyG's."""
    from foregather.interop.pyg import LinkNeighborLoader

    links, rows = some_links(case, batches * size), []
    data = as_data(case, None if case.features else torch.empty((case.nodes, 0)))
    for mode in ("binary", "triplet"):
        exact = Negatives(mode, exclude="positives")  # type: ignore[arg-type]
        how = {"shuffle": True, "threads": 2}
        seat = LinkNeighborLoader(
            data, FANOUTS, torch.from_numpy(links), batch_size=size, neg_sampling=mode, **how
        )
        works: dict[str, Work] = {
            OURS: epochs(link_loader(case, links, size, negatives=exact, **how), 2),
            "LinkLoader, as PyG": epochs(
                link_loader(case, links, size, negatives=mode, exclude_seed_edges=False, **how), 2
            ),
            "our LinkNeighborLoader, as PyG": epochs(seat, 2),
        }
        for count in WORKERS if peers.neighbor_loader else ():
            loader = pyg_loader(data, links, size, count, mode)
            works[f"PyG LinkNeighborLoader, {count} workers"] = epochs(loader, 2)
        label = f"{case.name}, {size} links, {mode}, 2 threads"
        rows += compare(Cell(what, label, OURS, works, [Bar("PyG", 8)]), rounds)
    return rows
