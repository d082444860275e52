"""adjacency: all edges over new numbers, as lists by target and by source, for sums by the core.

A sum over the in-neighbours of a range of nodes reads the rows of all nodes where they lie: nothing
is copied, and a range is a view of the lists. The gradient is a sum over the lists by source, again
for any range, so nothing is pushed and no two ranges write the same row.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.nn import list_kernels as kernels
from foregather.pipeline.partition.chunk_topology import NORMS
from foregather.pipeline.partition.chunks import Chunks

__all__ = ["Adjacency", "Lists"]

Ids = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
_STEP = 1 << 20  # edges that are renumbered at a time


@dataclass(frozen=True, slots=True)
class Lists:
    """The edges of one norm, both ways.

    Attributes:
        indptr: edges of target t are `indptr[t]` to `indptr[t + 1]`, int64 [N + 1].
        source: their sources.
        weight: their weights; None for 1.
        ptr: the same by source.
        target: targets by source.
        given: weights by source.
        mean: sums are divided by the length of the list.
    """

    indptr: Tensor
    source: Tensor
    weight: Tensor | None
    ptr: Tensor
    target: Tensor
    given: Tensor | None
    mean: bool

    def sums(self, rows: Tensor, span: slice) -> Tensor:
        """Sums over the in-neighbours of the nodes in `span`; `rows` are those of all nodes."""
        out: Tensor = kernels.sum_lists(
            rows,
            self.indptr[span.start : span.stop + 1],
            self.source,
            None,
            rows.shape[0],
            self.weight,
            None,
            self.mean,
        )
        return out

    def gradient(self, sums: Tensor, span: slice) -> Tensor:
        """Gradients of the rows in `span`, from those of the sums of all nodes."""
        out: Tensor = kernels.sum_lists(
            sums,
            self.ptr[span.start : span.stop + 1],
            self.target,
            None,
            sums.shape[0],
            self.given,
            self.indptr if self.mean else None,
            False,
        )
        return out

    @property
    def bytes(self) -> int:
        """Bytes of these lists; those of other norms may share some of them."""
        parts = (self.indptr, self.source, self.weight, self.ptr, self.target, self.given)
        return sum(part.nbytes for part in parts if part is not None)


class Adjacency:
    """The edges of a graph in the order of its chunks; the lists of a norm are made on first use.

    Args:
        graph: the graph.
        chunks: how its nodes are numbered.
        dtype: of rows.
    """

    def __init__(self, graph: Graph, chunks: Chunks, dtype: torch.dtype) -> None:
        self._graph, self._chunks = graph, chunks
        self._dtype = kernels.sum_dtype(dtype)
        self._known: dict[str, Lists] = {}

    @property
    def norms(self) -> tuple[str, ...]:
        """The norms whose lists were made."""
        return tuple(self._known)

    @property
    def bytes(self) -> int:
        """Bytes of the lists of all norms that were made, each tensor once."""
        held: dict[int, int] = {}
        for one in self._known.values():
            for part in (one.indptr, one.source, one.weight, one.ptr, one.target, one.given):
                if part is not None:
                    held[part.data_ptr()] = part.untyped_storage().nbytes()
        return sum(held.values())

    def forget(self) -> None:
        """Lets go of all lists; they are made again on the next use."""
        self._known.clear()

    def lists(self, norm: str) -> Lists:
        """The lists of a norm.

        Raises:
            InputError: there is no such norm.
        """
        if norm not in NORMS:
            raise InputError(f"norm is {norm!r}, expected one of {', '.join(NORMS)}")
        if norm not in self._known:
            self._known[norm] = self._make(norm)
        return self._known[norm]

    def _make(self, norm: str) -> Lists:
        loops = norm == "gcn"
        plain = norm == "mean" or (norm == "sum" and self._graph.edge_weight is None)
        indptr, source, weight = self._by_target(loops, not plain)
        if norm in ("gcn", "sym"):
            assert weight is not None
            _scale(indptr, source, weight)
        pointer = torch.from_numpy(indptr)
        sources = torch.from_numpy(source)
        ptr, edge, target = kernels.lists_by_source(pointer, sources, indptr.size - 1)
        values = None if weight is None else torch.from_numpy(weight).to(self._dtype)
        given = None if values is None else values[edge.long()]
        return Lists(pointer, sources, values, ptr, target, given, norm == "mean")

    def _by_target(
        self, loops: bool, weighted: bool
    ) -> tuple[Ids, npt.NDArray[np.integer], npt.NDArray[np.float64] | None]:
        """Returns the edges by target in new numbers; with `loops`, each node has exactly one."""
        nodes = self._graph.num_nodes
        most = self._graph.num_edges + (nodes if loops else 0)
        source = np.empty(most, np.int64 if max(most, nodes) >= 1 << 31 else np.int32)
        weight = np.empty(most) if weighted else None
        degree = np.zeros(nodes, np.int64)
        filled = 0
        for first, last in self._blocks():
            found, row, given = self._edges(first, last, loops)
            degree[first:last] = np.bincount(row, minlength=last - first)
            source[filled : filled + found.size] = found
            if weight is not None:
                weight[filled : filled + found.size] = given
            filled += found.size
        indptr = np.concatenate([[0], np.cumsum(degree)])
        return indptr, source[:filled], None if weight is None else weight[:filled]

    def _edges(self, first: int, last: int, loops: bool) -> tuple[Ids, Ids, Values]:
        """Sources, targets (from 0) and weights of the edges into some nodes, by target."""
        graph, nodes = self._graph, self._chunks.order[first:last]
        begin = np.asarray(graph.indptr[nodes], np.int64)
        degree = np.asarray(graph.indptr[nodes + 1], np.int64) - begin
        row = np.repeat(np.arange(nodes.size), degree)
        start = np.concatenate([[0], np.cumsum(degree)])[:-1]
        edge = np.arange(row.size) - np.repeat(start - begin, degree)
        source = self._chunks.number[np.asarray(graph.indices[edge], np.int64)]
        weight = np.ones(row.size)
        if graph.edge_weight is not None:
            weight = graph.edge_weight[edge].astype(np.float64)
        if not loops:
            return source, row, weight
        own = np.ones(nodes.size)
        loop = source == row + first
        own[row[loop]] = weight[loop]  # the last one counts, as in PyG
        row = np.concatenate([row[~loop], np.arange(nodes.size)])
        order = np.argsort(row, kind="stable")
        source = np.concatenate([source[~loop], np.arange(first, last)])[order]
        return source, row[order], np.concatenate([weight[~loop], own])[order]

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of new numbers with about as many edges as are renumbered at a time."""
        degree = np.asarray(self._graph.in_degree(), np.int64)[self._chunks.order]
        total = np.cumsum(degree + 1)
        first = 0
        while first < total.size:
            before = total[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(total, before + _STEP, side="right")))
            yield first, last
            first = last


def _scale(indptr: Ids, source: npt.NDArray[np.integer], weight: npt.NDArray[np.float64]) -> None:
    """Divides weights by the roots of the degrees at both ends, in place."""
    nodes = indptr.size - 1
    filled = np.flatnonzero(np.diff(indptr))
    degree = np.zeros(nodes)
    if filled.size:
        degree[filled] = np.add.reduceat(weight, indptr[filled])
    root = np.zeros(nodes)
    root[degree > 0] = degree[degree > 0] ** -0.5
    for first in range(0, weight.size, _STEP):
        part = slice(first, min(weight.size, first + _STEP))
        weight[part] *= root[source[part]]
    weight *= np.repeat(root, np.diff(indptr))
