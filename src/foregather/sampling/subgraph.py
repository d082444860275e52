"""subgraph: minibatches that are induced subgraphs: what RandomWalk and Saint share.

A subgraph minibatch has one layer: all edges of the graph between its nodes, ordered by target. A
model uses all of them in each of its own layers, however many it has, and gets a row for every
node. `num_nodes` is (seeds, nodes) and `num_edges` is (edges,); `expand` is "once".
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk, Sample

__all__ = ["induced_subgraphs"]

Array = npt.NDArray[Any]
Kernel = _core.SubgraphKernel32 | _core.SubgraphKernel64
Kind = Literal["given", "walk", "node", "edge"]

_KINDS: tuple[Kind, ...] = ("given", "walk", "node", "edge")  # as in walk.hpp


def induced_subgraphs(graph: Graph, nodes: Sequence[Array], *, threads: int = 0) -> Bulk:
    """The induced subgraph of each set of nodes: all edges with both ends in the set.

    Args:
        graph: where the edges are.
        nodes: node ids of each set; a node given twice is in it once, see `seed_position`.
        threads: threads to use, 0 for all.

    Raises:
        InputError: an id is not a node of the graph.
    """
    flat, ptr = flatten(nodes)
    made = make_kernel(graph, "given").sample(flat, ptr, 0, 0, 0, threads)
    return Bulk(to_samples(made, 0), 0, 0, 0)


def make_kernel(
    graph: Graph, kind: Kind, *, size: int = 0, length: int = 0, walks: int = 1
) -> Kernel:
    """The C++ sampler of one kind of subgraph over one graph."""
    make = _core.SubgraphKernel32 if graph.indices.dtype == np.uint32 else _core.SubgraphKernel64
    return make(graph.indptr, graph.indices, _KINDS.index(kind), size, length, walks)


def flatten(seeds: Sequence[Array]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Seeds of all minibatches one after another, and where each minibatch begins.

    Raises:
        InputError: seeds are not whole numbers in one dimension.
    """
    parts = []
    for batch, given in enumerate(seeds):
        ids = np.asarray(given)
        if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
            raise InputError(
                f"seeds of minibatch {batch} are {ids.dtype} of shape {ids.shape}, "
                "expected a list of node ids"
            )
        parts.append(ids.astype(np.int64, copy=False))
    ptr = np.cumsum([0, *(len(ids) for ids in parts)], dtype=np.int64)
    return np.concatenate([*parts, np.empty(0, np.int64)]), ptr


def to_samples(made: Sequence[tuple[Any, ...]], first_batch: int) -> list[Sample]:
    """What a kernel returned, as samples without weights."""
    return [
        Sample(
            node=node,
            num_nodes=tuple(num_nodes),
            row=row,
            col=col,
            num_edges=tuple(num_edges),
            edge=edge,
            weight=None,
            seed_position=position,
            batch=first_batch + number,
            expand="once",
        )
        for number, (node, num_nodes, row, col, num_edges, edge, position) in enumerate(made)
    ]


def whole_number(name: str, value: Any, least: int) -> int:
    """An option that must be a whole number of at least `least`.

    Raises:
        InputError: it is not.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not least <= value < 1 << 31:
        raise InputError(f"{name} is {value!r}, expected a whole number of at least {least}")
    return int(value)
