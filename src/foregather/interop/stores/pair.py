"""pair: converts a (FeatureStore, GraphStore) to the HeteroGraph that is sampled.

Any pair of stores will do; edges and times are read through PyG's own calls, those of a
`PygGraphStore` are used where they are.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch_geometric.data import FeatureStore, GraphStore

from foregather.errors import InputError
from foregather.graph.hetero.columns import to_times
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import PLAIN_RELATION, PLAIN_TYPE, EdgeType, about
from foregather.graph.hetero.names import show_edge_type as show
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Level, Relation
from foregather.interop.stores.graph_store import PygGraphStore

__all__ = ["Pair", "is_pair"]


def is_pair(data: Any) -> bool:
    """Whether this is a (FeatureStore, GraphStore)."""
    return (
        isinstance(data, tuple | list)
        and len(data) == 2
        and isinstance(data[0], FeatureStore)
        and isinstance(data[1], GraphStore)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A pair of stores, and the graph that they describe.

    Attributes:
        features: the FeatureStore.
        graphs: the GraphStore.
        graph: what is sampled; edges have the positions that the GraphStore gives them.
        level: whose times `time_attr` names.
        plain: there is one kind of nodes, without a name.
        rows: what each attribute of `features` has rows of: a node type or an edge type.
    """

    features: Any
    graphs: Any
    graph: HeteroGraph
    level: Level | None
    plain: bool
    rows: dict[tuple[Any, str], Any]

    @staticmethod
    def of(data: Any, time_attr: str | None, weight_attr: str | None) -> "Pair":
        """Reads the topology, and the times and weights that are named.

        Raises:
            InputError: stores without edges, times or weights that are not there, or attributes
                that belong neither to nodes nor to edges.
        """
        features, graphs = data
        sizes, edges = _edges_of(graphs)
        plain = list(edges) == [PLAIN_RELATION] and None in {
            attr.edge_type for attr in _edge_attrs(graphs)
        }
        attrs = {(attr.group_name, str(attr.attr_name)) for attr in features.get_all_tensor_attrs()}
        counts = _counts(features, sizes, attrs, plain)
        rows = _rows_of(features, attrs, counts, edges, plain)
        times, level = _times(features, rows, time_attr, plain)
        weights = _weights(features, rows, weight_attr)
        tables = {}
        for name, count in counts.items():
            with about(f"node type {name!r}"):
                tables[name] = NodeTable.of(count, time=times.get(name))
        relations = {}
        for key, given in edges.items():
            with about(f"relation {show(key)}"):
                relations[key] = _relation(given, key, counts, times.get(key), weights.get(key))
        return Pair(features, graphs, HeteroGraph(tables, relations), level, plain, rows)


def _edge_attrs(graphs: Any) -> list[Any]:
    if isinstance(graphs, PygGraphStore):  # asked here, so that it delivers edge features
        return graphs.described()
    return list(graphs.get_all_edge_attrs())


def _edges_of(graphs: Any) -> tuple[dict[str, int], dict[EdgeType, Any]]:
    """The counts of nodes that the store knows, and edges: (indptr, indices) or [2, edges]."""
    attrs = _edge_attrs(graphs)
    if not attrs:
        raise InputError("the GraphStore has no edges; put an edge_index into it")
    unnamed = [attr for attr in attrs if attr.edge_type is None]
    if unnamed and len(unnamed) < len(attrs):
        raise InputError("the GraphStore has edges with and without a type; name all of them")
    sizes: dict[str, int] = {}
    for attr in attrs:
        name = PLAIN_RELATION if attr.edge_type is None else tuple(attr.edge_type)
        for kind, count in zip((name[0], name[2]), attr.size or (0, 0), strict=True):
            sizes[kind] = max(sizes.get(kind, 0), int(count or 0))
    found: dict[EdgeType, Any] = {}
    unsized = {attr.edge_type for attr in attrs if attr.size is None}
    if isinstance(graphs, PygGraphStore):
        csc = {attr.edge_type: graphs.csc_of(attr.edge_type)[:2] for attr in attrs}
        if graphs.time is None:
            found = {PLAIN_RELATION if key is None else key: own for key, own in csc.items()}
            return sizes, found
        return sizes, {key: _pairs(*own) for key, own in csc.items()}
    row, col, _ = graphs.coo()
    if unnamed:
        row, col = {None: row}, {None: col}
    for key in row:
        name = PLAIN_RELATION if key is None else tuple(key)
        found[name] = torch.stack([row[key], col[key]]).long()
        if key in unsized and found[name].numel():  # there are as many nodes as edges name
            for kind, most in zip((name[0], name[2]), found[name].max(1).values, strict=True):
                sizes[kind] = max(sizes[kind], int(most) + 1)
    return sizes, found


