"""expand: how a layer over a partition is expanded, by the kind of sampler.

Picks that depend on one row alone are made by its owner: `Neighbor`, uniform or by weight, and
`Labor`. All other matrix programs, including subclasses that override verbs, fetch whole rows and
run their verbs here.

Where minibatches leave edges out (left_out.py), uniform `Neighbor` draws here from the rows that
do, and `Labor` fetches whole rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from foregather.dist.sampling.column_owners import ColumnOwners
from foregather.dist.sampling.layers import Frontier, compact, rows_of
from foregather.dist.sampling.left_out import LeftOut, ask_sources
from foregather.dist.sampling.partition import Partition
from foregather.dist.sampling.pick_requests import picked_layer
from foregather.dist.sampling.row_picks import PickRule, picks_by_row
from foregather.dist.sampling.row_requests import Entries, ask_owners
from foregather.dist.transport.rank_grid import Channel
from foregather.sampling.labor import Labor
from foregather.sampling.layerwise import FastGCN
from foregather.sampling.matrix import LayerGraph, MatrixSampler, checked_picks, keeps_verbs
from foregather.sampling.neighbor import Neighbor
from foregather.sampling.rows import GivenRows, pointer

__all__ = ["layer_expander"]


def layer_expander(
    channel: Channel,
    partition: Partition,
    sampler: MatrixSampler,
    threads: int,
    columns: ColumnOwners | None = None,
    left: LeftOut | None = None,
) -> Callable[[Frontier], LayerGraph]:
    """Returns the function that expands the layers of a sampler.

    Its calls are collective in the column.

    Args:
        channel: the links.
        partition: what this rank owns.
        sampler: the rule.
        threads: threads to use.
        columns: chooses columns for `FastGCN`.
        left: what the minibatches leave out; only for samplers that `leaves_out_anywhere`.
    """
    phase = channel.clock.phase

    def rows(front: Frontier, **options: Any) -> Entries:
        asked = (front.rows, front.batch_ptr, front.keys)
        return ask_owners(channel, partition, *asked, threads=threads, **options)

    def node_wise(front: Frontier) -> LayerGraph:
        assert isinstance(sampler, Neighbor)
        fanout = sampler.num_neighbors[front.layer]
        with phase("picks"):
            if left is not None:
                made = _rows_without(channel, partition, front, sampler, left, threads)
            else:
                made = rows(front, fanout=fanout, replace=sampler.replace)
        with phase("extraction"):
            return compact(front, made, threads)

    def matrix(front: Frontier) -> LayerGraph:
        with phase("probability"):
            entries = rows(front, weighted=True)
            if not front.nodes:
                return compact(front, entries, threads)
            if left is not None:
                entries = _kept(entries, left.keeps(front, entries))
            p = rows_of(partition, front, entries, threads)
        with phase("picks"):
            if columns is not None:
                assert isinstance(sampler, FastGCN)
                picks: Any = sampler.pick(p, *columns.chosen(front.layer))
            else:
                picks = sampler.sample(p)
        with phase("extraction"):
            return sampler.extract(p, checked_picks(p, picks))

    def by_owner(front: Frontier) -> LayerGraph:
        assert isinstance(sampler, (Neighbor, Labor))
        if (
            left is not None or sampler.num_neighbors[front.layer] < 0
        ):  # whole rows, once for all minibatches
            return matrix(front)
        with phase("picks"):
            return picked_layer(channel, partition, front, PickRule(sampler, front.layer, threads))

    if isinstance(sampler, Neighbor) and sampler.weights is None and keeps_verbs(sampler):
        return node_wise
    return by_owner if picks_by_row(sampler) else matrix


def _kept(entries: Entries, stays: Any) -> Entries:
    """Entries of rows without those that do not stay."""
    counts = np.add.reduceat(np.append(stays, False), entries.ptr[:-1], dtype=np.int64)
    counts[np.diff(entries.ptr) == 0] = 0
    weight = None if entries.weight is None else entries.weight[stays]
    return Entries(pointer(counts), entries.columns[stays], entries.edge[stays], weight)


def _rows_without(
    channel: Channel,
    partition: Partition,
    front: Frontier,
    sampler: Neighbor,
    left: LeftOut,
    threads: int,
) -> Entries:
    """Picks of the rows of a uniform sampler, without what is left out; collective."""
    found = left.match(front)
    here = found >= 0
    fanout = sampler.num_neighbors[front.layer]
    at = np.concatenate([[0], np.cumsum(~here)])[front.batch_ptr]
    others = ask_owners(
        channel,
        partition,
        front.rows[~here],
        at,
        front.keys,
        fanout=fanout,
        replace=sampler.replace,
        threads=threads,
    )
    own, counts = front.rows[here], left.left(found[here])
    ptr = pointer(counts)
    p = GivenRows(
        graph=partition,  # type: ignore[arg-type] # stands for the graph
        layer=front.layer,
        rows=own,
        batch_ptr=front.batch_ptr - at,
        ptr=ptr,
        columns=np.empty(ptr[-1], own.dtype),  # not looked at: picks are uniform
        edge=np.arange(ptr[-1]),
        keys=front.keys,
        nodes=own,
        node_ptr=front.batch_ptr - at,
        frontier=np.zeros(len(front.keys), np.int64),
        threads=threads,
    )
    entry = checked_picks(p, sampler.sample(p)).entry
    edge = left.step_over(found[here][p.row[entry]], entry - ptr[p.row[entry]])
    columns = ask_sources(channel, partition, own[p.row[entry]], edge)
    sizes = np.empty(len(here), np.int64)
    sizes[here] = np.bincount(p.row[entry], minlength=len(own))
    sizes[~here] = np.diff(others.ptr)
    mine = np.repeat(here, sizes)
    made = Entries(
        pointer(sizes), np.empty(len(mine), columns.dtype), np.empty(len(mine), np.int64), None
    )
    for which, some, places in ((mine, columns, edge), (~mine, others.columns, others.edge)):
        made.columns[which], made.edge[which] = some, places
    return made
