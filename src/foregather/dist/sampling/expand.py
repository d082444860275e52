"""expand: how a layer over a partition is expanded, by the kind of sampler.

Picks that depend on one row alone are made by its owner: `Neighbor`, uniform or by weight, and
`Labor`. All other matrix programs, including subclasses that override verbs, fetch whole rows and
run their verbs here.
"""

from collections.abc import Callable
from typing import Any

from foregather.dist.sampling.column_owners import ColumnOwners
from foregather.dist.sampling.layers import Frontier, compact, rows_of
from foregather.dist.sampling.partition import Partition
from foregather.dist.sampling.pick_requests import picked_layer
from foregather.dist.sampling.row_picks import PickRule, picks_by_row
from foregather.dist.sampling.row_requests import Entries, ask_owners
from foregather.dist.transport.rank_grid import Channel
from foregather.sampling.labor import Labor
from foregather.sampling.layerwise import FastGCN
from foregather.sampling.matrix import LayerGraph, MatrixSampler, checked_picks, keeps_verbs
from foregather.sampling.neighbor import Neighbor

__all__ = ["layer_expander"]


def layer_expander(
    channel: Channel,
    partition: Partition,
    sampler: MatrixSampler,
    threads: int,
    columns: ColumnOwners | None = None,
) -> Callable[[Frontier], LayerGraph]:
    """Returns the function that expands the layers of a sampler.

    Its calls are collective in the column.

    Args:
        channel: the links.
        partition: what this rank owns.
        sampler: the rule.
        threads: threads to use.
        columns: chooses columns for `FastGCN`.
    """

    def rows(front: Frontier, **options: Any) -> Entries:
        asked = (front.rows, front.batch_ptr, front.keys)
        return ask_owners(channel, partition, *asked, threads=threads, **options)

    def node_wise(front: Frontier) -> LayerGraph:
        assert isinstance(sampler, Neighbor)
        fanout = sampler.num_neighbors[front.layer]
        return compact(front, rows(front, fanout=fanout, replace=sampler.replace), threads)

    def matrix(front: Frontier) -> LayerGraph:
        entries = rows(front, weighted=True)
        if not front.nodes:
            return compact(front, entries, threads)
        p = rows_of(partition, front, entries, threads)
        if columns is not None:
            assert isinstance(sampler, FastGCN)
            picks: Any = sampler.pick(p, *columns.chosen(front.layer))
        else:
            picks = sampler.sample(p)
        return sampler.extract(p, checked_picks(p, picks))

    def by_owner(front: Frontier) -> LayerGraph:
        assert isinstance(sampler, (Neighbor, Labor))
        if sampler.num_neighbors[front.layer] < 0:  # whole rows, once for all minibatches
            return matrix(front)
        return picked_layer(channel, partition, front, PickRule(sampler, front.layer, threads))

    if isinstance(sampler, Neighbor) and sampler.weights is None and keeps_verbs(sampler):
        return node_wise
    return by_owner if picks_by_row(sampler) else matrix
