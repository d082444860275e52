"""layerwise: Ladies and FastGCN, which choose the sources of a whole layer together.

A layer's sources are its targets and `layer_sizes[layer]` nodes chosen for all targets together,
without replacement, with probability increasing with their weight p. Targets come first, so that
they are a prefix of the sources and `conv((x, x[:n]), edge_index)` works for every layer; a target
that was not itself chosen is included only for that and contributes no edges. Each class is a
matrix program, and `sample_bulk` runs it as one C++ kernel that gives the same bits without
building P.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.integrity.check_topology import walkable
from foregather.sampling.bulk import Sample
from foregather.sampling.fused import KernelSampler
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.matrix import LayerGraph
from foregather.sampling.rows import Columns, Picks, Rows, inclusion, pointer
from foregather.sampling.seeds import Position, distinct_seeds

__all__ = ["Debias", "FastGCN", "Ladies"]

Array = npt.NDArray[Any]

#: How edges are weighted. With A the edge weights, or 1 / degree of the target if there are none,
#: and tau the smallest key that was not chosen: "exact" is A / (1 - exp(-p tau)), so that the
#: expected sum over the chosen is the sum over all; "reference" is A / (s p / sum of p), then
#: divided by the sum of the target's edges, as in the published code (the target's mean is then
#: biased); None gives no weights.
Debias = Literal["exact", "reference"] | None


class LayerWise(KernelSampler):
    """The base of Ladies and FastGCN: everything but p."""

    whole_weights: ClassVar[bool] = True
    layer_sizes: Sequence[int]
    debias: Debias

    def _check(self) -> None:
        """Checks the options.

        Raises:
            InputError: an option is invalid.
        """
        given: Any = self.layer_sizes
        sizes = (given,) if isinstance(given, int) else tuple(given)
        if not sizes or not all(isinstance(size, (int, np.integer)) for size in sizes):
            raise InputError(f"layer_sizes is {given!r}, expected one whole number for each layer")
        if any(size < 1 and size != -1 for size in sizes):
            raise InputError(
                f"layer_sizes is {given!r}, expected numbers of at least 1, or -1 for all nodes"
            )
        if self.debias not in ("exact", "reference", None):
            raise InputError(f'debias is {self.debias!r}, expected "exact", "reference" or None')
        object.__setattr__(self, "layer_sizes", tuple(int(size) for size in sizes))

    @abstractmethod
    def norm(self, p: Rows) -> Columns:
        """The weight p of each column."""

    @abstractmethod
    def _arrivals(self, graph: Graph) -> tuple[_core.Arrivals, float] | None:
        """Returns the weights and their sum if all layers share them; None if each has its own."""

    def sample(self, p: Rows) -> Picks:
        """Picks the entries in the chosen columns, with their weights."""
        return self.pick(p, *p.sample_columns(self.layer_sizes[p.layer], self.norm(p)))

    def pick(self, p: Rows, chosen: Columns, tau: npt.NDArray[np.float64]) -> Picks:
        """Picks the entries in already chosen columns, with their weights."""
        entry, which = p.match_columns(chosen)
        if self.debias is None:
            return Picks(entry)
        batch, weights = p.batch[entry], chosen.weights[which]
        if self.debias == "exact":
            return Picks(entry, p.values[entry] / inclusion(weights, tau[batch]))
        size = np.diff(chosen.ptr)[batch].astype(np.float64)
        return Picks(entry, p.values[entry] / (size * (weights / chosen.total[batch])))

    def extract(self, p: Rows, picks: Picks) -> LayerGraph:
        """The layer's graph; reference weights are divided by the sum of their row."""
        made = super().extract(p, picks)
        if self.debias != "reference" or made.weight is None:
            return made
        row = p.row[picks.entry]
        sums = np.bincount(row, made.weight, len(p.rows))  # adds in the order of the entries
        return replace(made, weight=made.weight / np.where(sums == 0, 1, sums)[row])

    def _sample_by_kernel(
        self,
        graph: Graph,
        seeds: Sequence[Array],
        seed: int,
        epoch: int,
        first_batch: int,
        threads: int,
    ) -> list[Sample]:
        """The minibatches of a bulk: all layers of all of them by one call of the core."""
        graph = walkable(graph, threads)
        nodes, positions = distinct_seeds(graph, seeds)
        stacked = np.concatenate([np.empty(0, graph.indices.dtype), *nodes])
        common = self._arrivals(graph) if graph.num_edges else None
        made = _core.sample_layerwise(
            _tables(graph),
            np.asarray(graph.indptr),
            np.asarray(graph.indices),
            None if graph.edge_weight is None else np.asarray(graph.edge_weight),
            np.array(self.layer_sizes, np.int64),
            self.debias or "none",
            None if common is None else common[0],
            0.0 if common is None else common[1],
            stacked,
            pointer(np.array([len(ids) for ids in nodes], np.int64)),
            seed & (2**64 - 1),
            epoch,
            first_batch,
            threads,
        )
        return self._samples(made, positions, graph.indices.dtype, first_batch)

    def _samples(
        self, made: Any, positions: list[Position], dtype: np.dtype[Any], first_batch: int
    ) -> list[Sample]:
        """Copies the kernel's result into one arena and splits it into minibatches."""
        layers, batches = self.num_layers, len(positions)
        num_nodes = np.empty((batches, layers + 1), np.int64)
        num_edges = np.empty((batches, layers), np.int64)
        made.counts(num_nodes.reshape(-1), num_edges.reshape(-1))
        node_ptr, edge_ptr = pointer(num_nodes[:, -1]), pointer(num_edges.sum(1))
        node, edges = np.empty(node_ptr[-1], dtype), int(edge_ptr[-1])
        row, col = np.empty(edges, np.uint32), np.empty(edges, np.uint32)
        edge = np.empty(edges, np.int64)
        weight = np.empty(edges if self.debias else 0, np.float32)
        made.fill(node, row, col, edge, weight)
        for array in (node, row, col, edge, weight):
            array.setflags(write=False)
        samples = []
        for b in range(batches):
            own = slice(int(edge_ptr[b]), int(edge_ptr[b + 1]))
            samples.append(
                Sample(
                    node=node[node_ptr[b] : node_ptr[b + 1]],
                    num_nodes=tuple(num_nodes[b].tolist()),
                    row=row[own],
                    col=col[own],
                    num_edges=tuple(num_edges[b].tolist()),
                    edge=edge[own],
                    weight=weight[own] if self.debias else None,
                    seed_position=positions[b],
                    batch=first_batch + b,
                    expand=self.expand,
                )
            )
        return samples