def _pairs(indptr: Any, indices: Any) -> Any:
    target = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.stack([np.asarray(indices, np.int64), target])


def _counts(
    features: Any, sizes: dict[str, int], attrs: set[tuple[Any, str]], plain: bool
) -> dict[str, int]:
    """How many nodes of each type there are: as many as edges or attributes know of."""
    counts = dict(sizes)
    for group, name in attrs:
        if isinstance(group, str) and not plain:
            size = features.get_tensor_size(group_name=group, attr_name=name)
            counts[group] = max(counts.get(group, 0), int(size[0]) if size else 0)
    return counts


def _rows_of(
    features: Any,
    attrs: set[tuple[Any, str]],
    counts: dict[str, int],
    edges: dict[EdgeType, Any],
    plain: bool,
) -> dict[tuple[Any, str], Any]:
    """Sorts attributes by what they have rows of; for one type also corrects its count."""
    rows: dict[tuple[Any, str], Any] = {}
    for group, name in sorted(attrs, key=repr):
        key = tuple(group) if isinstance(group, list) else group
        if plain:
            size = features.get_tensor_size(group_name=group, attr_name=name)
            length, many = int(size[0]) if size else -1, _length(edges[PLAIN_RELATION])
            if length == many != counts[PLAIN_TYPE]:
                rows[group, name] = PLAIN_RELATION
            elif length >= counts[PLAIN_TYPE]:
                rows[group, name] = PLAIN_TYPE
                counts[PLAIN_TYPE] = length
            else:
                raise InputError(
                    f"{name!r} of the FeatureStore has {length} rows, but there are "
                    f"{counts[PLAIN_TYPE]} nodes and {many} edges; take it out of the store"
                )
        elif key in counts or key in edges:
            rows[group, name] = key
        else:
            raise InputError(
                f"{name!r} of the FeatureStore belongs to {group!r:.80}, which is neither a node "
                "type nor an edge type; take it out of the store"
            )
    return rows


def _length(given: Any) -> int:
    return len(given[1]) if isinstance(given, tuple) else int(given.shape[1])


def _whole(features: Any, group: Any, name: str) -> Any:
    return features.get_tensor(group_name=group, attr_name=name, index=None)


def _times(
    features: Any, rows: dict[tuple[Any, str], Any], time_attr: str | None, plain: bool
) -> tuple[dict[Any, Any], Level | None]:
    if time_attr is None:
        return {}, None
    named = [(place, key) for place, key in rows.items() if place[1] == time_attr]
    if not named:
        raise InputError(
            f"time_attr is {time_attr!r}, but no node type and no relation of the FeatureStore has "
            "such an attribute"
        )
    levels = {"edge" if isinstance(key, tuple) else "node" for _, key in named}
    if plain and len(named) == 1 and time_attr != "time":
        levels = {"edge"}  # PyG's rule: of nodes only if it is called so
        named = [(named[0][0], PLAIN_RELATION)]
    if len(levels) > 1:
        raise InputError(
            f"time_attr is {time_attr!r}, which nodes and edges have; PyG and we look at one of "
            "them, so give the other another name"
        )
    level: Level = "node" if levels == {"node"} else "edge"
    return {key: _whole(features, *place) for place, key in named}, level


def _weights(
    features: Any, rows: dict[tuple[Any, str], Any], weight_attr: str | None
) -> dict[Any, Any]:
    if weight_attr is None:
        return {}
    named = {
        key: place
        for place, key in rows.items()
        if place[1] == weight_attr and isinstance(key, tuple)
    }
    if not named:
        raise InputError(
            f"weight_attr is {weight_attr!r}, but no relation of the FeatureStore has such an "
            "attribute"
        )
    return {key: _whole(features, *place) for key, place in named.items()}


def _relation(given: Any, name: EdgeType, counts: dict[str, int], time: Any, weight: Any) -> Any:
    if not isinstance(given, tuple):
        ends = counts[name[0]], counts[name[2]]
        return Relation.of(given, *ends, time=time, weights=weight)
    made = Relation(*given)
    if time is not None:
        made = replace(made, time=to_times(time, made.num_edges, "time", "edge"))
    if weight is not None:
        made = replace(made, weights=np.ascontiguousarray(np.asarray(weight), np.float32))
    return made
