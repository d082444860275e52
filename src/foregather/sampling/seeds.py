"""seeds: checks the caller's seed nodes and makes them distinct.

Each seed appears once in a minibatch, at its first place; `position` maps every given seed to it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.graph import Graph

__all__ = ["distinct_seeds", "flatten"]

Array = npt.NDArray[Any]
Position = npt.NDArray[np.int64] | None


def distinct_seeds(graph: Graph, seeds: Sequence[Array]) -> tuple[list[Array], list[Position]]:
    """Returns each batch's distinct seeds in the graph's id dtype, and the given seeds' positions.

    Raises:
        InputError: seeds are not whole numbers in one dimension, or not nodes of the graph.
    """
    nodes: list[Array] = []
    positions: list[Position] = []
    for given in seeds:
        ids = _whole_numbers(given, len(nodes))
        wrong = (ids < 0) | (ids >= graph.num_nodes)
        if wrong.any():
            raise InputError(
                f"seeds hold node {ids[wrong.argmax()]}, but the graph has {graph.num_nodes} "
                "nodes (ids are 0 to N-1)"
            )
        ids = ids.astype(graph.indices.dtype)
        if len(ids) < 2:
            nodes.append(ids)
            positions.append(None)
            continue
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        if len(first) == len(ids):
            nodes.append(ids)
            positions.append(None)
            continue
        order = np.argsort(first)  # distinct ids in the order of their first places
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        nodes.append(ids[first[order]])
        positions.append(rank[inverse].astype(np.int64))
    return nodes, positions


def flatten(
    seeds: Sequence[Array], name: str = "seeds"
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Concatenates the seeds of all minibatches; also returns where each minibatch begins.

    Raises:
        InputError: seeds, or what has this name, are not whole numbers in one dimension.
    """
    parts = [
        _whole_numbers(given, batch, name).astype(np.int64) for batch, given in enumerate(seeds)
    ]
    ptr = np.cumsum([0, *(len(ids) for ids in parts)], dtype=np.int64)
    return np.concatenate([*parts, np.empty(0, np.int64)]), ptr


def _whole_numbers(given: Array, batch: int, name: str = "seeds") -> Array:
    ids = np.asarray(given)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InputError(
            f"{name} of minibatch {batch} are {ids.dtype} of shape {ids.shape}, "
            f"expected a list of {'node ids' if name == 'seeds' else 'whole numbers'}"
        )
    return ids
