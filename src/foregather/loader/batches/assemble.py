"""assemble: turns a Sample into a Batch: gathers rows, labels and weights for its nodes and edges.

Pure: the same sample and options give the same tensors. Everything is read from memory (or a memory
map) with `foregather.gather.memory`; tensors use memory of the pool.
"""

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.gather.memory import gather, gathered_dtype
from foregather.gather.row_sums import sum_features, sum_matrix, summed_dtype
from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.graph.mapped import fetch
from foregather.loader.batches.array_pool import ArrayPool, shared_pool
from foregather.loader.batches.batch import Batch, LayerGraph
from foregather.loader.batches.edge_rows import EdgeRows
from foregather.loader.batches.leaf_sums import (
    Leaves,
    Scratch,
    Summed,
    num_targets,
    starts_of,
    sum_weights,
)
from foregather.loader.batches.narrow_labels import NarrowLabels
from foregather.loader.batches.tree_rows import distinct_nodes
from foregather.sampling.bulk import Sample

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Assembler", "weighted_degree"]

Array = npt.NDArray[Any]
_ROWS = 1 << 20  # rows whose weights are summed at once
_CLASSES = frozenset(np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4"))


@dataclass(frozen=True, slots=True, eq=False)
class Assembler:
    """Defines what a batch holds.

    Attributes:
        graph: the source of rows, labels and weights.
        labels: "all" nodes or only the "seeds".
        edge_attr: gather edge features, if the graph has them.
        norm: "gcn" for 1 / sqrt(d_target d_source) of the whole graph as edge weight, times a
            factor that makes the sampled edges of a target stand for all its edges.
        pin: page-locked tensors for feature rows.
        threads: threads of the gather.
        whole_weights: see `Sampler.whole_weights`.
        edge_rows: the source of edge features; None: the graph.
        leaves: see `leaf_sums`.
        narrow: labels that are looked up in place of those of the graph; None: these.
    """

    graph: Graph
    labels: Literal["all", "seeds"] = "all"
    edge_attr: bool = True
    norm: Literal["gcn"] | None = None
    pin: bool = False
    threads: int = 0
    whole_weights: bool = False
    edge_rows: EdgeRows | None = None
    leaves: Leaves = "rows"
    narrow: NarrowLabels | None = None
    _pool: ArrayPool = field(init=False, default_factory=shared_pool)
    _degree: npt.NDArray[np.float64] | None = field(init=False, default=None)

    def clear(self) -> None:
        """Frees the memory of released batches."""
        self._pool.clear()

    def __post_init__(self) -> None:
        if self.norm is not None and self.graph.edge_weight is not None:
            object.__setattr__(self, "_degree", weighted_degree(self.graph))

    def on(self, graph: Graph) -> "Assembler":
        """Returns the same assembler over the same graph with other arrays in memory."""
        return self if graph is self.graph else self._with("graph", graph)

    def using(self, threads: int) -> "Assembler":
        """Returns the same assembler with another number of threads."""
        return self._with("threads", threads)

    def _with(self, name: str, value: object) -> "Assembler":
        made = copy.copy(self)
        object.__setattr__(made, name, value)
        return made

    def batch(
        self,
        sample: Sample,
        seed_id: Array,
        input_id: Array,
        rows: "Tensor | Summed | None" = None,
        edge_attr: "Tensor | None" = None,
    ) -> Batch:
        """Assembles the batch of a sample, its seeds and their `input_id`.

        Args:
            sample: nodes and edges.
            seed_id: node ids of the seeds as given.
            input_id: the input nodes they are.
            rows: feature rows of the sample's nodes, if already gathered; or what `summed` made.
            edge_attr: likewise of its edges.
        """
        import torch

        nodes, pairs, edges = self._ids(sample)
        if self.leaves != "rows" and not isinstance(rows, Summed):
            rows = self.summed(sample, rows)
        x: Tensor | None
        if isinstance(rows, Summed):
            x, sums, weight = rows.x, rows.neighbor_sum, rows.weight
        else:
            x = self.rows(nodes) if rows is None else rows
            sums, weight = None, self.weight(sample)
        edge_index, e_id = torch.from_numpy(pairs), torch.from_numpy(edges)
        if edge_attr is None and self.edge_attr:
            edge_attr = self._gather_edges(sample.edge)
        layers = None
        if sample.expand == "per-layer":
            layers = _layers(sample, edge_index, e_id, weight, edge_attr)
        position, known = sample.seed_position, sample.num_nodes
        return Batch(
            batch_size=sample.num_seeds,
            n_id=torch.from_numpy(nodes),
            x=x,
            y=self.classes(nodes if self.labels == "all" else nodes[: sample.num_seeds]),
            edge_index=None if layers is not None else edge_index,
            e_id=e_id,
            input_id=self._long(input_id),
            seed_id=self._long(seed_id),
            num_sampled_nodes=[b - a for a, b in zip((0, *known), known, strict=False)],
            num_sampled_edges=list(sample.num_edges),
            edge_weight=weight,
            edge_attr=edge_attr,
            seed_position=None if position is None else self._long(position),
            layers=layers,
            batch=None if sample.tree is None else self._long(sample.tree),
            number=sample.batch,
            neighbor_sum=sums,
            leaves=None if sums is None else self.leaves,
        )

    def summed(self, sample: Sample, rows: "Tensor | None" = None) -> Summed:
        """Returns rows of the sample's targets, and the sums over their edges.

        Args:
            sample: nodes and edges.
            rows: feature rows of all its nodes, if already gathered; they are not kept.
        """
        features, weight = self.graph.features, self.weight(sample)
        assert features is not None
        starts, factors = starts_of(sample), sum_weights(self.leaves, weight)
        made = self.empty_summed(num_targets(sample), weight)
        x, sums = made.x.numpy(), made.neighbor_sum.numpy()
        if rows is None:
            gather(features, sample.node[: len(x)], made.x, threads=self.threads)
            edges = (sample.node, sample.row, starts, factors)
            sum_features(features, *edges, sums, self.threads)
        else:
            x[...] = rows[: len(x)].numpy()
            sum_matrix(rows.numpy(), sample.row, starts, factors, sums, self.threads)
        return made

    def empty_summed(self, targets: int, weight: "Tensor | None") -> Summed:
        """Returns memory for what `summed` makes."""
        features = self.graph.features
        assert features is not None
        dtype = gathered_dtype(features)
        x, sums = (
            self._empty_array((targets, features.width), one)
            for one in (dtype, summed_dtype(dtype))
        )
        return Summed(x, sums, weight)

    def space(self, sample: Sample) -> "Tensor | Summed | None":
        """Returns memory for what `batch` takes as rows of this sample."""
        if self.leaves == "rows":
            return self.empty_rows(len(sample.node))
        return self.empty_summed(num_targets(sample), self.weight(sample))

    def repeated(self, sample: Sample, rows: "Tensor") -> "Tensor":
        """Returns the feature rows of all nodes of trees, given those of `distinct_nodes`."""
        found = self.empty_rows(len(sample.node))
        assert found is not None
        at = np.searchsorted(distinct_nodes(sample), sample.node)
        _core.gather_rows(rows.numpy(), at, found.numpy(), None, self.threads)
        return found

    def scratch(self, rows: int = 0, repeats: bool = False) -> Scratch:
        """Returns memory for the rows of one batch after the other, mostly of up to `rows`.

        Args:
            rows: of a batch.
            repeats: batches have copies of these rows.
        """
        if (self.leaves == "rows" and not repeats) or self.graph.features is None:
            return Scratch(self.empty_rows)
        features = self.graph.features
        return Scratch(self.empty_rows, (rows, features.width), gathered_dtype(features))

    def scratch_bytes(self, rows: int, repeats: bool = False) -> int:
        """Bytes of a scratch for this many rows."""
        features = self.graph.features
        if (self.leaves == "rows" and not repeats) or features is None:
            return 0
        return rows * features.width * gathered_dtype(features).itemsize

    def empty_rows(self, count: int) -> "Tensor | None":
        """Returns memory for the feature rows of `count` nodes; None if the graph has none."""
        return self._empty(self.graph.features, count)

    def empty_edges(self, count: int) -> "Tensor | None":
        """Returns memory for the feature rows of `count` edges; None if batches have none."""
        return self._empty(self.graph.edge_features, count) if self.edge_attr else None

    def _empty(self, features: Features | None, count: int) -> "Tensor | None":
        if features is None:
            return None
        return self._empty_array((count, features.width), gathered_dtype(features))

    def _empty_array(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> "Tensor":
        import torch

        if self.pin and torch.cuda.is_available():
            kind = torch.from_numpy(np.empty(0, dtype)).dtype
            return torch.empty(shape, dtype=kind, pin_memory=True)
        return torch.from_numpy(self._pool.empty(shape, dtype))

    def rows(self, nodes: Array) -> "Tensor | None":
        """Feature rows of nodes; None if the graph has none."""
        return self._gather(self.graph.features, nodes)

    def _gather_edges(self, ids: Array) -> "Tensor | None":
        if self.edge_rows is None:
            return self._gather(self.graph.edge_features, ids)
        return self.edge_rows.gather(ids, self.empty_edges(len(ids)))

    def _gather(self, features: Features | None, ids: Array) -> "Tensor | None":
        import torch

        if features is None:
            return None
        if self.pin and torch.cuda.is_available():  # torch keeps a pool of pinned memory itself
            return gather(features, ids, threads=self.threads, pin=True)
        rows = self._pool.empty((len(ids), features.width), gathered_dtype(features))
        return gather(features, ids, torch.from_numpy(rows), threads=self.threads)

    def _long(self, values: Array) -> "Tensor":
        import torch

        copy = self._pool.empty(values.shape, np.int64)
        copy[...] = values
        return torch.from_numpy(copy)

    def _ids(self, sample: Sample) -> tuple[Array, Array, Array]:
        """Nodes, edges as pairs, and positions of edges, all int64."""
        n_id = self._pool.empty(sample.node.shape, np.int64)
        pairs = self._pool.empty((2, sample.row.size), np.int64)
        e_id = self._pool.empty(sample.edge.shape, np.int64)
        ids = (sample.node, sample.row, sample.col, sample.edge)
        try:
            _core.widen_ids(*ids, n_id, pairs, e_id, self.threads)
        except TypeError:  # other dtypes, or strided: of a sampler that is not ours
            n_id[...], e_id[...] = sample.node, sample.edge
            pairs[0], pairs[1] = sample.row, sample.col
        return n_id, pairs, e_id

    def classes(self, nodes: Array) -> "Tensor | None":
        """Labels of nodes (int64, in range), classes as int64; None if the graph has none."""
        import torch

        labels = self.graph.labels
        if labels is None:
            return None
        if labels.dtype in _CLASSES and labels.ndim == 1 and labels.flags.c_contiguous:
            if self.narrow is not None:
                labels = self.narrow.of(labels, len(nodes))
            found = self._pool.empty(nodes.shape, np.int64)  # torch's losses require int64
            _core.widen_labels(labels, nodes, found, self.threads)
            return torch.from_numpy(found)
        rows = labels.take(nodes, 0, mode="clip")
        if rows.ndim == 1 and rows.dtype.kind in "iu":
            return self._long(rows)
        return torch.from_numpy(rows)

    def weight(self, sample: Sample) -> "Tensor | None":
        """Returns the weights of the sample's edges; None if batches have none."""
        import torch

        values = self._products(sample)
        return None if values is None else torch.from_numpy(np.array(values, np.float32))

    def _products(self, sample: Sample) -> Array | None:
        """The graph's weights or its normalisation, times the sampler's correction."""
        own, stored = sample.weight, None
        if self.graph.edge_weight is not None:
            stored = self.graph.edge_weight[sample.edge]
        if self.norm is None:
            if own is None or stored is None:
                return stored if own is None else own
            return own if self.whole_weights else stored * own
        factor = self._inverse_root(sample.node)
        values = factor[sample.row] * factor[sample.col]
        if own is None:
            values *= self._share(sample)
        elif not self.whole_weights:
            values *= own
        elif stored is None:  # the sampler's weights hold 1 / degree of the target
            return values * own * self._count(sample.node)[sample.col]
        else:  # they hold the graph's weights, once
            return values * own
        return values if stored is None else values * stored

    def _share(self, sample: Sample) -> npt.NDArray[np.float64]:
        """Returns, for each edge, in-degree / sampled edges of its target."""
        degree, share = self._count(sample.node), np.empty(sample.col.size)
        # "once" expands a node once in total; per layer, each layer has its own edges of a node
        spans = [sample.col.size] if sample.expand == "once" else sample.num_edges
        start = 0
        for count in spans:
            col = sample.col[start : start + count]
            sampled = np.bincount(col, minlength=degree.size)
            share[start : start + count] = (degree / np.maximum(sampled, 1))[col]
            start += count
        return share

    def _count(self, nodes: Array) -> npt.NDArray[np.float64]:
        """In-degrees of nodes."""
        at = nodes.astype(np.int64)
        return (self.graph.indptr[at + 1] - self.graph.indptr[at]).astype(np.float64)

    def _inverse_root(self, nodes: Array) -> npt.NDArray[np.float64]:
        """1 / sqrt(degree) of nodes, 0 if the degree is 0; weighted if the graph has weights."""
        degree = self._count(nodes) if self._degree is None else self._degree[nodes]
        root = np.sqrt(np.maximum(degree, 0))
        return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)


def weighted_degree(graph: Graph) -> npt.NDArray[np.float64]:
    """The sum of the weights of each node's row, float64 [N]; reads all weights once."""
    assert graph.edge_weight is not None
    total = np.zeros(graph.num_nodes)
    for first in range(0, graph.num_nodes, _ROWS):
        bounds = fetch(graph.indptr[first : first + _ROWS + 1])
        rows = np.repeat(np.arange(bounds.size - 1), np.diff(bounds))
        weights = fetch(graph.edge_weight[bounds[0] : bounds[-1]])
        total[first : first + _ROWS] = np.bincount(rows, weights, minlength=bounds.size - 1)
    return total


def _layers(
    sample: Sample,
    edge_index: "Tensor",
    e_id: "Tensor",
    weight: "Tensor | None",
    edge_attr: "Tensor | None",
) -> list[LayerGraph]:
    layers, end = [], 0
    for layer, count in enumerate(sample.num_edges):
        start, end = end, end + count
        size = (sample.num_nodes[layer + 1], sample.num_nodes[layer])
        part = None if weight is None else weight[start:end]
        attr = None if edge_attr is None else edge_attr[start:end]
        edges = edge_index[:, start:end].contiguous()
        layers.append(LayerGraph(edges, e_id[start:end], size, part, attr))
    return layers[::-1]
