"""time_order: the same relation with its rows in another order: by source, or by (time, source).

With rows ascending by time, the edges that a tree may use up to its seed's time are the first ones
of a row. Where time belongs to nodes, the time of the source is copied to the edge: one rule serves
both, and a row alone decides. Edges that are equal in the order keep the caller's order, so the
result does not depend on the order in which the relation was stored.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import FormatError
from foregather.graph.arrays import id_dtype
from foregather.graph.hetero.layout import by_time, lay_out, targets_of
from foregather.graph.hetero.relation import Level, Order, Relation, is_identity
from foregather.graph.mapped import fetch

__all__ = ["callers_order", "in_order", "turned"]

Array = npt.NDArray[Any]


def in_order(
    relation: Relation,
    num_sources: int,
    level: Level | None,
    source_time: npt.NDArray[np.int64] | None,
    threads: int = 0,
) -> Relation:
    """Returns the relation with its rows in the wanted order; itself if they are.

    Args:
        relation: in memory, with ids that were checked.
        num_sources: nodes of the source type.
        level: whose times order the rows; None orders them by source and keeps edge times. A
            relation that has no such times is ordered by source and has none: nothing limits it.
        source_time: times of the source type's nodes, or None.
        threads: 0 uses all cores; the result is the same for any number.
    """
    own = relation.time if relation.time_level == "edge" else None
    stored = (relation.order, relation.time_level)
    if level == "edge" and own is not None:
        if stored == ("time", "edge"):
            return relation
        return _sort(relation, num_sources, ("time", "edge"), own, threads)
    if level == "node" and source_time is not None:
        if stored == ("time", "node"):
            return relation
        return _sort(relation, num_sources, ("time", "node"), source_time, threads)
    kept = own if level is None else None
    if relation.order == "source":
        return relation if kept is relation.time else replace(relation, time=kept)
    return _sort(relation, num_sources, ("source", "edge"), kept, threads)


def _sort(
    relation: Relation,
    num_sources: int,
    wanted: tuple[Order, Level],
    times: npt.NDArray[np.int64] | None,
    threads: int,
) -> Relation:
    """Sorts rows anew from the edges in the caller's order; `times` are of the wanted level."""
    order, level = wanted
    targets = relation.num_targets
    work = id_dtype(max(num_sources, targets))
    source = relation.indices.astype(work, copy=False)
    target = targets_of(relation.indptr, work)
    at = callers_order(relation)
    if at is not None:
        source, target = source[at], target[at]
    if order == "time" and level == "node":
        assert times is not None
        # sorting by the place of a source in (time, id) needs no sort of the edges' times
        nodes = np.argsort(times, kind="stable")
        place = np.empty(nodes.size, work)
        place[nodes] = np.arange(nodes.size, dtype=work)
        indptr, places, ids = lay_out(place[source], target, num_sources, targets, None, threads)
        indices = nodes[places].astype(relation.indices.dtype)
        time = times[indices]
    else:
        taken = None
        if order == "time":
            assert times is not None
            taken = by_time(source, times if at is None else times[at])
        indptr, indices, ids = lay_out(source, target, num_sources, targets, taken, threads)
        time = None if times is None else times[ids if at is None else at[ids]]
    back = ids if at is None else at[ids]
    return Relation(
        indptr,
        indices,
        None if is_identity(ids) else ids,
        time,
        None if relation.weights is None else relation.weights[back],
        None if relation.features is None else fetch(relation.features)[back],
        order,
        level,
    ).made_for(num_sources)


def turned(relation: Relation, num_sources: int, order: Order = "source") -> Relation:
    """The relation back from the targets to the sources, with the same columns and edge ids.

    Args:
        relation: in memory, with ids that were checked; its times are those of the edges.
        num_sources: nodes of its source type.
        order: "time" orders rows by (time, source).
    """
    work = id_dtype(max(num_sources, relation.num_targets))
    source = targets_of(relation.indptr, work)
    target = relation.indices.astype(work, copy=False)
    at = callers_order(relation)
    if at is not None:
        source, target = source[at], target[at]
    taken = None
    if order == "time":
        assert relation.time is not None
        taken = by_time(source, relation.time if at is None else relation.time[at])
    indptr, indices, ids = lay_out(source, target, relation.num_targets, num_sources, taken)
    back = ids if at is None else at[ids]
    return Relation(
        indptr,
        indices,
        None if is_identity(ids) else ids,
        None if relation.time is None else relation.time[back],
        None if relation.weights is None else relation.weights[back],
        None if relation.features is None else fetch(relation.features)[back],
        order,
    ).made_for(relation.num_targets)


def callers_order(relation: Relation) -> npt.NDArray[np.int64] | None:
    """The stored position of each edge of the caller's list; None where both are the same.

    Raises:
        FormatError: edge_ids is not a permutation.
    """
    ids = relation.edge_ids
    if ids is None:
        return None
    at = np.full(ids.size, -1, np.int64)
    if _core.check_ids(ids, ids.size) < 0:
        at[ids] = np.arange(ids.size)
    if at.size and int(at.min()) < 0:
        raise FormatError(
            "edge_ids does not hold each position of an edge once; the relation is damaged"
        )
    return at
