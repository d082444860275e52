"""stored: how the arrays of tables and relations are called in a folder.

Types, relations, features and splits are numbered by their sorted names; meta.json keeps the names,
so that no name of the user is ever the name of a file.
"""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from foregather.graph.hetero.names import EdgeType
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.relation import Relation
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.links.links import Links
from foregather.graph.links.stored import describe_links, link_arrays
from foregather.graph.on_disk.meta import RESERVED as PLAIN_RESERVED

__all__ = [
    "RESERVED",
    "arrays_of_relation",
    "arrays_of_table",
    "describe_relation",
    "describe_table",
    "describe_types",
    "edge_folder",
    "node_folder",
    "stored_arrays",
]

Array = npt.NDArray[Any]

#: Fields of meta.json with a fixed meaning; everything else is a fact.
RESERVED = PLAIN_RESERVED | {"nodes", "edges"}


def node_folder(number: int) -> str:
    """The folder of a node type."""
    return f"nodes/{number}"


def edge_folder(number: int) -> str:
    """The folder of a relation."""
    return f"edges/{number}"


def stored_arrays(
    nodes: Mapping[str, NodeTable],
    edges: Mapping[EdgeType, Relation],
    links: Mapping[EdgeType, Mapping[str, Links]],
) -> dict[str, Array]:
    """Every array of tables, relations and links, which are sorted by name."""
    found: dict[str, Array] = {}
    for number, table in enumerate(nodes.values()):
        found |= {f"{node_folder(number)}/{key}": a for key, a in arrays_of_table(table).items()}
    for number, relation in enumerate(edges.values()):
        arrays = arrays_of_relation(relation)
        found |= {f"{edge_folder(number)}/{key}": values for key, values in arrays.items()}
    return found | link_arrays(one for lists in links.values() for one in lists.values())


def arrays_of_relation(relation: Relation) -> dict[str, Array]:
    """The arrays of a relation, by their names in its folder."""
    names = ("indptr", "indices", "edge_ids", "time", "weights", "features")
    return {name: values for name in names if (values := getattr(relation, name)) is not None}


def arrays_of_table(table: NodeTable) -> dict[str, Array]:
    """The arrays of a node table, by their names in its folder."""
    found: dict[str, Array | None] = {"labels": table.labels, "time": table.time}
    for number, (name, values) in enumerate(table.features.items()):
        found[f"features_{number}"] = values
        found[f"features_{number}_scale"] = table.scales.get(name)
    for number, ids in enumerate(table.splits.values()):
        found[f"split_{number}"] = ids
    if isinstance(table.ids, TextIds):
        found["ids_bytes"], found["ids_offsets"] = table.ids.data, table.ids.offsets
    else:
        found["ids"] = table.ids
    return {name: values for name, values in found.items() if values is not None}


def describe_table(name: str, table: NodeTable) -> dict[str, Any]:
    """What meta.json says about a node type besides its arrays."""
    return {
        "type": name,
        "num_nodes": table.num_nodes,
        "features": list(table.features),
        "splits": list(table.splits),
    }


def describe_relation(name: EdgeType, relation: Relation) -> dict[str, Any]:
    """What meta.json says about a relation besides its arrays."""
    return {
        "type": list(name),
        "num_edges": relation.num_edges,
        "order": relation.order,
        "time_level": relation.time_level,
    }


def describe_types(
    nodes: Mapping[str, NodeTable],
    edges: Mapping[EdgeType, Relation],
    links: Mapping[EdgeType, Mapping[str, Links]],
) -> dict[str, Any]:
    """What meta.json says about types, relations and links, which are sorted by name."""
    return {
        "nodes": [describe_table(name, table) for name, table in nodes.items()],
        "edges": [describe_relation(name, relation) for name, relation in edges.items()],
        **describe_links(
            (name, edge_type, one.num_links)
            for edge_type, lists in links.items()
            for name, one in lists.items()
        ),
    }
