"""chunk_topology: the edges that end in one chunk, over its own rows and in-neighbours.

Own nodes are numbered 0 to n - 1; sources in other chunks (`others`) follow, ascending. Weights use
degrees of the whole graph, so that a chunk computes what the whole graph would.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.pipeline.partition.chunks import Chunks

__all__ = ["ChunkTopology", "LocalGraph", "Matrix"]

Ids = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
NORMS = ("mean", "sum", "gcn", "sym")


@dataclass(frozen=True, slots=True)
class Matrix:
    """A sparse matrix and its transpose, both in compressed rows."""

    forward: Tensor
    backward: Tensor


@dataclass(slots=True, eq=False)
class LocalGraph:
    """The edges of one chunk.

    Attributes:
        count: own nodes.
        others: new numbers of sources in other chunks, ascending, int64.
        owner: the chunk of each of `others`.
        source: row of each edge's source: own, or count + position in `others`.
        target: own row of each edge's target, ascending.
        edge: position of each edge in the graph.
    """

    count: int
    others: Tensor
    owner: Tensor
    source: Ids
    target: Ids
    edge: Ids
    _matrices: dict[str, Matrix] = field(default_factory=dict)
    _halves: dict[str, tuple[Matrix, Matrix]] = field(default_factory=dict)
    _edges: dict[str | None, tuple[Tensor, Tensor | None]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """The number of own and other rows."""
        return self.count + int(self.others.shape[0])

    def sources(self) -> "LocalGraph":
        """Returns the same without its edges."""
        none = np.empty(0, np.int64)
        return LocalGraph(self.count, self.others, self.owner, none, none, none)


class _Made:
    """The chunks' edges, made when they are first asked for."""

    def __init__(self, make: Callable[[int], LocalGraph], count: int) -> None:
        self._make = make
        self._known: list[LocalGraph | None] = [None] * count

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[LocalGraph]:
        return (self[chunk] for chunk in range(len(self)))

    def __getitem__(self, chunk: int) -> LocalGraph:
        found = self._known[chunk]
        if found is None:
            found = self._known[chunk] = self._make(chunk)
        return found


