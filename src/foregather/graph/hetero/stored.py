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
from foregather.graph.on_disk.meta import RESERVED as PLAIN_RESERVED

__all__ = ["RESERVED", "edge_folder", "node_folder", "stored_arrays"]

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
    nodes: Mapping[str, NodeTable], edges: Mapping[EdgeType, Relation]
) -> dict[str, Array]:
    """Every array of tables and relations, which are sorted by name."""
    found: dict[str, Array | None] = {}
    for number, table in enumerate(nodes.values()):
        found |= {f"{node_folder(number)}/{key}": one for key, one in _of_table(table).items()}
    for number, relation in enumerate(edges.values()):
        for key in ("indptr", "indices", "edge_ids", "time", "weights", "features"):
            found[f"{edge_folder(number)}/{key}"] = getattr(relation, key)
    return {name: values for name, values in found.items() if values is not None}


def _of_table(table: NodeTable) -> dict[str, Array | None]:
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
    return found
