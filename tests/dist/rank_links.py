"""What one rank does with batches of links; the functions are tasks of rank.py."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from foregather import Graph, LinkLoader, Negatives, RankOptions
from foregather.dist import Grid

NODES = 500
#: (name, topology, negatives, whether links are left out); those called trees are disjoint
LOADERS: list[tuple[str, Any, Negatives | None, bool]] = [
    ("links", "partitioned", None, False),
    ("binary", "partitioned", Negatives(amount=1.5, exclude="positives"), False),
    ("triplet", "replicated", Negatives("triplet", 2), False),
    ("left out", "replicated", Negatives(), True),
    ("left out of parts", "partitioned", Negatives(), True),
    ("trees", "replicated", Negatives("triplet", 2), False),
    ("trees, left out", "replicated", Negatives(), True),
    ("trees of parts", "partitioned", Negatives("triplet", 2), False),
    ("trees of parts, left out", "partitioned", Negatives(), True),
]


def link_graph() -> Graph:
    """Random edges with features."""
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((NODES, 8)).astype(np.float32)
    return Graph.from_edge_index(rng.integers(0, NODES, (2, 4000)), NODES, x=rows)


def link_loader(graph: Graph, negatives: Negatives | None, out: bool, **options: Any) -> LinkLoader:
    links = np.random.default_rng(9).integers(0, NODES, (2, 100))
    if out:  # edges of the graph, which would be seen
        ends = np.repeat(np.arange(NODES), np.diff(graph.indptr))
        links = np.stack([np.asarray(graph.indices, np.int64), ends])[:, ::40]
    how: dict[str, Any] = {"negatives": negatives, "exclude_seed_edges": out, "seed": 5}
    how["shuffle"] = True
    return LinkLoader(graph, [4, 3], links, 7, bulk=3, **how, **options)


def digest(batch: Any) -> str:
    """Identifies all tensors of a batch."""
    state = hashlib.sha256()
    for name in sorted(batch.keys()):
        if isinstance(batch[name], torch.Tensor):
            state.update(name.encode() + batch[name].contiguous().numpy().tobytes())
    return state.hexdigest()


def links(folder: str) -> None:
    """Two epochs of every loader, and the rest of a third after a position was restored."""
    rank, size, found = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), {}
    graph = link_graph() if size == 2 else Graph.open(Path(folder, "graph"))
    for name, topology, negatives, out in LOADERS:
        with Grid(1, timeout=300) as grid:
            how = {"grid": grid, "ranks": RankOptions(topology=topology)}
            loader = link_loader(graph, negatives, out, disjoint=name.startswith("trees"), **how)
            epochs = [[digest(batch) for batch in loader] for _ in range(2)]
            loop = iter(loader)
            next(loop)
            state = loader.state_dict()
            loop.close()  # type: ignore[attr-defined]
            loader.load_state_dict(state)
            epochs.append([digest(batch) for batch in loader])
            loader.close()
        found[name] = epochs
    Path(folder, f"links{rank}.json").write_text(json.dumps(found))
