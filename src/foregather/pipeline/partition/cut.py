"""cut: measures a choice of chunks: their sizes, the edges between them, the rows that cross.

It takes passes over the edges and builds no part of a run, so a plan can compare many choices.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foregather.graph.graph import Graph
from foregather.graph.graph_value import EDGE_STEP
from foregather.pipeline.partition.chunks import Chunks

__all__ = ["Cut", "measure_cut"]


@dataclass(frozen=True, slots=True)
class Cut:
    """Chunks as a plan sees them.

    Attributes:
        chunks: the chunks.
        ways: G.
        nodes: nodes of each chunk.
        edges: edges that end in each chunk.
        others: rows of other chunks that each chunk reads.
        between: share of the edges between different chunks.
        stale: share of the edges read from history in a fast epoch, on average over orders: half
            of those between different ticks.
        crossing: rows [tick, giver, reader] that one way reads from another.
    """

    chunks: Chunks
    ways: int
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    others: tuple[int, ...]
    between: float
    stale: float
    crossing: npt.NDArray[np.int64]

    @property
    def alpha(self) -> float:
        """Rows that cross between ways in one aggregation, over the number of nodes."""
        return float(self.crossing.sum() / max(1, sum(self.nodes)))


def measure_cut(graph: Graph, chunks: Chunks, ways: int = 1) -> Cut:
    """Measures a cut; it looks at every edge twice."""
    count, ticks, nodes = len(chunks), chunks.ticks, graph.num_nodes
    chunk = chunks.chunk_of(chunks.number)  # by node id
    way = chunk * ways // count
    read = np.zeros((ways, nodes), np.bool_) if ways > 1 else None
    edges, between, stale = np.zeros(count, np.int64), 0, 0
    degree, step = graph.in_degree(), max(1, EDGE_STEP // 16)
    for first in range(0, nodes, step):
        last = min(nodes, first + step)
        source = graph.indices[graph.indptr[first] : graph.indptr[last]].astype(np.int64)
        target = np.repeat(np.arange(first, last), degree[first:last])
        edges += np.bincount(chunk[target], minlength=count)
        between += int((chunk[source] != chunk[target]).sum())
        stale += int((chunk[source] % ticks != chunk[target] % ticks).sum())
        if read is not None:
            read[way[target], source] = True
    crossing = np.zeros((ticks, ways, ways), np.int64)
    if read is not None:
        for reader in range(ways):
            taken = read[reader] & (way != reader)
            np.add.at(crossing, (chunk[taken] % ticks, way[taken], reader), 1)
    whole = max(1, graph.num_edges)
    return Cut(
        chunks,
        ways,
        tuple(np.diff(chunks.bounds).tolist()),
        tuple(edges.tolist()),
        tuple(_others(graph, chunks, c) for c in range(count)),
        between / whole,
        stale / whole / 2,
        crossing,
    )


def _others(graph: Graph, chunks: Chunks, chunk: int) -> int:
    """Counts the distinct sources of a chunk's edges that are in other chunks."""
    span = chunks.span(chunk)
    nodes = chunks.order[span]
    read = np.zeros(graph.num_nodes, np.bool_)  # by new number
    for first in range(0, nodes.size, max(1, EDGE_STEP // 16)):
        some = nodes[first : first + max(1, EDGE_STEP // 16)]
        begin, degree = graph.indptr[some], graph.indptr[some + 1] - graph.indptr[some]
        before = np.cumsum(degree) - degree
        edge = np.arange(int(degree.sum())) + np.repeat(begin - before, degree)
        read[chunks.number[graph.indices[edge].astype(np.int64)]] = True
    read[span] = False
    return int(read.sum())
