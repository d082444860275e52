"""node_sums: what samplers need of all edges of a graph, in passes over the files.

Numbers are added in the order of the kernels in memory, or as whole numbers where order does not
matter, so the bits are theirs.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.sampling.on_disk.row_lists import RowLists
from foregather.sampling.rows import Columns, pointer

__all__ = ["NODE_BYTES", "edge_sums", "fast_columns", "node_sums"]

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

#: Bytes per node that each of them takes, with what is made of it while sampling.
NODE_BYTES = {"squares": 40, "node": 8, "edge": 8}


def fast_columns(lists: RowLists) -> Columns:
    """Sums of squares over all rows, for `FastGCN`; as `square_columns` of the core.

    Raises:
        InputError: an edge weight is not finite.
    """
    graph, largest = lists.graph, 0.0
    for found in lists.pieces():
        largest = max(largest, float(_squares(found).max(initial=0.0)))
    fixed = _core.FixedPoint(largest, graph.num_edges)
    sums = np.zeros(graph.num_nodes, np.int64)
    for found in lists.pieces():
        np.add.at(sums, found.ids, fixed.units(_squares(found)))
    unit = float(fixed.unit)
    total = np.array([float(sums.sum()) * unit])
    return Columns(pointer(np.array([len(sums)])), None, sums.astype(np.float64) * unit, total)


def _squares(found: Any) -> Float:
    degree = np.diff(found.ptr)
    if found.weight is None:
        values = np.repeat(1.0 / np.maximum(degree, 1), degree)
    else:
        values = found.weight.astype(np.float64)
        if not np.isfinite(values).all():
            raise InputError("edge_weight holds a number that is not finite; convert it again")
    return np.ascontiguousarray(values * values)


def node_sums(lists: RowLists) -> Float:
    """Running sums of the weights of nodes, for `Saint("node")`; as `cumulate_nodes` of the core.

    The edges of a row are added in order, then its self-loop.
    """
    sums = np.zeros(lists.graph.num_nodes)
    for found in lists.pieces():
        degree = np.diff(found.ptr)
        entry = 1.0 / (degree + 1)
        to = np.insert(found.ids.astype(np.int64), found.ptr[1:], found.rows)
        np.add.at(sums, to, np.repeat(entry * entry, degree + 1))
    return np.cumsum(sums, out=sums)


def edge_sums(lists: RowLists) -> Float:
    """Running sums of the weights of edges by target, for `Saint("edge")`; as `cumulate_edges`."""
    sums, total = np.empty(lists.graph.num_nodes), 0.0
    for found in lists.pieces():
        terms = edge_terms(lists, found.ptr, found.ids)
        running = np.cumsum(np.concatenate([[total], terms]))
        sums[found.rows] = running[found.ptr[1:]]
        total = float(running[-1])
    return sums


def edge_terms(lists: RowLists, ptr: Int, ids: npt.NDArray[Any]) -> Float:
    """The weight of each edge of some lists: 1 / degree of its target + 1 / degree of its source.

    Args:
        lists: where degrees are known.
        ptr: int64: where each list begins.
        ids: their sources.
    """
    degree = np.diff(ptr)
    own = 1.0 / np.maximum(degree, 1)
    others = np.maximum(lists.spans(ids.astype(np.int64))[1], 1)
    return np.asarray(np.repeat(own, degree) + 1.0 / others)
