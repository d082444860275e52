"""list_program: matrix samplers whose rows are read from disk, layer by layer.

A layer needs the whole lists of its frontier: they are read once for as many minibatches as fit in
memory, and then the sampler's own verbs run on them as they do in memory, so samples have the same
bits (`matrix`, `rows`). Works for every `MatrixSampler`, a user's own too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.sampling.bulk import Bulk
from foregather.sampling.fused import gives_weights
from foregather.sampling.joined_trees import TreeSeeds, join_trees
from foregather.sampling.layerwise import FastGCN
from foregather.sampling.links.excluded import Excluded
from foregather.sampling.matrix import LayerGraph, MatrixSampler, assemble, checked_picks
from foregather.sampling.on_disk.node_sums import fast_columns
from foregather.sampling.on_disk.row_lists import Lists, RowLists
from foregather.sampling.rows import Columns, GivenRows, Rows, pointer
from foregather.sampling.seeds import distinct_seeds

__all__ = ["ENTRY_BYTES", "groups", "sample_lists", "sample_trees_of_lists"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]

ENTRY_BYTES = 128  # of an entry of P and of what verbs make of it, its list among them


def groups(lists: RowLists, rows: Sequence[Int]) -> Iterator[tuple[int, int, Lists]]:
    """Cuts minibatches into runs whose lists fit in memory: first, end, and those lists.

    Args:
        lists: where they are read.
        rows: nodes whose lists each minibatch looks at.

    Raises:
        BudgetError: those of one minibatch do not fit; the message states the minimum.
    """
    entries = [int(lists.spans(ids)[1].sum()) for ids in rows]
    first = 0
    while first < len(rows):
        if entries[first] * ENTRY_BYTES > lists.shares.work:
            lists.make_room(entries[first], ENTRY_BYTES)
        end, used = first, 0
        while end < len(rows) and (used + entries[end]) * ENTRY_BYTES <= lists.shares.work:
            used += entries[end]
            end += 1
        yield first, end, lists.read(np.unique(np.concatenate(rows[first:end])))
        first = end


def sample_lists(
    sampler: MatrixSampler,
    source: RowLists,
    seeds: Sequence[Array],
    seed: int,
    epoch: int,
    first_batch: int,
    threads: int,
    exclude: Excluded | None,
) -> Bulk:
    """The bulk of `sampler.sample_bulk(graph, seeds, ...)`, bit for bit."""
    nodes, positions = distinct_seeds(source.graph, seeds)
    keys = [sampler.key_batch(first_batch + b) for b in range(len(nodes))]
    layers = _grow(sampler, source, nodes, keys, (seed, epoch), threads, exclude)
    fresh = [nodes, *(made.fresh for made in layers)]
    samples = []
    for b in range(len(nodes)):
        pieces = [part[b] for part in fresh]
        known = tuple(np.cumsum([len(ids) for ids in pieces]).tolist())
        node = np.concatenate(pieces)
        samples.append(assemble(layers, b, node, known, positions[b], first_batch, sampler.expand))
    return Bulk(samples, seed, epoch, first_batch)


def sample_trees_of_lists(
    sampler: MatrixSampler,
    source: RowLists,
    trees: TreeSeeds,
    seed: int,
    epoch: int,
    first_batch: int,
    threads: int,
    exclude: Excluded | None,
) -> Bulk:
    """The bulk of `sampler.sample_trees(graph, ...)`, bit for bit.

    Args:
        sampler: expands once.
        source: where lists are read.
        trees: the seeds.
        seed: seed of the run.
        epoch: number of the epoch.
        first_batch: number of the first minibatch.
        threads: threads to use.
        exclude: what each tree leaves out, as a minibatch of its own.
    """
    nodes, _ = distinct_seeds(source.graph, trees.one_by_one)
    keys = trees.keys.tolist()
    layers = _grow(sampler, source, nodes, keys, (seed, epoch), threads, exclude)
    numbers = range(first_batch, first_batch + len(trees.ptr) - 1)
    seeds = trees.flat.astype(source.graph.indices.dtype)
    how = (sampler.num_layers, gives_weights(sampler))
    samples = join_trees(layers, seeds, trees.ptr, numbers, *how)
    return Bulk(samples, seed, epoch, first_batch)


def _grow(
    sampler: MatrixSampler,
    source: RowLists,
    nodes: list[Array],
    numbers: Sequence[int],
    run: tuple[int, int],
    threads: int,
    exclude: Excluded | None,
) -> list[LayerGraph]:
    """The layers of minibatches with these seeds, keyed by numbers; `run`: seed and epoch."""
    begin = [0] * len(nodes)
    gaps = None if exclude is None else _Gaps.of(exclude, source.graph.num_nodes, len(nodes))
    shared = source.kept("squares", fast_columns) if isinstance(sampler, FastGCN) else None
    layers: list[LayerGraph] = []
    for layer in range(sampler.num_layers if nodes else 0):
        keys = _keys(sampler, layer, *run, numbers)
        fronts = [ids[b:].astype(np.int64) for ids, b in zip(nodes, begin, strict=True)]
        parts: list[LayerGraph] = []
        for first, end, lists in groups(source, fronts):
            own = slice(first, end)
            p = _multiply(source, lists, nodes[own], begin[own], keys[own], layer, threads)
            if gaps is not None:
                p = gaps.leave_out(p, first)
            parts.append(sampler.extract(p, checked_picks(p, _sample(sampler, p, shared))))
        made = _join(parts)
        layers.append(made)
        if sampler.expand == "once":
            begin = [len(ids) for ids in nodes]
        nodes = [np.concatenate(pair) for pair in zip(nodes, made.fresh, strict=True)]
    return layers


def _sample(sampler: MatrixSampler, p: Rows, shared: Columns | None) -> Any:
    """The verb `sample`, with the weights of columns that all layers share, if they do."""
    if shared is None or not isinstance(sampler, FastGCN):
        return sampler.sample(p)
    return sampler.pick(p, *p.sample_columns(sampler.layer_sizes[p.layer], shared))


def _keys(
    sampler: MatrixSampler, layer: int, seed: int, epoch: int, numbers: Sequence[int]
) -> npt.NDArray[np.uint64]:
    keys = np.empty(len(numbers), np.uint64)
    for place, number in enumerate(numbers):
        key = (number, sampler.key_layer(layer))
        _core.layer_keys(seed & (2**64 - 1), epoch, *key, keys[place : place + 1])
    return keys


def _multiply(
    source: RowLists,
    lists: Lists,
    nodes: list[Array],
    begin: list[int],
    keys: npt.NDArray[np.uint64],
    layer: int,
    threads: int,
) -> GivenRows:
    """P of these minibatches, of lists that were read."""
    rows = np.concatenate([ids[b:] for ids, b in zip(nodes, begin, strict=True)])
    ptr, entry, edge = lists.take(rows.astype(np.int64))
    weight = None if lists.weight is None else lists.weight[entry].astype(np.float64)
    return GivenRows(
        graph=source.graph,
        layer=layer,
        rows=rows,
        batch_ptr=pointer(np.array([len(i) - b for i, b in zip(nodes, begin, strict=True)])),
        ptr=ptr,
        columns=lists.ids[entry],
        edge=edge,
        keys=np.ascontiguousarray(keys),
        nodes=np.concatenate(nodes),
        node_ptr=pointer(np.array([len(ids) for ids in nodes])),
        frontier=np.array(begin, np.int64),
        threads=threads,
        given=weight,
    )


def _join(parts: list[LayerGraph]) -> LayerGraph:
    """The layer of all minibatches, from those of groups of them."""
    if len(parts) == 1:
        return parts[0]
    ends = pointer(np.array([part.edge_ptr[-1] for part in parts]))
    ptr = [part.edge_ptr[1:] + before for part, before in zip(parts, ends[:-1], strict=True)]
    weights = [part.weight for part in parts if part.weight is not None]
    return LayerGraph(
        np.concatenate([np.zeros(1, np.int64), *ptr]),
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.col for part in parts]),
        np.concatenate([part.edge for part in parts]),
        np.concatenate(weights) if weights else None,
        [ids for part in parts for ids in part.fresh],
    )


@dataclass(frozen=True, eq=False)
class _Gaps:
    """Edges that minibatches leave out, by their ends.

    Attributes:
        num_nodes: nodes of the graph.
        rows: int64, distinct, ascending: minibatch * num_nodes + target.
        entries: int64, distinct, ascending: place in `rows` * num_nodes + source.
    """

    num_nodes: int
    rows: Int
    entries: Int

    @staticmethod
    def of(exclude: Excluded, num_nodes: int, batches: int) -> "_Gaps":
        ptr, target, source = exclude.by_ends(num_nodes, batches, "a topology on disk")
        batch = np.repeat(np.arange(batches), np.diff(ptr))
        rows, place = np.unique(batch * num_nodes + target, return_inverse=True)
        return _Gaps(num_nodes, rows, np.unique(place.reshape(-1) * num_nodes + source))

    def leave_out(self, p: GivenRows, first: int) -> GivenRows:
        """P without these edges; its first minibatch is number `first` of the bulk."""
        batch = np.repeat(np.arange(len(p.keys)) + first, np.diff(p.batch_ptr))
        key = batch * self.num_nodes + p.rows.astype(np.int64)
        place = np.minimum(np.searchsorted(self.rows, key), max(0, len(self.rows) - 1))
        met = self.rows[place] == key if len(self.rows) else np.zeros(len(key), bool)
        entry = np.flatnonzero(met[p.row])
        code = place[p.row[entry]] * self.num_nodes + p.columns[entry].astype(np.int64)
        keep = np.ones(len(p.columns), bool)
        keep[entry] = ~np.isin(code, self.entries)
        left = np.bincount(p.row[keep], minlength=len(p.rows))
        given = None if p.given is None else p.given[keep]
        return replace(
            p, ptr=pointer(left), columns=p.columns[keep], edge=p.edge[keep], given=given
        )
