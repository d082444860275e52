"""layers: the loop over the layers of a bulk on one rank, shared by all modes.

Nodes are numbered as in the serial samplers: known nodes first, then new ones in order of
discovery. So a bulk is the same, bit for bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.dist.sampling.partition import Partition
from foregather.dist.sampling.row_requests import Entries
from foregather.errors import InputError
from foregather.sampling.bulk import Bulk
from foregather.sampling.matrix import LayerGraph, MatrixSampler, assemble
from foregather.sampling.rows import GivenRows, pointer
from foregather.sampling.seeds import Position

__all__ = ["Frontier", "compact", "grow", "layer_keys", "rows_of", "run"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Frontier:
    """The state of k minibatches before a layer.

    Attributes:
        layer: number of the layer.
        nodes: all nodes so far of each minibatch.
        begin: where the nodes to expand begin, in each minibatch.
        keys: uint64 [k] layer keys.
    """

    layer: int
    nodes: list[Array]
    begin: list[int]
    keys: Keys

    @cached_property
    def rows(self) -> Array:
        """Nodes to expand, stacked over minibatches."""
        return np.concatenate([ids[b:] for ids, b in zip(self.nodes, self.begin, strict=True)])

    @cached_property
    def batch_ptr(self) -> Int:
        """Where the rows of each minibatch begin, and the end."""
        return pointer(np.array([len(i) - b for i, b in zip(self.nodes, self.begin, strict=True)]))

    @cached_property
    def node_ptr(self) -> Int:
        """Where the nodes of each minibatch begin, and the end."""
        return pointer(np.array([len(ids) for ids in self.nodes]))


def layer_keys(seed: int, epoch: int, batches: Sequence[int], layer: int) -> Keys:
    """Keys of one layer of these minibatches."""
    keys = np.empty(len(batches), np.uint64)
    for place, batch in enumerate(batches):
        _core.layer_keys(seed & (2**64 - 1), epoch, batch, layer, keys[place : place + 1])
    return keys


def grow(
    sampler: MatrixSampler,
    expand_layer: Callable[[Frontier], LayerGraph],
    dtype: np.dtype[Any],
    nodes: list[Array],
    numbers: Sequence[int],
    seed: int,
    epoch: int,
) -> list[LayerGraph]:
    """Runs all layers; `expand_layer` is called for each, even without minibatches.

    Args:
        sampler: the rule.
        expand_layer: makes a layer.
        dtype: of ids.
        nodes: distinct seeds of each minibatch.
        numbers: what each is keyed by.
        seed: seed of the run.
        epoch: number of the epoch.
    """
    begin = [0] * len(nodes)
    layers: list[LayerGraph] = []
    none = np.empty(0, dtype)
    for layer in range(sampler.num_layers):
        keys = layer_keys(seed, epoch, numbers, sampler.key_layer(layer))
        front = Frontier(layer, nodes, begin, keys) if nodes else _Nobody(layer, none)
        made = expand_layer(front)
        layers.append(made)
        if sampler.expand == "once":
            begin = [len(ids) for ids in nodes]
        nodes = [np.concatenate(pair) for pair in zip(nodes, made.fresh, strict=True)]
    return layers


def run(
    sampler: MatrixSampler,
    expand_layer: Callable[[Frontier], LayerGraph],
    dtype: np.dtype[Any],
    nodes: list[Array],
    positions: list[Position],
    batches: Sequence[int],
    seed: int,
    epoch: int,
) -> Bulk:
    """Makes minibatches with these numbers; see `grow`."""
    keys = [sampler.key_batch(batch) for batch in batches]
    layers = grow(sampler, expand_layer, dtype, nodes, keys, seed, epoch)
    samples = []
    for b, batch in enumerate(batches):
        pieces = [nodes[b], *(made.fresh[b] for made in layers)]
        known = tuple(np.cumsum([len(ids) for ids in pieces]).tolist())
        first, node = batch - b, np.concatenate(pieces)
        samples.append(assemble(layers, b, node, known, positions[b], first, sampler.expand))
    return Bulk(samples, seed, epoch, batches[0] if len(batches) else 0)


class _Nobody(Frontier):
    """The frontier of a rank that has no minibatch but answers other ranks."""

    def __init__(self, layer: int, none: Array) -> None:
        super().__init__(layer, [], [], np.empty(0, np.uint64))
        self.__dict__["rows"] = none
        self.__dict__["batch_ptr"] = self.__dict__["node_ptr"] = np.zeros(1, np.int64)


class _NoGraph:
    """Replaces the graph if a block was made without it; refuses every access."""

    def __init__(self, block: Partition) -> None:
        self.num_nodes, self.num_edges = block.num_nodes, block.num_edges

    def __getattr__(self, name: str) -> Any:
        raise InputError(
            f"the sampler uses graph.{name}, but this rank has a block without the graph; create "
            "it with Partition.of or Partition.open, or pass the whole graph on every rank"
        )


def rows_of(
    block: Partition, front: Frontier, entries: Entries, threads: int, values: Array | None = None
) -> GivenRows:
    """Makes P from entries of any origin; its graph is that of the block."""
    graph: Any = _NoGraph(block) if block.whole is None else block.whole
    given = values if values is not None else entries.weight
    nodes = np.concatenate([front.rows[:0], *front.nodes])
    return GivenRows(
        graph=graph,
        layer=front.layer,
        rows=front.rows,
        batch_ptr=front.batch_ptr,
        ptr=entries.ptr,
        columns=entries.columns,
        edge=entries.edge,
        keys=front.keys,
        nodes=nodes,
        node_ptr=front.node_ptr,
        frontier=np.array(front.begin, np.int64),
        threads=threads,
        given=None if given is None else given.astype(np.float64),
    )


def compact(front: Frontier, entries: Entries, threads: int) -> LayerGraph:
    """Makes the layer's graph if every entry is a pick."""
    edge_ptr = np.ascontiguousarray(entries.ptr[front.batch_ptr])
    columns, counts = entries.columns, np.empty(len(front.keys), np.int64)
    row, fresh = np.empty(len(columns), np.uint32), np.empty_like(columns)
    nodes = np.concatenate([front.rows[:0], *front.nodes])
    _core.compact(front.node_ptr, nodes, edge_ptr, columns, row, fresh, counts, threads)
    shift = np.array(front.begin, np.int64) - front.batch_ptr[:-1]
    local = np.arange(len(front.rows)) + np.repeat(shift, np.diff(front.batch_ptr))
    col = np.repeat(local, np.diff(entries.ptr)).astype(np.uint32)
    pieces = [fresh[begin : begin + n] for begin, n in zip(edge_ptr[:-1], counts, strict=True)]
    return LayerGraph(edge_ptr, row, col, entries.edge, None, pieces)