@dataclass(frozen=True, slots=True)
class Ladies(LayerWise):
    """LADIES: p is the sum of squared edge weights over the targets of the layer.

    Attributes:
        layer_sizes: nodes chosen for each layer, from the seeds outwards; -1 is all.
        debias: how edges are weighted, see `Debias`.
    """

    layer_sizes: Sequence[int]
    debias: Debias = "exact"

    def __post_init__(self) -> None:
        self._check()

    def norm(self, p: Rows) -> Columns:
        """Sums of squares over the rows of each batch."""
        return p.sum_columns(p.values * p.values)

    def _arrivals(self, graph: Graph) -> None:
        """Every layer has its own."""


@dataclass(frozen=True, slots=True)
class FastGCN(LayerWise):
    """FastGCN: p is the sum of squared edge weights over all targets of the graph.

    p is the same for every layer and minibatch; it is computed once per graph (20 bytes per node)
    and kept as long as the graph. Chosen nodes without an edge to the layer are dropped.

    Attributes:
        layer_sizes: nodes chosen for each layer, from the seeds outwards; -1 is all.
        debias: how edges are weighted, see `Debias`.
    """

    layer_sizes: Sequence[int]
    debias: Debias = "exact"

    def __post_init__(self) -> None:
        self._check()

    def norm(self, p: Rows) -> Columns:
        """Sums of squares over all rows of the graph."""
        return self.column_weights(p.graph)

    def column_weights(self, graph: Graph) -> Columns:
        """Sums of squares over all rows of the graph, computed once."""
        return _squares(graph)[0]

    def _arrivals(self, graph: Graph) -> tuple[_core.Arrivals, float]:
        columns, arrivals = _squares(graph)
        return arrivals, float(columns.total[0])


# ---- cached per graph ----------------------------------------------------------------------------

Squares = tuple[Columns, _core.Arrivals]
Tables = _core.LayerwiseTables32 | _core.LayerwiseTables64


#: p of every graph, and the tables of the threads that sample it.
_SQUARES: GraphCache[Squares] = GraphCache(shared=True)
_TABLES: GraphCache[Tables] = GraphCache(shared=True)


def _squares(graph: Graph) -> Squares:
    """Sums of squares over all rows of the graph, computed once."""

    def make(graph: Graph) -> Squares:
        sums = np.empty(graph.num_nodes, np.int64)
        weight = None if graph.edge_weight is None else np.asarray(graph.edge_weight)
        arrays = (np.asarray(graph.indptr), np.asarray(graph.indices), weight)
        unit = _core.square_columns(*arrays, sums)
        total = np.array([float(sums.sum()) * unit])
        p = sums.astype(np.float64) * unit
        return Columns(pointer(np.array([len(sums)])), None, p, total), _core.Arrivals(p)

    return _SQUARES.get(graph, make, alike=True)


def _tables(graph: Graph) -> Tables:
    """The threads' tables for a graph."""

    def make(graph: Graph) -> Tables:
        made: Tables = _core.layerwise_tables(np.asarray(graph.indices))
        return made

    return _TABLES.get(graph, make, alike=True)
