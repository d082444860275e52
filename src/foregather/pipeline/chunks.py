"""chunks: cuts the nodes into K node chunks and renumbers them, so that a chunk is a range.

The cut is a pure function of (graph, K, method, seed). Chunks are balanced by edges (a node weighs
1 + its degree), none is empty, and inside a chunk nodes keep their order.
"""

import importlib.util
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError, MissingDependencyError
from foregather.graph.arrays import to_array
from foregather.graph.graph import EDGE_STEP, Graph

__all__ = ["Chunks", "Method", "make_chunks"]

Ids = npt.NDArray[np.int64]
Method = Literal["auto", "metis", "random", "natural"]


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """K ranges of renumbered nodes.

    Attributes:
        order: the graph's node id of each new number, int64 [N].
        number: the new number of each node id, int64 [N]; the inverse of `order`.
        bounds: chunk c holds the new numbers bounds[c] to bounds[c + 1] - 1, int64 [K + 1].
        method: how they were cut: metis, random, natural or given.
    """

    order: Ids
    number: Ids
    bounds: Ids
    method: str

    def __len__(self) -> int:
        return self.bounds.size - 1

    def span(self, chunk: int) -> slice:
        """The new numbers of a chunk."""
        return slice(int(self.bounds[chunk]), int(self.bounds[chunk + 1]))

    def size(self, chunk: int) -> int:
        """Nodes of a chunk."""
        return int(self.bounds[chunk + 1] - self.bounds[chunk])

    def cut(self, graph: Graph) -> float:
        """Share of the edges whose two ends are in different chunks."""
        if not graph.num_edges:
            return 0.0
        chunk = self.chunk_of(self.number)
        degree, crossing = graph.in_degree(), 0
        for first in range(0, graph.num_nodes, max(1, EDGE_STEP // 16)):
            last = min(graph.num_nodes, first + max(1, EDGE_STEP // 16))
            target = np.repeat(chunk[first:last], degree[first:last])
            source = chunk[graph.indices[graph.indptr[first] : graph.indptr[last]].astype(np.int64)]
            crossing += int((target != source).sum())
        return crossing / graph.num_edges

    def chunk_of(self, numbers: Ids) -> Ids:
        """The chunk of each new number."""
        return np.searchsorted(self.bounds, numbers, side="right") - 1


def make_chunks(
    graph: Graph, count: int, partition: Method | Any = "auto", seed: int = 0
) -> Chunks:
    """Cuts the nodes of a graph into `count` chunks.

    Args:
        graph: where edges and degrees are.
        count: K.
        partition: "metis" (fewest edges between chunks; needs pymetis), "natural" (ranges of ids),
            "random", "auto" (metis where pymetis is there, else natural), or the chunk of every
            node as a list of N numbers.
        seed: of the random order, and of METIS.

    Raises:
        InputError: more chunks than nodes, a chunk without nodes, or an unknown method.
        MissingDependencyError: "metis" without pymetis.
    """
    if isinstance(count, bool) or int(count) != count or not 1 <= count <= graph.num_nodes:
        raise InputError(
            f"chunks is {count}, expected a whole number from 1 to the {graph.num_nodes} nodes"
        )
    if not isinstance(partition, str):
        return _from_parts(_given(graph, count, partition), count, "given")
    if partition == "auto":
        partition = "metis" if importlib.util.find_spec("pymetis") else "natural"
    weight = 1 + graph.in_degree()
    if partition == "metis":
        return _from_parts(_metis(graph, count, weight, seed), count, "metis")
    order = np.arange(graph.num_nodes, dtype=np.int64)
    if partition == "random":
        _core.shuffled(graph.num_nodes, seed, 0, 0, order)
    elif partition != "natural":
        raise InputError(
            f"partition is {partition!r}, expected auto, metis, random, natural or a list"
        )
    parts = np.empty(graph.num_nodes, np.int64)
    parts[order] = _balanced(weight[order], count)
    return _from_parts(parts, count, partition)


def _balanced(weight: Ids, count: int) -> Ids:
    """Consecutive ranges of nearly equal weight, none empty: the range of each position."""
    total = np.cumsum(weight)
    bounds = np.searchsorted(total, total[-1] * np.arange(1, count) / count, side="left") + 1
    nodes = weight.size
    for i in range(count - 1):  # at least one node each, on both sides
        least = (bounds[i - 1] if i else 0) + 1
        bounds[i] = min(max(bounds[i], least), nodes - (count - 1 - i))
    return np.searchsorted(bounds, np.arange(nodes), side="right").astype(np.int64)


def _metis(graph: Graph, count: int, weight: Ids, seed: int) -> Ids:
    if count == 1:
        return np.zeros(graph.num_nodes, np.int64)
    try:
        import pymetis
    except ImportError as error:
        raise MissingDependencyError(
            'partition="metis" needs pymetis; install foregather[metis], or take "natural"'
        ) from error
    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    source = graph.indices.astype(np.int64)
    other = source != target  # METIS wants both directions of every edge and no self-loops
    pairs = np.stack([source[other], target[other]])
    both = Graph.from_edge_index(pairs, graph.num_nodes, undirected=True)
    adjacent = both.indices.astype(np.int64)
    if hasattr(pymetis, "CSRAdjacency"):
        given = {"adjacency": pymetis.CSRAdjacency(both.indptr, adjacent)}
    else:
        given = {"xadj": both.indptr, "adjncy": adjacent}
    options = pymetis.Options(seed=int(seed % (1 << 31)))
    _, parts = pymetis.part_graph(count, vweights=weight, options=options, **given)
    return _fill_empty(np.asarray(parts, np.int64), count)


def _fill_empty(parts: Ids, count: int) -> Ids:
    """METIS may leave a part empty: it gets the second half of the largest."""
    sizes = np.bincount(parts, minlength=count)
    for empty in np.flatnonzero(sizes == 0):
        largest = int(sizes.argmax())
        members = np.flatnonzero(parts == largest)
        parts[members[members.size // 2 :]] = empty
        sizes = np.bincount(parts, minlength=count)
    return parts


def _given(graph: Graph, count: int, partition: Any) -> Ids:
    parts = to_array(partition, "partition")
    if parts.shape != (graph.num_nodes,) or parts.dtype.kind not in "iu":
        raise InputError(
            f"partition is {parts.dtype} of shape {list(parts.shape)}, "
            f"expected the chunk of each of the {graph.num_nodes} nodes"
        )
    if parts.min() < 0 or parts.max() >= count:
        raise InputError(
            f"partition holds {parts.min()} to {parts.max()}, expected chunks 0 to {count - 1}"
        )
    empty = np.flatnonzero(np.bincount(parts, minlength=count) == 0)
    if empty.size:
        raise InputError(f"partition leaves chunk {empty[0]} of {count} empty; lower chunks")
    return parts.astype(np.int64)


def _from_parts(parts: Ids, count: int, method: str) -> Chunks:
    order = np.argsort(parts, kind="stable").astype(np.int64)
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=count))]).astype(np.int64)
    return Chunks(order, number, bounds, method)
