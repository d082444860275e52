"""topology: converts a HeteroData, or a Data with times, to the HeteroGraph that is sampled.

Only what samples depend on is converted: counts, edges, times and weights.
"""

import math
import warnings
from typing import Any

from torch_geometric.data import Data

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import (
    PLAIN_RELATION,
    PLAIN_TYPE,
    EdgeType,
    about,
    show_edge_type,
)
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Level, Relation
from foregather.interop.topology import drawable
from foregather.sampling.hetero.fanouts import Fanouts

__all__ = ["least_fanouts", "stores_of", "typed_topology"]


def stores_of(data: Any) -> tuple[dict[str, Any], dict[EdgeType, Any]]:
    """The stores of node types and of relations; a Data is one type and one relation."""
    if isinstance(data, Data):
        return {PLAIN_TYPE: data._store}, {PLAIN_RELATION: data._store}
    return (
        {name: data[name] for name in data.node_types},
        {name: data[name] for name in data.edge_types},
    )


def typed_topology(
    data: Any, time_attr: str | None, weight_attr: str | None, whole: Any
) -> tuple[HeteroGraph, Level | None]:
    """Returns the graph, and whose times it has.

    Args:
        data: a HeteroData, or a Data.
        time_attr: name of the times of nodes or of edges.
        weight_attr: name of the edge attribute to draw by.
        whole: fan-outs of draws without replacement, or None: rows that they take whole may have
            only zeros as weights.

    Raises:
        InputError: edges, times or weights that cannot be used; names the type or relation.
    """
    nodes, edges = stores_of(data)
    if not nodes:
        raise InputError("the data has no node types; set data['a type'].num_nodes or its x")
    timed, timed_edges, level = _times(nodes, edges, time_attr)
    if weight_attr is not None and not any(weight_attr in store for store in edges.values()):
        raise InputError(f"weight_attr is {weight_attr!r}, but no relation has such an attribute")
    tables = {}
    for name, store in nodes.items():
        with about(f"node type {name!r}"):
            time = store[time_attr] if name in timed else None
            tables[name] = NodeTable.of(_count(store, name), time=time)
    least = least_fanouts(whole, list(edges))
    relations = {}
    for edge_type, store in edges.items():
        for name in (edge_type[0], edge_type[2]):
            if name not in tables:
                raise InputError(
                    f"relation {show_edge_type(edge_type)} has nodes of type {name!r}, which the "
                    f"data does not have; set data[{name!r}].num_nodes"
                )
        with about(f"relation {show_edge_type(edge_type)}"):
            pairs = _edges(store)
            weight = None if weight_attr is None else store.get(weight_attr, None)
            if weight is not None and least[edge_type]:
                weight = drawable(weight, pairs, least[edge_type])
            relations[edge_type] = Relation.of(
                pairs,
                tables[edge_type[0]].num_nodes,
                tables[edge_type[2]].num_nodes,
                time=store[time_attr] if edge_type in timed_edges else None,
                weights=weight,
            )
    return HeteroGraph(tables, relations), level


def _times(
    nodes: dict[str, Any], edges: dict[EdgeType, Any], time_attr: str | None
) -> tuple[set[str], set[EdgeType], Level | None]:
    """The types and the relations that have the attribute, one of the two empty."""
    if time_attr is None:
        return set(), set(), None
    of_nodes = {
        name
        for name, store in nodes.items()
        if time_attr in store and store.is_node_attr(time_attr)
    }
    of_edges = {
        name
        for name, store in edges.items()
        if time_attr in store and store.is_edge_attr(time_attr)
    }
    every: dict[Any, Any] = {**nodes, **edges}
    sound = {id(every[name]) for name in (*of_nodes, *of_edges)}
    for name, store in every.items():
        if time_attr in store and id(store) not in sound:
            raise InputError(
                f"{time_attr!r} of {name!r} has not one entry per node or edge, so it is no "
                "time_attr"
            )
    if of_nodes and of_edges:
        raise InputError(
            f"time_attr is {time_attr!r}, which nodes and edges have; PyG and we look at one of "
            "them, so give the other another name"
        )
    if not of_nodes and not of_edges:
        raise InputError(
            f"time_attr is {time_attr!r}, but no node type and no relation has such an attribute"
        )
    return of_nodes, of_edges, "node" if of_nodes else "edge"


def _count(store: Any, name: str) -> int:
    with warnings.catch_warnings():  # PyG warns where it has to guess the number
        warnings.simplefilter("ignore")
        nodes = store.num_nodes
    if nodes is None:
        raise InputError(f"the data does not say how many there are; set data[{name!r}].num_nodes")
    return int(nodes)


def _edges(store: Any) -> Any:
    if "edge_index" in store:
        return store["edge_index"]
    there = [name for name in ("adj_t", "adj") if name in store]
    raise InputError(
        f"its edges are in {there[0]}, expected edge_index [2, edges]; convert them, for example "
        "with torch_geometric.utils.to_edge_index"
        if there
        else "it has no edge_index [2, edges]; set it, or leave the relation out of the data"
    )


def least_fanouts(whole: Any, edge_types: list[EdgeType]) -> dict[EdgeType, float]:
    """For each relation the least fan-out: rows of up to this many edges are taken whole."""
    if whole is None:
        return dict.fromkeys(edge_types, 0)
    found = Fanouts.make(whole).of(edge_types)
    return {
        name: min(math.inf if one < 0 else one for one in own)
        for name, own in zip(edge_types, found, strict=True)
    }