class ChunkTopology:
    """The chunks of a graph with their edges; weights are computed on first use.

    Args:
        graph: the graph.
        chunks: how it is cut.
        dtype: of edge weights.
        device: where matrices live.
        mine: chunks whose edges are kept; of the others, only their sources. None means all.
    """

    def __init__(
        self,
        graph: Graph,
        chunks: Chunks,
        dtype: torch.dtype,
        device: torch.device,
        mine: range | None = None,
    ) -> None:
        self.graph = graph
        self.chunks = chunks
        self.dtype = dtype
        self.device = device
        self._mine = range(len(chunks)) if mine is None else mine
        self.locals = _Made(self._kept_of, len(chunks))
        self._degree: dict[str, Values] = {}

    def _kept_of(self, chunk: int) -> LocalGraph:
        return self._local(chunk) if chunk in self._mine else self._local(chunk).sources()

    def _local(self, chunk: int) -> LocalGraph:
        graph, chunks = self.graph, self.chunks
        span = chunks.span(chunk)
        nodes = chunks.order[span]
        begin, degree = graph.indptr[nodes], graph.indptr[nodes + 1] - graph.indptr[nodes]
        target = np.repeat(np.arange(nodes.size), degree)
        first = np.concatenate([[0], np.cumsum(degree)])[:-1]
        edge = np.arange(target.size) - np.repeat(first - begin, degree)
        source = chunks.number[graph.indices[edge].astype(np.int64)]
        inside = (source >= span.start) & (source < span.stop)
        others = np.unique(source[~inside])
        row = np.where(inside, source - span.start, nodes.size + np.searchsorted(others, source))
        owner = torch.from_numpy(chunks.chunk_of(others)).to(self.device)
        outside = torch.from_numpy(others).to(self.device)
        return LocalGraph(int(nodes.size), outside, owner, row, target, edge)

    # ---- weights ---------------------------------------------------------------------------

    def matrix(self, chunk: int, norm: str) -> Matrix:
        """The weighted adjacency matrix [own, own + others] of a chunk."""
        local = self.locals[chunk]
        if norm not in local._matrices:
            source, target, weight = self._weighted(chunk, norm)
            shape = (local.count, local.width)
            local._matrices[norm] = Matrix(
                self._compressed(target, source, weight, shape),
                self._compressed(source, target, weight, shape[::-1]),
            )
        return local._matrices[norm]

    def halves(self, chunk: int, norm: str) -> tuple[Matrix, Matrix]:
        """The same in two parts: columns of own rows, and columns of others."""
        local = self.locals[chunk]
        if norm not in local._halves:
            source, target, weight = self._weighted(chunk, norm)
            halves = []
            for first, last in ((0, local.count), (local.count, local.width)):
                part = (source >= first) & (source < last)
                row, column = target[part], source[part] - first
                shape = (local.count, last - first)
                halves.append(
                    Matrix(
                        self._compressed(row, column, weight[part], shape),
                        self._compressed(column, row, weight[part], shape[::-1]),
                    )
                )
            local._halves[norm] = (halves[0], halves[1])
        return local._halves[norm]

    def edges(self, chunk: int, norm: str | None) -> tuple[Tensor, Tensor | None]:
        """`edge_index` of a chunk over its rows, and weights (None for 1)."""
        local = self.locals[chunk]
        if norm not in local._edges:
            if norm is None:
                source, target = local.source, local.target
                weight = self._own_weight(local)
            else:
                source, target, weight = self._weighted(chunk, norm)
            pairs = torch.from_numpy(np.stack([source, target]).astype(np.int64))
            given = None if weight is None else self._tensor(weight)
            local._edges[norm] = (pairs.to(self.device), given)
        return local._edges[norm]

    def edge_attr(self, chunk: int) -> Tensor | None:
        """Edge feature rows of a chunk, in the order of `edges(chunk, None)`."""
        features = self.graph.edge_features
        if features is None:
            return None
        return self._tensor(features[self.locals[chunk].edge])

    def _own_weight(self, local: LocalGraph) -> Values | None:
        weight = self.graph.edge_weight
        return None if weight is None else weight[local.edge].astype(np.float64)

    def _weighted(self, chunk: int, norm: str) -> tuple[Ids, Ids, Values]:
        if norm not in NORMS:
            raise InputError(f"norm is {norm!r}, expected one of {', '.join(NORMS)}")
        local = self.locals[chunk]
        source, target = local.source, local.target
        weight = self._own_weight(local)
        if weight is None or norm == "mean":
            weight = np.ones(source.size)
        if norm == "sum":
            return source, target, weight
        if norm == "mean":
            return source, target, weight / np.bincount(target, minlength=local.count)[target]
        if norm == "gcn":
            source, target, weight = _with_loops(source, target, weight, local.count)
        span = self.chunks.span(chunk)
        degree = self._degrees(norm)
        numbers = np.concatenate([np.arange(span.start, span.stop), local.others.cpu().numpy()])
        scale = np.zeros(numbers.size)
        present = degree[numbers] > 0
        scale[present] = degree[numbers][present] ** -0.5
        return source, target, weight * scale[source] * scale[target]

    def _degrees(self, norm: str) -> Values:
        """Sums the weights of the edges into each node (by new number)."""
        if norm not in self._degree:
            total = np.zeros(self.graph.num_nodes)
            for c, kept in enumerate(self.locals):
                local = kept if c in self._mine else self._local(c)
                weight = self._own_weight(local)
                weight = np.ones(local.source.size) if weight is None else weight
                source, target = local.source, local.target
                if norm == "gcn":
                    source, target, weight = _with_loops(source, target, weight, local.count)
                total[self.chunks.span(c)] = np.bincount(target, weight, local.count)
            self._degree[norm] = total
        return self._degree[norm]

    # ---- tensors ---------------------------------------------------------------------------

    def _tensor(self, values: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device, self.dtype)

    def _compressed(self, row: Ids, column: Ids, weight: Values, shape: tuple[int, ...]) -> Tensor:
        order = np.argsort(row, kind="stable")
        pointer = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0]))])
        wide = pointer[-1] >= 1 << 31
        kind = np.int64 if wide else np.int32  # MKL takes 32 bits without a copy
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*(beta state|invariant checks).*")
            return torch.sparse_csr_tensor(
                torch.from_numpy(pointer.astype(kind)),
                torch.from_numpy(column[order].astype(kind)),
                torch.from_numpy(weight[order]).to(self.dtype),
                size=shape,
                device=self.device,
            )


def _with_loops(source: Ids, target: Ids, weight: Values, count: int) -> tuple[Ids, Ids, Values]:
    """Gives each node one self-loop: its own (the last one, as in PyG), or one of weight 1."""
    loop = source == target
    own = np.ones(count)
    own[target[loop]] = weight[loop]
    nodes = np.arange(count)
    return (
        np.concatenate([source[~loop], nodes]),
        np.concatenate([target[~loop], nodes]),
        np.concatenate([weight[~loop], own]),
    )
