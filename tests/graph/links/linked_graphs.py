"""Small graphs, and graphs with links, for tests."""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import Graph, HeteroGraph
from foregather.graph.hetero import EdgeType, NodeTable, Relation
from foregather.graph.hetero.relation import Order
from foregather.graph.links.links import Links

__all__ = ["BACK", "BUYS", "edges_of", "linked", "pairs_of", "some_graph", "typed", "typed_linked"]

BUYS: EdgeType = ("user", "buys", "item")
BACK: EdgeType = ("item", "rev_buys", "user")


def edges_of(graph: Any) -> list[tuple[int, int]]:
    """(source, target) of each stored edge."""
    targets = np.repeat(np.arange(len(graph.indptr) - 1), np.diff(graph.indptr))
    return list(zip(graph.indices.tolist(), targets.tolist(), strict=True))


def pairs_of(links: Links) -> list[tuple[int, ...]]:
    """(source, target) of each link."""
    return list(zip(*links.index.tolist(), strict=True))


def some_graph(
    seed: int, nodes: int = 30, edges: int = 200, **options: Any
) -> tuple[Graph, npt.NDArray[np.int64]]:
    """A random graph and its edges."""
    pairs = np.random.default_rng(seed).integers(0, nodes, (2, edges))
    return Graph.from_edge_index(pairs, nodes, **options), pairs


def typed(
    seed: int = 0, reverse: bool = True, order: Order = "source", time: bool = True
) -> HeteroGraph:
    """Users buy items: weights and features number the edges, times repeat."""
    rng = np.random.default_rng(seed)
    pairs = np.stack([rng.integers(0, 12, 90), rng.integers(0, 7, 90)])
    times = rng.integers(0, 50, 90) if time else None
    nodes = {"user": NodeTable.of(12, ids=[f"u{n}" for n in range(12)]), "item": NodeTable.of(7)}
    relation = Relation.of(
        pairs, 12, 7, time=times, weights=np.arange(90), features=np.eye(90), order=order
    )
    graph = HeteroGraph(nodes, {BUYS: relation})
    return graph.with_reverse() if reverse else graph


def linked() -> Graph:
    """A plain graph whose links have everything that links can have but times."""
    graph, _ = some_graph(0)
    graph = graph.with_links("valid", [[1, 2], [3, 4]], labels=[5, 6], negatives=[[7], [8]])
    return graph.with_links("test", np.array([[0], [29]]), candidates=[[3, 4, 5]])


def typed_linked() -> HeteroGraph:
    """A typed graph whose links have times."""
    graph = typed().with_links("train", [[1, 2], [3, 4]], relation=BUYS, time=[5, 6])
    return graph.with_links("test", [[11], [6]], time=[9])
