"""plain: a plain graph as one node type and one relation, and back.

A graph that was plain stays plain: the typed value keeps it, with its digest and its folder.
"""

from typing import Any

import numpy as np

from foregather import _core
from foregather.errors import InputError
from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.graph.graph_value import GraphValue
from foregather.graph.hetero.columns import as_matrix
from foregather.graph.hetero.names import PLAIN_RELATION, PLAIN_TYPE, EdgeType
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Relation, is_identity
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.hetero.value import HeteroValue
from foregather.graph.labels import normalize_labels
from foregather.graph.mapped import fetch
from foregather.units import format_number

__all__ = ["graph_of", "parts_of"]


def parts_of(graph: GraphValue) -> tuple[dict[str, NodeTable], dict[EdgeType, Relation]]:
    """The table and the relation of a plain graph, with its own arrays.

    Raises:
        InputError: its edge features are scaled, which those of a relation are not.
    """
    if graph.edge_features is not None and graph.edge_features.scale is not None:
        raise InputError(
            "the edge features of the graph are int8 with a scale, which a relation cannot hold; "
            "store them as float32"
        )
    ids: Any = graph.extra.get("mapping")
    if "mapping_bytes" in graph.extra and "mapping_offsets" in graph.extra:
        ids = TextIds(graph.extra["mapping_bytes"], graph.extra["mapping_offsets"])
    features, edge_features = graph.features, graph.edge_features
    table = NodeTable(
        graph.num_nodes,
        {} if features is None else {"x": features.by_id()},
        graph.labels,
        None,
        graph.splits,
        ids,
        {} if features is None or features.scale is None else {"x": features.scale},
    )
    relation = Relation(
        graph.indptr,
        graph.indices,
        _edge_ids(graph),
        None,
        graph.edge_weight,
        None if edge_features is None else edge_features.data,
    ).made_for(graph.num_nodes)
    return {PLAIN_TYPE: table}, {PLAIN_RELATION: relation}


def _edge_ids(graph: GraphValue) -> Any:
    """Edge ids of the caller's list, where every edge of it is there once."""
    ids = graph.edge_ids
    if ids is None or is_identity(ids) or _core.check_ids(ids, ids.size) >= 0:
        return None
    return ids if np.bincount(ids, minlength=ids.size).max(initial=1) == 1 else None


def graph_of(value: HeteroValue) -> Graph:
    """The plain graph of a value with one type and one relation.

    Raises:
        InputError: there are more, or the value holds what a plain graph does not.
    """
    if len(value.nodes) != 1 or len(value.edges) != 1:
        raise InputError(
            f"the graph has {format_number(len(value.nodes), 'node type')} and "
            f"{format_number(len(value.edges), 'relation')}, "
            "expected one of each for a plain graph"
        )
    (table,), (edge_type,) = value.nodes.values(), value.edge_types
    relation = value.relation(edge_type)
    if table.time is not None or relation.time is not None:
        raise InputError(
            "the graph has times, which a plain graph does not hold; leave them out with "
            "dataclasses.replace"
        )
    more = sorted(table.features.keys() - {"x"})
    if more or table.features.get("x", np.empty((0, 0))).ndim != 2:
        raise InputError(
            f"the node type has features {', '.join(table.features)}, but a plain graph holds one "
            "matrix x; leave the others out with dataclasses.replace"
        )
    rows = relation.features
    facts = value.facts
    labels = None
    if table.labels is not None:
        labels, facts["labels"] = normalize_labels(fetch(table.labels), table.num_nodes)
    return Graph(
        table.num_nodes,
        relation.num_edges,
        relation.indptr,
        relation.indices,
        features=table.rows() if "x" in table.features else None,
        edge_weight=relation.weights,
        edge_features=None if rows is None else Features(as_matrix(rows)),
        labels=labels,
        splits=table.splits,
        edge_ids=relation.edge_ids,
        extra=_mapping(table),
        meta=facts,
        links=value.links.get(edge_type, {}),
    )


def _mapping(table: NodeTable) -> dict[str, Any]:
    if isinstance(table.ids, TextIds):
        return {"mapping_bytes": table.ids.data, "mapping_offsets": table.ids.offsets}
    return {} if table.ids is None else {"mapping": table.ids}
