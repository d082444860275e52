"""streams: orders that are found by passes over the rows of a topology, in bounded memory.

Held are some bytes per node (stated by each function) and one piece of the edges; the topology is
read a piece at a time, once a pass. Results depend on the graph alone, not on pieces or threads.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.graph_value import GraphValue
from foregather.graph.mapped import fetch
from foregather.observe.progress import Progress

__all__ = ["CAPS", "FANOUT", "communities", "visits"]

Array = npt.NDArray[Any]

#: Most nodes of a community, level by level: what a bulk touches, and what a request brings.
CAPS = (4096, 64)
#: Sources that a target is taken to draw, where visits are estimated.
FANOUT = 10
_ROUNDS = 6  # passes of a level; labels settle after three or four
_STILL = 200  # one node in this many still moving ends a level
_PIECE = 8 << 20  # edges at a time


def _pieces(graph: GraphValue, block: int) -> Iterator[tuple[int, Array, Array]]:
    """Rows in order: the first one, their borders, their sources; whole blocks of rows."""
    indptr = graph.indptr
    row = 0
    while row < graph.num_nodes:
        last = row
        begin = int(fetch(indptr[row : row + 1])[0])
        while last < graph.num_nodes:  # at least one block, then as many as fit
            upto = min(last + block, graph.num_nodes)
            if last > row and int(fetch(indptr[upto : upto + 1])[0]) - begin > _PIECE:
                break
            last = upto
        borders = np.ascontiguousarray(fetch(indptr[row : last + 1]))
        sources = np.ascontiguousarray(fetch(graph.indices[begin : int(borders[-1])]))
        yield row, borders, sources
        row = last


def communities(graph: GraphValue, threads: int = 0) -> list[npt.NDArray[np.uint32]]:
    """Labels of communities inside communities, coarse ones first.

    Holds 12 bytes per node, 4 more for each level, and up to six pieces of edges are read a level.

    Raises:
        InputError: a source is no node.
        StorageError: the topology cannot be read.
    """
    core = _core.Communities(graph.num_nodes)
    levels: list[npt.NDArray[np.uint32]] = []
    with Progress("ordering", len(CAPS) * _ROUNDS, "passes") as bar:
        for cap in CAPS:
            core.begin_level(cap)
            for done in range(_ROUNDS):
                moved = sum(
                    core.feed(row, borders, sources, threads)
                    for row, borders, sources in _pieces(graph, core.block)
                )
                still = moved <= graph.num_nodes // _STILL
                bar.advance(_ROUNDS - done if still else 1)
                if still:
                    break
            levels.append(core.labels())
    return levels


def visits(graph: GraphValue, fanout: int = FANOUT) -> npt.NDArray[np.uint64]:
    """How often each node is drawn when every node draws `fanout` of its sources once, in 2^-20.

    Holds 8 bytes per node; reads the edges once.
    """
    score = np.zeros(graph.num_nodes, np.uint64)
    for _, borders, sources in _pieces(graph, 1 << 16):
        _core.add_visits(borders, sources, fanout, score)
    return score
