"""group: the arrays of one node type or relation, whose rows a PyG FeatureStore is asked for."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foregather.gather.memory import gather
from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Level
from foregather.graph.mapped import fetch, hold, is_mapped, take
from foregather.loader.hetero.columns import edge_arrays
from foregather.observe.usable_memory import usable_memory

__all__ = ["Group", "groups_of"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Arrays of one row per node or edge.

    Attributes:
        count: how many nodes or edges there are.
        arrays: by name, in memory or mapped.
        scales: of int8 arrays that stand for array * scale.
        numbered: there is nothing, so `n_id` stands for it.
        places: the row of "x" that is each node's; None: its own number.
    """

    count: int
    arrays: Mapping[str, Array]
    scales: Mapping[str, Array]
    numbered: bool = False
    places: Array | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return ("n_id",) if self.numbered else tuple(self.arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array."""
        return (self.count,) if self.numbered else tuple(self.arrays[name].shape)

    def rows(self, name: str, ids: npt.NDArray[np.int64], whole: bool) -> Tensor:
        """Rows of an array; `whole` says that these are all of them, in order."""
        if self.numbered:
            return torch.from_numpy(ids.copy())
        values, scale = self.arrays[name], self.scales.get(name)
        if name == "x" and self.places is not None:
            ids, whole = np.asarray(take(self.places, ids), np.int64), False
        matrix = values.ndim == 2 and values.size > 0 and values.dtype.kind in "biuf"
        if matrix and not is_mapped(values):
            return gather(Features(values, scale), ids)
        rows = np.array(fetch(values) if whole else take(values, ids))
        if name == "y" and rows.ndim == 1 and rows.dtype.kind in "iu":
            rows = rows.astype(np.int64)
        if scale is not None:
            rows = rows.astype(np.float32) * scale
        return torch.from_numpy(rows.astype(rows.dtype.newbyteorder("="), copy=False))


def groups_of(
    graph: Graph | HeteroGraph, time: Level | None, loaded: bool | None
) -> dict[Any, Group]:
    """The groups of a graph: None for a Graph, else node types and edge types.

    Args:
        graph: the graph.
        time: the order of the edges of relations.
        loaded: see `PygFeatureStore`.

    Raises:
        FormatError: a block does not match its checksum.
        StorageError: a file cannot be read.
    """
    found: dict[Any, Group]
    if isinstance(graph, Graph):
        found = {None: _plain(graph)}
    else:
        found = {name: _of_type(table) for name, table in graph.nodes.items()}
        for edge_type in graph.edge_types:
            arrays = edge_arrays(graph, edge_type, time)
            arrays.pop("e_id", None)
            if arrays:
                count = graph.edges[edge_type].num_edges
                found[edge_type] = Group(count, arrays, {})
    if loaded or (loaded is None and _fit(found)):
        return {key: _held(group) for key, group in found.items()}
    return {key: _with_scales(group) for key, group in found.items()}


def _plain(graph: Graph) -> Group:
    arrays: dict[str, Array] = {}
    scales: dict[str, Array] = {}
    if graph.features is not None:
        arrays["x"] = graph.features.data
        if graph.features.scale is not None:
            scales["x"] = graph.features.scale
    if graph.labels is not None:
        arrays["y"] = graph.labels
    places = None if graph.features is None else graph.features.places
    return Group(graph.num_nodes, arrays, scales, places=places)


def _of_type(table: NodeTable) -> Group:
    arrays = dict(table.features)
    for name, values in (("y", table.labels), ("time", table.time)):
        if values is not None:
            arrays[name] = values
    return Group(table.num_nodes, arrays, dict(table.scales), numbered=not arrays)


def _fit(groups: Mapping[Any, Group]) -> bool:
    ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    arrays = [one for group in groups.values() for one in group.arrays.values()]
    need = sum(int(one.nbytes) for one in arrays if is_mapped(one))
    return need == 0 or need <= usable_memory() // ranks


def _held(group: Group) -> Group:
    arrays = {name: hold(values) for name, values in group.arrays.items()}
    places = None if group.places is None else hold(group.places)
    return _with_scales(Group(group.count, arrays, group.scales, group.numbered, places))


def _with_scales(group: Group) -> Group:
    scales = {name: hold(values) for name, values in group.scales.items()}
    return Group(group.count, group.arrays, scales, group.numbered, group.places)
