"""parse: reads what meta.json of version 2 says about types and relations, as untrusted text.

A `Typed` has passed every check that needs no array: names are valid and sorted, counts add up, and
the arrays listed are exactly those that the tables and relations have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foregather.errors import FormatError, InputError
from foregather.graph.hetero.names import EdgeType, check_edge_type, check_name
from foregather.graph.hetero.on_disk.stored import edge_folder, node_folder
from foregather.graph.hetero.relation import Level, Order
from foregather.graph.links.stored import LinkEntry, parse_links
from foregather.graph.on_disk.meta import Meta

__all__ = ["Typed", "parse_typed"]

_MOST_COUNT = 1 << 60


@dataclass(frozen=True, slots=True)
class TypeEntry:
    """What meta.json says about a node type."""

    name: str
    num_nodes: int
    features: tuple[str, ...]
    splits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RelationEntry:
    """What meta.json says about a relation."""

    name: EdgeType
    num_edges: int
    order: Order
    level: Level


@dataclass(frozen=True, slots=True)
class Typed:
    """The types and relations of a folder, in the order of their numbers."""

    nodes: tuple[TypeEntry, ...]
    edges: tuple[RelationEntry, ...]
    links: tuple[LinkEntry, ...] = ()


def parse_typed(meta: Meta) -> Typed:
    """Checks `nodes`, `edges` and `links` of the meta.json of a typed graph.

    Raises:
        FormatError: they are malformed, or do not fit the arrays.
    """
    try:
        nodes = tuple(_type(one) for one in _list(meta.text, "nodes"))
        edges = tuple(_relation(one) for one in _list(meta.text, "edges"))
    except InputError as error:
        raise _fail(f"is not that of a typed graph: {error}") from error
    types, relations = [one.name for one in nodes], [one.name for one in edges]
    if types != sorted(set(types)):
        raise _fail("names node types twice or not in their order")
    if relations != sorted(set(relations)):
        raise _fail("names relations twice or not in their order")
    if (
        sum(one.num_nodes for one in nodes) != meta.num_nodes
        or sum(one.num_edges for one in edges) != meta.num_edges
    ):
        raise _fail("has counts of types and relations that do not add up")
    _check_arrays(meta, nodes, edges)
    links = parse_links(meta.text, meta.arrays) if meta.linked else ()
    for one in links:
        if one.relation not in relations:
            raise _fail(f"has links of a relation that is not there: {one.relation!r:.200}")
    return Typed(nodes, edges, links)


def _fail(why: str) -> FormatError:
    return FormatError(f"meta.json {why}; the graph folder is damaged, make it again")


def _list(text: Mapping[str, Any], key: str) -> list[Any]:
    value = text.get(key)
    if not isinstance(value, list):
        raise _fail(f"has no list of {key}")
    return value


def _count(entry: Mapping[str, Any], key: str) -> int:
    value = entry.get(key)
    if type(value) is not int or not 0 <= value < _MOST_COUNT:
        raise _fail(f"has {key} = {value!r:.40}, expected a count")
    return value


def _names(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = [check_name(name, "array") for name in _list(entry, key)]
    if names != sorted(set(names)):
        raise _fail(f"names {key} twice or not in their order")
    return tuple(names)


def _type(entry: Any) -> TypeEntry:
    if not isinstance(entry, dict):
        raise _fail("has a node type that is no object")
    return TypeEntry(
        check_name(entry.get("type"), "node type"),
        _count(entry, "num_nodes"),
        _names(entry, "features"),
        _names(entry, "splits"),
    )


def _relation(entry: Any) -> RelationEntry:
    if not isinstance(entry, dict):
        raise _fail("has a relation that is no object")
    name = entry.get("type")
    order, level = entry.get("order"), entry.get("time_level")
    if order not in ("source", "time") or level not in ("edge", "node"):
        raise _fail(f"has a relation of order {order!r:.40} and time_level {level!r:.40}")
    return RelationEntry(
        check_edge_type(tuple(name) if isinstance(name, list) else name),
        _count(entry, "num_edges"),
        order,
        level,
    )


def _check_arrays(
    meta: Meta, nodes: tuple[TypeEntry, ...], edges: tuple[RelationEntry, ...]
) -> None:
    """Refuses arrays that are missing, and arrays that this version would drop."""
    needed: set[str] = set()
    allowed: set[str] = set()
    for number, table in enumerate(nodes):
        folder = node_folder(number)
        rows = {f"{folder}/features_{n}" for n in range(len(table.features))}
        needed |= rows | {f"{folder}/split_{n}" for n in range(len(table.splits))}
        allowed |= {f"{name}_scale" for name in rows}
        allowed |= {f"{folder}/{key}" for key in ("labels", "time", "ids")}
        text = {f"{folder}/ids_bytes", f"{folder}/ids_offsets"}
        if text & meta.arrays.keys() and f"{folder}/ids" not in meta.arrays:
            needed |= text
    for number in range(len(edges)):
        folder = edge_folder(number)
        needed |= {f"{folder}/indptr", f"{folder}/indices"}
        allowed |= {f"{folder}/{key}" for key in ("edge_ids", "time", "weights", "features")}
    missing = sorted(needed - meta.arrays.keys())
    if missing:
        raise _fail(f"lists no array {missing[0]}")
    own = {name for name in meta.arrays if not name.startswith("links/")}
    unknown = sorted(own - needed - allowed)
    if unknown:
        raise FormatError(
            f"meta.json lists an array {unknown[0]}, which this version of foregather does not "
            "know; open the folder with the version that made it"
        )
