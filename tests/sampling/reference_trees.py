"""Reference: disjoint trees as slow Python; each a sample of one seed, joined by a dict."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from foregather.sampling.bulk import Sample


def join(trees: list[Sample], layers: int, batch: int) -> Sample:
    """Nodes hop by hop, in a hop tree by tree; edges layer by layer, in a layer tree by tree."""
    numbers: dict[tuple[int, int], int] = {}  # (tree, place in it) -> place in the minibatch
    num_nodes = []
    for hop in range(layers + 1):
        for number, tree in enumerate(trees):
            first = tree.num_nodes[hop - 1] if hop else 0
            for place in range(first, tree.num_nodes[hop]):
                numbers[number, place] = len(numbers)
        num_nodes.append(len(numbers))
    edges: list[Any] = []
    num_edges = []
    for layer in range(layers):
        before = len(edges)
        for number, tree in enumerate(trees):
            first = sum(tree.num_edges[:layer])
            for e in range(first, first + tree.num_edges[layer]):
                ends = [numbers[number, int(end[e])] for end in (tree.row, tree.col)]
                weight = None if tree.weight is None else tree.weight[e]
                edges.append((*ends, int(tree.edge[e]), weight))
        num_edges.append(len(edges) - before)
    weighted = any(tree.weight is not None for tree in trees)
    columns = list(zip(*edges, strict=True)) or [()] * 4
    return Sample(
        node=np.array([trees[number].node[place] for number, place in numbers], np.int64),
        num_nodes=tuple(num_nodes),
        row=np.array(columns[0], np.uint32),
        col=np.array(columns[1], np.uint32),
        num_edges=tuple(num_edges),
        edge=np.array(columns[2], np.int64),
        weight=np.array(columns[3], np.float32) if weighted else None,
        seed_position=None,
        batch=batch,
        expand="once",
        tree=np.array([number for number, _ in numbers], np.uint32),
    )


def join_all(
    alone: Callable[[int, int], Sample],
    seeds: Sequence[Any],
    rows: Sequence[Any],
    layers: int,
    first_batch: int = 0,
) -> list[Sample]:
    """`alone(node, row)` is the tree of a seed."""
    return [
        join([alone(int(v), int(r)) for v, r in zip(*pair, strict=True)], layers, number)
        for number, pair in enumerate(zip(seeds, rows, strict=True), first_batch)
    ]
