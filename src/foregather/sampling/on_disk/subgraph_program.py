"""subgraph_program: walks, and induced subgraphs, of a topology that stays on disk.

A step of all walks of a bulk is one pass over the places they go to; the edges among the nodes of a
subgraph are then found in their whole lists, read once for as many minibatches as fit. Draws are
those of the kernels in memory (`walk.hpp`, `draw.hpp`).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.sampling.bulk import Bulk, Sample
from foregather.sampling.on_disk.list_program import groups
from foregather.sampling.on_disk.node_sums import edge_sums, edge_terms, node_sums
from foregather.sampling.on_disk.row_lists import Lists, RowLists
from foregather.sampling.seeds import Position, distinct_seeds, flatten
from foregather.sampling.subgraphs.saint import Saint
from foregather.sampling.subgraphs.subgraph import SubgraphSampler
from foregather.sampling.subgraphs.walk import RandomWalk

__all__ = ["sample_subgraphs"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


def sample_subgraphs(
    sampler: SubgraphSampler,
    lists: RowLists,
    seeds: Sequence[Array],
    seed: int,
    epoch: int,
    first_batch: int,
) -> Bulk:
    """The bulk of `sampler.sample_bulk(graph, seeds, ...)`, bit for bit."""
    graph, count = lists.graph, len(seeds)
    keys = [_keys(seed, epoch, first_batch, step, count) for step in range(_steps(sampler))]
    if isinstance(sampler, Saint) and sampler.kind != "walk":
        given: list[Array] = [np.empty(0, np.int64)] * count
        met = _drawn(lists, sampler, keys)
    else:
        given = list(seeds)
        walks = sampler.walks if isinstance(sampler, RandomWalk) else 1
        assert isinstance(sampler, RandomWalk | Saint)
        met = _walk(lists, given, sampler.length, walks, keys)
    firsts, positions = distinct_seeds(graph, given)
    dtype = graph.indices.dtype
    nodes = [
        _in_order(np.concatenate([first.astype(np.int64), more])).astype(dtype)
        for first, more in zip(firsts, met, strict=True)
    ]
    samples: list[Sample] = []
    for first, end, found in groups(lists, [ids.astype(np.int64) for ids in nodes]):
        for b in range(first, end):
            known = len(nodes[b]) if sampler.draws_seeds else len(firsts[b])
            samples.append(_induce(found, nodes[b], known, positions[b], first_batch + b))
    return Bulk(samples, seed, epoch, first_batch)


def _steps(sampler: SubgraphSampler) -> int:
    """How many layers of keys its draws take."""
    if isinstance(sampler, Saint) and sampler.kind != "walk":
        return 2
    assert isinstance(sampler, RandomWalk | Saint)
    return sampler.length


def _keys(
    seed: int, epoch: int, first_batch: int, layer: int, count: int
) -> npt.NDArray[np.uint64]:
    keys = np.empty(count, np.uint64)
    _core.layer_keys(seed & (2**64 - 1), epoch, first_batch, layer, keys)
    return keys


def _walk(
    lists: RowLists, seeds: Sequence[Array], length: int, walks: int, keys: Sequence[Any]
) -> list[Int]:
    """The nodes on the walks of each minibatch, walk after walk."""
    flat, ptr = flatten(seeds)
    wrong = np.flatnonzero((flat < 0) | (flat >= lists.graph.num_nodes))
    if len(wrong):
        batch = int(np.searchsorted(ptr, wrong[0], "right")) - 1
        raise InputError(
            f"seed {wrong[0] - ptr[batch]} is node {flat[wrong[0]]}, but the graph has "
            f"{lists.graph.num_nodes} nodes (ids are 0 to N-1)"
        )
    starts, ptr = np.repeat(flat, walks), ptr * walks
    path = np.empty((len(starts), length + 1), np.int64)
    path[:, 0] = starts
    for step in range(length):
        start, degree = lists.spans(path[:, step])
        place = np.empty(len(starts), np.int64)
        _core.walk_draws(keys[step], ptr, starts, degree, place)
        go = place >= 0  # a walk stays where there is nowhere to go
        path[:, step + 1] = path[:, step]
        path[go, step + 1] = lists.ids_at((start + place)[go])
    return [path[a:b].reshape(-1) for a, b in pairwise(ptr)]


def _drawn(lists: RowLists, sampler: Saint, keys: Sequence[Any]) -> list[Int]:
    """The nodes, or the ends of the edges, that each minibatch of GraphSAINT draws."""
    sums = lists.kept(sampler.kind, node_sums if sampler.kind == "node" else edge_sums)
    if not len(sums) or not sums[-1] > 0:
        raise InputError("there is nothing to draw: no vertex or edge has a weight above zero")
    targets = [_invert(sums, _units(key, sampler.size)) for key in keys[0]]
    if sampler.kind == "node":
        return targets
    drawn: list[Int] = []
    for first, end, found in groups(lists, [np.unique(ids) for ids in targets]):
        for b in range(first, end):
            sources = _sources(lists, found, targets[b], _units(keys[1][b], sampler.size))
            drawn.append(np.stack([sources, targets[b]], 1).reshape(-1))
    return drawn


def _units(key: Any, size: int) -> npt.NDArray[np.float64]:
    made = np.empty(size)
    _core.unit_draws(int(key), made)
    return made


def _invert(sums: npt.NDArray[np.float64], units: npt.NDArray[np.float64]) -> Int:
    """The first node whose running sum exceeds these parts of the total."""
    found = np.searchsorted(sums, units * sums[-1], "right")
    last = int(np.searchsorted(sums, sums[-1], "left"))  # rounding may give the total itself
    return np.where(found == len(sums), last, found).astype(np.int64)


def _sources(lists: RowLists, found: Lists, targets: Int, units: Array) -> Int:
    """The source of each edge drawn, whose target is known: by the weights in its list."""
    made = np.empty(len(targets), np.int64)
    for i, row in enumerate(np.searchsorted(found.rows, targets)):
        ids = found.ids[found.ptr[row] : found.ptr[row + 1]]
        running = np.cumsum(edge_terms(lists, np.array([0, len(ids)]), ids))
        at = np.searchsorted(running, units[i] * running[-1], "right")
        made[i] = ids[min(int(at), len(ids) - 1)]
    return made


def _in_order(ids: Int) -> Int:
    """Distinct ids in the order of their first places."""
    _, first = np.unique(ids, return_index=True)
    return ids[np.sort(first)]


def _induce(found: Lists, node: Array, known: int, position: Position, batch: int) -> Sample:
    """The minibatch of all edges among its nodes, ordered by target and place in the graph."""
    ptr, entry, edge = found.take(node.astype(np.int64))
    order = np.argsort(node)
    members = node[order]
    ids = found.ids[entry]
    at = np.minimum(np.searchsorted(members, ids), len(members) - 1)
    inside = members[at] == ids if len(members) else np.zeros(0, bool)
    col = np.repeat(np.arange(len(node), dtype=np.uint32), np.diff(ptr))[inside]
    arrays = (node, order[at[inside]].astype(np.uint32), col, edge[inside])
    for array in arrays:
        array.setflags(write=False)
    return Sample(
        node=arrays[0],
        num_nodes=(known, len(node)),
        row=arrays[1],
        col=arrays[2],
        num_edges=(len(arrays[3]),),
        edge=arrays[3],
        weight=None,
        seed_position=position,
        batch=batch,
        expand="once",
    )
