"""columns: what is known about nodes and edges, looked up for those of a batch.

Numbers arrive as they are stored, to the bit; classes as int64, which torch's losses require, and
int8 rows with a scale as the float32 they stand for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.gather.memory import gather
from foregather.graph.features import Features
from foregather.graph.hetero.columns import BATCH_NAMES
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Level, Relation
from foregather.graph.hetero.time_order import callers_order
from foregather.graph.mapped import hold

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Columns", "edge_arrays", "edge_columns", "node_columns"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Arrays of one row per node or edge, by their names in a batch.

    Attributes:
        arrays: as stored, in memory.
        scales: of int8 arrays that stand for array * scale.
        classes: names of arrays whose whole numbers become int64.
    """

    arrays: Mapping[str, Array]
    scales: Mapping[str, Array]
    classes: frozenset[str] = frozenset()

    def rows(self, ids: Array, threads: int, pin: bool) -> "dict[str, Tensor]":
        """The rows of these nodes or edges, which exist."""
        return {
            name: _rows(values, self.scales.get(name), ids, (threads, pin), name in self.classes)
            for name, values in self.arrays.items()
        }


def _rows(
    values: Array,
    scale: Array | None,
    ids: Array,
    how: tuple[int, bool],
    classes: bool,
) -> "Tensor":
    import torch

    if values.ndim == 2 and values.size and values.dtype.kind in "biuf":
        threads, pin = how
        return gather(Features(values, scale), ids, threads=threads, pin=pin)
    rows = values[ids]
    if classes and rows.ndim == 1 and rows.dtype.kind in "iu":
        rows = rows.astype(np.int64)
    if scale is not None:  # an array without rows or columns
        rows = rows.astype(np.float32)
    return torch.from_numpy(rows)


def node_columns(table: NodeTable, node_type: str) -> Columns:
    """The features of a node type, its labels as `y` and its times as `time`.

    Raises:
        InputError: a feature has a name that something else in a batch has.
        FormatError: a block does not match its checksum.
        StorageError: a file cannot be read.
    """
    known = {"y": table.labels, "time": table.time}
    free = {name for name, values in known.items() if values is None}
    taken = BATCH_NAMES - free
    for name in table.features:
        if name in taken:
            raise InputError(
                f"a feature of node type {node_type!r} is called {name!r}, as something else in a "
                "batch is; give it another name"
            )
    arrays = {name: hold(values) for name, values in table.features.items()}
    arrays |= {name: hold(values) for name, values in known.items() if values is not None}
    scales = {name: hold(values) for name, values in table.scales.items()}
    classes = frozenset() if table.labels is None else frozenset(["y"])
    return Columns(arrays, scales, classes)


def edge_columns(graph: HeteroGraph, edge_type: EdgeType, level: Level | None) -> Columns:
    """What is known about the edges of a relation, in memory; see `edge_arrays`."""
    found = edge_arrays(graph, edge_type, level)
    return Columns({name: hold(values) for name, values in found.items()}, {})


def edge_arrays(graph: HeteroGraph, edge_type: EdgeType, level: Level | None) -> dict[str, Array]:
    """What is known about the edges of a relation, in the order of `graph.relation(_, level)`.

    `e_id` is the position of an edge in the edge_index that the relation was made from; it is left
    out where that is its position here.

    Raises:
        FormatError: the relation is damaged.
        StorageError: it cannot be read.
    """
    walked = graph.relation(edge_type, level)
    found: dict[str, Array | None] = {
        "e_id": walked.edge_ids,
        "edge_attr": walked.features,
        "edge_weight": walked.weights,
        "time": _own_times(graph.edges[edge_type], walked),
    }
    return {name: values for name, values in found.items() if values is not None}


def _own_times(stored: Relation, walked: Relation) -> Array | None:
    """The times of the edges themselves, in the order of `walked`, whose times may be of nodes."""
    if stored.time is None or stored.time_level == "node":
        return None
    if walked.time is not None and walked.time_level == "edge":
        return walked.time
    times, at = hold(stored.time), callers_order(stored)
    given = times if at is None else times[at]  # in the caller's order
    return given if walked.edge_ids is None else given[walked.edge_ids]
