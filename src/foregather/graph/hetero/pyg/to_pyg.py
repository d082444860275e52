"""to_pyg: a typed graph as a PyG `HeteroData`, with the edges in the caller's order."""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError, MissingDependencyError
from foregather.graph.hetero.layout import targets_of
from foregather.graph.hetero.load import held
from foregather.graph.hetero.names import about, show_edge_type
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Relation
from foregather.graph.hetero.time_order import callers_order
from foregather.graph.hetero.value import HeteroValue
from foregather.graph.mapped import fetch

__all__ = ["data_of"]

Array = npt.NDArray[Any]
_VALID = ("valid", "validation")


def data_of(graph: HeteroValue) -> Any:
    """The `HeteroData` of a graph; see `HeteroGraph.to_pyg`."""
    try:
        from torch_geometric.data import HeteroData
    except ImportError as error:
        raise MissingDependencyError(
            "torch_geometric is needed to make a HeteroData; install foregather[pyg]"
        ) from error
    data = HeteroData()
    for name, table in graph.nodes.items():
        with about(f"node type {name!r}"):
            for key, value in _of_table(table).items():
                data[name][key] = value
    for edge_type, relation in graph.edges.items():
        with about(f"relation {show_edge_type(edge_type)}"):
            for key, value in _of_relation(relation).items():
                data[edge_type][key] = value
    return data


def _tensor(values: Array) -> Any:
    """A tensor with memory of its own: a graph does not change when its data does."""
    import torch

    return torch.from_numpy(np.array(fetch(values)))


def _of_table(table: NodeTable) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in table.features:
        rows = table.rows(name)
        found[name] = _tensor(table.features[name] if rows.scale is None else rows[:])
    taken: dict[str, Any] = {}
    if "x" not in table.features:
        taken["num_nodes"] = table.num_nodes
    if table.labels is not None:
        taken["y"] = _tensor(table.labels)
    if table.time is not None:
        taken["time"] = _tensor(table.time)
    for name in table.splits:
        ids = table.split(name)
        name = "val" if name in _VALID else name
        if ids.size < 2 or bool((np.diff(ids) > 0).all()):
            mask = np.zeros(table.num_nodes, np.bool_)
            mask[ids] = True
            taken[f"{name}_mask"] = _tensor(mask)
        else:  # a mask has neither an order nor repeats
            taken[f"{name}_idx"] = _tensor(ids)
    both = sorted(found.keys() & (taken.keys() | {"num_nodes", "time", "y"}))
    if both:
        raise InputError(
            f"the feature {both[0]!r} would take the place of what PyG calls so; rename it"
        )
    return {**found, **taken}


def _of_relation(relation: Relation) -> dict[str, Any]:
    relation = held(relation)
    ends = np.stack([relation.indices, targets_of(relation.indptr, np.dtype(np.int64))])
    columns: dict[str, Array | None] = {
        "edge_index": ends.T,
        "edge_attr": relation.features,
        "edge_weight": relation.weights,
        "time": relation.time if relation.time_level == "edge" else None,
    }
    at = callers_order(relation)
    given = {
        key: values if at is None else fetch(values)[at]
        for key, values in columns.items()
        if values is not None
    }
    given["edge_index"] = np.ascontiguousarray(given["edge_index"].T)
    return {key: _tensor(values) for key, values in given.items()}
