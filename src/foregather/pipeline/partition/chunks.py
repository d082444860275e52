"""chunks: cuts the nodes into K node chunks and renumbers them, so that a chunk is a range.

The cut is a pure function of (graph, K, method, seed). Chunks are balanced by edges (a node weighs
1 + its degree), none is empty, and inside a chunk nodes keep their order. Where W chunks pass
abreast, the nodes are first cut into W parts and each of those into K / W chunks, so that few edges
go between the parts; tick i has the i-th chunk of every part.
"""

import importlib.util
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError, MissingDependencyError
from foregather.graph.arrays import to_array
from foregather.graph.graph import Graph
from foregather.graph.graph_value import EDGE_STEP
from foregather.units import format_number

__all__ = ["Chunks", "Method", "check_count", "make_chunks"]

Ids = npt.NDArray[np.int64]
Method = Literal["auto", "metis", "metis-volume", "random", "natural"]


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """K ranges of renumbered nodes.

    Attributes:
        order: the graph's node id of each new number, int64 [N].
        number: the new number of each node id, int64 [N]; the inverse of `order`.
        bounds: chunk c holds the new numbers bounds[c] to bounds[c + 1] - 1, int64 [K + 1].
        method: how they were cut: metis, metis-volume, random, natural or given.
        abreast: W, the chunks that pass together.
    """

    order: Ids
    number: Ids
    bounds: Ids
    method: str
    abreast: int = 1

    def __len__(self) -> int:
        return self.bounds.size - 1

    @property
    def ticks(self) -> int:
        """K / W: how many chunks pass one after the other."""
        return len(self) // self.abreast

    def abreast_of(self, tick: int) -> list[int]:
        """The chunks of a tick, one of each part."""
        return [part * self.ticks + tick for part in range(self.abreast)]

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
    graph: Graph, count: int, partition: Method | Any = "auto", seed: int = 0, abreast: int = 1
) -> Chunks:
    """Cuts the nodes of a graph into `count` chunks.

    Args:
        graph: the graph whose edges and degrees count.
        count: K.
        partition: "metis" (fewest edges between chunks; needs pymetis), "metis-volume" (fewest rows
            that cross between ways; slower to cut), "natural" (ranges of ids), "random", "auto"
            (metis if pymetis is installed, else natural), or the chunk of every node as a list of
            N numbers.
        seed: random seed of the random order, and of METIS.
        abreast: W, the chunks that pass together; K is a multiple of it.

    Raises:
        InputError: more chunks than nodes, a chunk without nodes, or an unknown method.
        MissingDependencyError: "metis" without pymetis.
    """
    check_count(graph, count, abreast)
    if not isinstance(partition, str):
        return _from_parts(_given(graph, count, partition), count, "given", abreast)
    if partition == "auto":
        partition = "metis" if importlib.util.find_spec("pymetis") else "natural"
    if partition not in ("metis", "metis-volume", "random", "natural"):
        raise InputError(
            f"partition is {partition!r}, expected auto, metis, metis-volume, random, natural or a "
            "list"
        )
    weight = 1 + graph.in_degree()
    cut: _Metis | _Ranges
    if partition in ("metis", "metis-volume"):
        cut = _Metis(graph, seed, partition == "metis-volume")
    else:
        order = np.arange(graph.num_nodes, dtype=np.int64)
        if partition == "random":
            _core.shuffled(graph.num_nodes, seed, 0, 0, order)
        cut = _Ranges(order)
    return _from_parts(_hierarchical(cut, weight, count, abreast), count, partition, abreast)


def check_count(graph: Graph, count: int, abreast: int) -> None:
    """Checks that the graph can be cut into this many chunks.

    Raises:
        InputError: more chunks than nodes, or not a multiple of `abreast`.
    """
    if isinstance(count, bool) or int(count) != count or not 1 <= count <= graph.num_nodes:
        raise InputError(
            f"chunks is {count}, expected a whole number from 1 to the {graph.num_nodes} nodes"
        )
    if abreast < 1 or count % abreast:
        raise InputError(
            f"chunks is {count} with {abreast} abreast, expected a multiple of abreast"
        )


def _hierarchical(cut: "_Metis | _Ranges", weight: Ids, count: int, abreast: int) -> Ids:
    """Cuts into `abreast` parts first, then each part into chunks."""
    inner, everyone = count // abreast, np.arange(weight.size)
    parts = cut(everyone, weight, abreast)
    if inner == 1:
        return parts
    chunk = np.empty_like(parts)
    for part in range(abreast):
        members = np.flatnonzero(parts == part)
        if members.size < inner:
            raise InputError(
                f"part {part} of {abreast} has {format_number(members.size, 'node')}, too few for "
                f"{inner} chunks; use fewer chunks"
            )
        chunk[members] = part * inner + cut(members, weight[members], inner)
    return chunk


