"""The sampler of the Heterogeneous Graph Transformer in NumPy: what its kernel must equal.

k minibatches are worked on together. A node of type t in minibatch b is the number b * N_t + id, so
sorted numbers are grouped by minibatch. A budget counts units of 2^-40: the sum of whole numbers
does not depend on its order.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.relation import Relation
from foregather.sampling.hetero.hetero_bulk import EdgeSample, HeteroSample, NodeSample
from foregather.sampling.hetero.inputs import seed_groups
from foregather.sampling.rows import pointer

__all__ = ["sample_by_budgets"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]

_UNIT = 40  # bits of a budget of 1
_MOST_ROWS = 1 << 22  # of a minibatch: no row adds more than 1 to a budget, so sums fit 62 bits
_NONE = np.empty(0, np.int64)


def sample_by_budgets(
    graph: HeteroGraph, rule: Any, seeds: Any, seed: int, epoch: int = 0, first_batch: int = 0
) -> list[HeteroSample]:
    """The minibatches of `rule.sample_bulk`."""
    groups, count = seed_groups(rule, graph, seeds, None, None)
    numbers = rule.of(graph.node_types)
    made = Budgets(graph, groups, count, 1)
    for layer in range(rule.num_layers):
        made.take(seed, epoch, first_batch, layer, [own[layer] for own in numbers])
    return made.samples(first_batch)


class _Type:
    """The nodes of one type.

    Attributes:
        count: nodes of the type in the graph.
        taken: the nodes taken before layer 0 (seeds), in layer 0, ...
        known: all of them, sorted.
        open: nodes with a budget, sorted.
        units: their budgets.
        given: seeds as they were given, where each minibatch begins, or None.
    """

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self.taken: list[Int] = [_NONE]
        self.known: Int = _NONE
        self.open: Int = _NONE
        self.units: Int = _NONE
        self.given: tuple[Int, Int] | None = None

    def take(self, nodes: Int) -> None:
        self.taken.append(nodes)
        self.known = np.union1d(self.known, nodes)

    def starts(self, keys: Int, batches: int) -> Int:
        """Where the nodes of each minibatch begin among sorted ones."""
        return np.searchsorted(keys, np.arange(batches + 1, dtype=np.int64) * self.count)


class Budgets:
    """The budgets of k minibatches.

    Args:
        graph: the graph.
        groups: (number of the type, seeds, where each minibatch begins, ...) by `seed_groups`.
        batches: k.
        threads: threads to read rows with.
    """

    def __init__(
        self, graph: HeteroGraph, groups: Sequence[Any], batches: int, threads: int
    ) -> None:
        self.graph, self.batches, self.threads = graph, batches, threads
        self._types = [_Type(table.num_nodes) for table in graph.nodes.values()]
        self._number = {name: at for at, name in enumerate(graph.node_types)}
        self._rows = np.zeros(batches, np.int64)
        for at, seeds, ptr, *_ in groups:
            own = self._types[at]
            batch = np.repeat(np.arange(batches), np.diff(ptr))
            keys, first = np.unique(batch * own.count + seeds, return_index=True)
            own.taken, own.known = [keys[np.argsort(first)]], keys
            own.given = batch * own.count + seeds, ptr
        self._fresh = [own.taken[0] for own in self._types]
        self._ordered: dict[int, tuple[Int, Int, Int]] = {}

    def take(
        self, seed: int, epoch: int, first_batch: int, layer: int, numbers: Sequence[int]
    ) -> None:
        """Takes the nodes of a layer, of each type as many as `numbers` says."""
        self._spread(self._fresh)
        layer_keys = np.empty(self.batches, np.uint64)
        _core.layer_keys(seed & (2**64 - 1), epoch, first_batch, layer, layer_keys)
        self._fresh = []
        for at, (own, number) in enumerate(zip(self._types, numbers, strict=True)):
            picks = self._draw(own, number, at, layer_keys)
            self._fresh.append(own.open[picks])
            own.open, own.units = np.delete(own.open, picks), np.delete(own.units, picks)
        for own, nodes in zip(self._types, self._fresh, strict=True):
            own.take(nodes)

    def _draw(self, own: _Type, number: int, at: int, layer_keys: Array) -> Int:
        if not len(own.open) or number == 0:
            return _NONE
        keys = np.array(
            [_core.fold_key(np.array([key, at], np.uint64)) for key in layer_keys], np.uint64
        )
        ptr = own.starts(own.open, self.batches)
        weights = np.square(own.units * 2.0**-_UNIT)
        size, picks_ptr = len(own.open) if number < 0 else number, np.empty_like(ptr)
        _core.count_picks(ptr, weights, size, False, picks_ptr)
        picks, tau = np.empty(picks_ptr[-1], np.int64), np.empty(self.batches, np.float64)
        columns = own.open % own.count
        _core.sample_columns(ptr, columns, weights, keys, size, picks_ptr, picks, tau, self.threads)
        return picks

    def _spread(self, fresh: Sequence[Int]) -> None:
        """Adds to the budgets of those that have edges into new nodes."""
        found: list[list[tuple[Int, Int]]] = [[] for _ in self._types]
        for name in self.graph.edge_types:
            source, target = self._number[name[0]], self._number[name[2]]
            nodes = fresh[target]
            if not len(nodes):
                continue
            own, from_type = self._types[target], self._types[source]
            self._rows += np.bincount(nodes // own.count, minlength=self.batches)
            if self._rows.max(initial=0) > _MOST_ROWS:
                raise InputError(
                    f"a minibatch reads {self._rows.max()} rows, more than {_MOST_ROWS}, above "
                    "which budgets are not exact; take smaller batches or fewer samples"
                )
            ptr, columns, _ = self._read(self.graph.relation(name), nodes % own.count)
            degree = np.diff(ptr)
            keys = np.repeat(nodes // own.count, degree) * from_type.count + columns
            units = np.repeat(np.maximum((1 << _UNIT) // np.maximum(degree, 1), 1), degree)
            new = ~_among(keys, from_type.known)
            found[source].append((keys[new], units[new]))
        for own, parts in zip(self._types, found, strict=True):
            if parts:
                keys = np.concatenate([own.open, *(part[0] for part in parts)])
                units = np.concatenate([own.units, *(part[1] for part in parts)])
                own.open, own.units = _added(keys, units)

    def _read(self, relation: Relation, rows: Int) -> tuple[Int, Int, Int]:
        """The rows of some targets: where each begins, sources, and positions of edges."""
        ids = rows.astype(relation.indices.dtype)
        ptr = np.empty(len(ids) + 1, np.int64)
        _core.count_rows(relation.indptr, ids, ptr)
        columns, edge = np.empty(ptr[-1], ids.dtype), np.empty(ptr[-1], np.int64)
        _core.extract_rows(relation.indptr, relation.indices, ids, ptr, columns, edge, self.threads)
        return ptr, columns.astype(np.int64), edge

    # ---- the minibatches -------------------------------------------------------------------

    def samples(self, first_batch: int) -> list[HeteroSample]:
        """All nodes that were taken, with all edges between them."""
        self._ordered = {at: _in_order(own, self.batches) for at, own in enumerate(self._types)}
        nodes = [self._nodes_of(at) for at in range(len(self._types))]
        edges = [self._edges_of(name) for name in self.graph.edge_types]
        return [
            HeteroSample(
                dict(zip(self.graph.node_types, (of[at] for of in nodes), strict=True)),
                dict(zip(self.graph.edge_types, (of[at] for of in edges), strict=True)),
                first_batch + at,
            )
            for at in range(self.batches)
        ]

    def _nodes_of(self, number: int) -> list[NodeSample]:
        own, (keys, ptr, layer) = self._types[number], self._ordered[number]
        wide = own.count >= 1 << 32
        ids = _frozen((keys % own.count).astype(np.int64 if wide else np.uint32))
        layers = len(own.taken)
        counts = np.zeros((self.batches, layers), np.int64)
        np.add.at(counts, (keys // own.count, layer), 1)
        upto = np.cumsum(counts, 1)
        return [
            NodeSample(
                ids[ptr[at] : ptr[at + 1]],
                tuple(int(n) for n in upto[at]),
                None,
                _positions(own, keys[ptr[at] : ptr[at] + counts[at, 0]], at),
            )
            for at in range(self.batches)
        ]

    def _edges_of(self, name: Any) -> list[EdgeSample]:
        source_at, target_at = self._number[name[0]], self._number[name[2]]
        source, target = self._types[source_at], self._types[target_at]
        keys, begin, _ = self._ordered[target_at]
        ptr, columns, edge = self._read(self.graph.relation(name), keys % target.count)
        degree = np.diff(ptr)
        col = np.repeat(np.arange(len(keys)) - begin[keys // target.count], degree)
        batch = np.repeat(keys // target.count, degree)
        wanted = batch * source.count + columns
        there = _among(wanted, source.known)
        sources, begin, _ = self._ordered[source_at]
        place = np.argsort(sources)[np.searchsorted(source.known, wanted[there])]
        row = place - begin[batch[there]]
        cuts = np.searchsorted(batch[there], np.arange(self.batches + 1))
        parts = (row.astype(np.uint32), col[there].astype(np.uint32), edge[there])
        row32, col32, at_edge = (_frozen(part) for part in parts)
        return [EdgeSample(row32[a:b], col32[a:b], at_edge[a:b], None) for a, b in pairwise(cuts)]


def _in_order(own: _Type, batches: int) -> tuple[Int, Int, Int]:
    """Nodes by minibatch and then as they were taken, where each begins, and their layers."""
    keys = np.concatenate(own.taken)
    layer = np.repeat(np.arange(len(own.taken)), [len(part) for part in own.taken])
    order = np.argsort(keys // own.count, kind="stable")
    keys = keys[order]
    return keys, pointer(np.bincount(keys // own.count, minlength=batches)), layer[order]


def _positions(own: _Type, seeds: Int, batch: int) -> Int | None:
    """Where each given seed is among the distinct ones; None if all are distinct."""
    if own.given is None:
        return None
    keys, ptr = own.given
    given = keys[ptr[batch] : ptr[batch + 1]]
    if len(given) == len(seeds):
        return None
    order = np.argsort(seeds)
    made: Int = order[np.searchsorted(seeds[order], given)]
    return made


def _among(keys: Int, known: Int) -> npt.NDArray[np.bool_]:
    """Which of the keys are known; those are sorted."""
    if not len(known):
        return np.zeros(len(keys), bool)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found: npt.NDArray[np.bool_] = known[place] == keys
    return found


def _added(keys: Int, units: Int) -> tuple[Int, Int]:
    """Distinct keys, sorted, with the sums of their units."""
    if not len(keys):
        return keys, units
    order = np.argsort(keys, kind="stable")
    keys, units = keys[order], units[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[first], np.add.reduceat(units, first)


def _frozen(values: Array) -> Array:
    values.setflags(write=False)
    return values
