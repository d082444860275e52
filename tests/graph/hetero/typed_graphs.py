"""Small typed graphs for tests: everything that a table and a relation can hold, at random."""

from typing import Any

import numpy as np

from foregather.graph.hetero import EdgeType, HeteroGraph, NodeTable, Relation

CITES: EdgeType = ("paper", "cites", "paper")
WRITES: EdgeType = ("author", "writes", "paper")
WRITTEN: EdgeType = ("paper", "rev_writes", "author")
AT: EdgeType = ("author", "at", "place")


def typed_graph(seed: int = 0, papers: int = 30, edges: int = 120) -> HeteroGraph:
    """Papers, authors and places; papers and citations have times, places have nothing."""
    rng = np.random.default_rng(seed)
    nodes = {
        "paper": NodeTable.of(
            papers,
            {"x": rng.random((papers, 4), np.float32), "words": rng.integers(0, 9, (papers, 2, 3))},
            labels=rng.integers(-1, 3, papers),
            time=rng.integers(-5, 5, papers),
            splits={"train": np.arange(papers // 2), "val": [papers - 1], "test": [0]},
        ),
        "author": NodeTable.of(
            12,
            {"x": rng.random((12, 3)).astype(np.float16)},
            ids=[f"räuber {i}" for i in range(12)],
        ),
        "place": NodeTable.of(5, ids=rng.permutation(50)[:5]),
    }
    relations = {
        CITES: pairs(rng, papers, papers, edges, time=True, weights=True),
        WRITES: pairs(rng, 12, papers, edges, weights=True, features=True),
        WRITTEN: pairs(rng, papers, 12, edges),
        AT: pairs(rng, 12, 5, 0),
    }
    return HeteroGraph(nodes, relations)


def pairs(
    rng: np.random.Generator,
    sources: int,
    targets: int,
    edges: int,
    *,
    time: bool = False,
    weights: bool = False,
    features: bool = False,
) -> Relation:
    """A relation of random edges, with the columns that are asked for."""
    columns: dict[str, Any] = {}
    if time:
        columns["time"] = rng.integers(-5, 5, edges)
    if weights:
        columns["weights"] = rng.random(edges)
    if features:
        columns["features"] = rng.integers(0, 99, (edges, 2)).astype(np.int16)
    ends = np.stack([rng.integers(0, sources, edges), rng.integers(0, targets, edges)])
    return Relation.of(ends, sources, targets, **columns)