class _Ranges:
    """Consecutive ranges of an order, of nearly equal weight, none empty."""

    def __init__(self, order: Ids) -> None:
        self._place = np.empty_like(order)
        self._place[order] = np.arange(order.size)

    def __call__(self, members: Ids, weight: Ids, count: int) -> Ids:
        order = np.argsort(self._place[members])
        parts = np.empty(members.size, np.int64)
        parts[order] = _balanced(weight[order], count)
        return parts


def _balanced(weight: Ids, count: int) -> Ids:
    """Returns the range that each position belongs to."""
    total = np.cumsum(weight)
    bounds = np.searchsorted(total, total[-1] * np.arange(1, count) / count, side="left") + 1
    nodes = weight.size
    for i in range(count - 1):  # at least one node each, on both sides
        least = (bounds[i - 1] if i else 0) + 1
        bounds[i] = min(max(bounds[i], least), nodes - (count - 1 - i))
    return np.searchsorted(bounds, np.arange(nodes), side="right").astype(np.int64)


class _Metis:
    """METIS on the edges between some nodes, in both directions and without self-loops.

    It minimises the edges between parts. With `volume` it is run again to minimise the rows that
    other parts read (a node counts once for each part that reads it, which is what ways send), and
    the cut with fewer such rows is taken: neither objective wins on every graph.
    """

    def __init__(self, graph: Graph, seed: int, volume: bool) -> None:
        try:
            import pymetis
        except ImportError as error:
            raise MissingDependencyError(
                'partition="metis" needs pymetis; install foregather[metis], or use "natural"'
            ) from error
        self._metis, self._seed, self._graph = pymetis, int(seed % (1 << 31)), graph
        self._volume = volume
        self._both: Graph | None = None

    def _symmetric(self) -> Graph:
        if self._both is None:
            graph = self._graph
            target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
            source = graph.indices.astype(np.int64)
            other = source != target
            pairs = np.stack([source[other], target[other]])
            self._both = Graph.from_edge_index(pairs, graph.num_nodes, undirected=True)
        return self._both

    def __call__(self, members: Ids, weight: Ids, count: int) -> Ids:
        if count == 1:
            return np.zeros(members.size, np.int64)
        both = self._symmetric()
        pointer, adjacent = both.indptr, both.indices.astype(np.int64)
        if members.size < both.num_nodes:
            pointer, adjacent = _between(both, members)
        parts = self._cut(pointer, adjacent, weight, count, False)
        if self._volume:
            other = self._cut(pointer, adjacent, weight, count, True)
            parts = min((parts, other), key=lambda one: _rows_read(pointer, adjacent, one, count))
        return parts

    def _cut(self, pointer: Ids, adjacent: Ids, weight: Ids, count: int, volume: bool) -> Ids:
        if hasattr(self._metis, "CSRAdjacency"):
            given = {"adjacency": self._metis.CSRAdjacency(pointer, adjacent)}
        else:
            given = {"xadj": pointer, "adjncy": adjacent}
        options, recursive = self._metis.Options(seed=self._seed), None
        if volume:
            options.objtype, recursive = 1, False  # bisection knows no objective but edges
        _, parts = self._metis.part_graph(
            count, vweights=weight, options=options, recursive=recursive, **given
        )
        return _fill_empty(np.asarray(parts, np.int64), count)


def _rows_read(pointer: Ids, adjacent: Ids, parts: Ids, count: int) -> int:
    """Counts pairs of a node and another part that has a neighbour of it."""
    read = np.zeros((count, parts.size), np.bool_)
    for first in range(0, parts.size, EDGE_STEP // 16):
        last = min(parts.size, first + EDGE_STEP // 16)
        node = np.repeat(np.arange(first, last), np.diff(pointer[first : last + 1]))
        read[parts[adjacent[pointer[first] : pointer[last]]], node] = True
    read[parts, np.arange(parts.size)] = False
    return int(read.sum())


def _between(graph: Graph, members: Ids) -> tuple[Ids, Ids]:
    """Returns the edges between some nodes, numbered by their position among them."""
    place = np.full(graph.num_nodes, -1)
    place[members] = np.arange(members.size)
    target = np.repeat(place, graph.in_degree())
    source = place[graph.indices.astype(np.int64)]
    inside = (target >= 0) & (source >= 0)  # members ascend, so targets still do
    degree = np.bincount(target[inside], minlength=members.size)
    return np.concatenate([[0], np.cumsum(degree)]), source[inside]


def _fill_empty(parts: Ids, count: int) -> Ids:
    """Fills parts that METIS left empty: each gets the second half of the largest part."""
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
        raise InputError(f"partition leaves chunk {empty[0]} of {count} empty; use fewer chunks")
    return parts.astype(np.int64)


def _from_parts(parts: Ids, count: int, method: str, abreast: int) -> Chunks:
    order = np.argsort(parts, kind="stable").astype(np.int64)
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=count))]).astype(np.int64)
    return Chunks(order, number, bounds, method, abreast)
