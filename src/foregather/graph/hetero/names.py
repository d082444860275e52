"""names: how node types and relations are called, and how they are looked up."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from foregather.errors import InputError
from foregather.graph.names import check_name, nearest

__all__ = [
    "EdgeType",
    "PLAIN_RELATION",
    "PLAIN_TYPE",
    "about",
    "check_edge_type",
    "check_name",
    "find_edge_type",
    "find_node_type",
    "show_edge_type",
]

#: (source type, relation, target type), as in PyG.
EdgeType: TypeAlias = tuple[str, str, str]

#: What the nodes and edges of a plain graph are called, as PyG calls unnamed relations.
PLAIN_TYPE = "node"
PLAIN_RELATION: EdgeType = ("node", "to", "node")


def check_edge_type(edge_type: Any) -> EdgeType:
    """Returns an edge type whose three parts are valid names.

    Raises:
        InputError: it is not three names.
    """
    if not isinstance(edge_type, tuple) or len(edge_type) != 3:
        raise InputError(
            f"the edge type {edge_type!r:.80} is not three names: (source type, relation, target "
            "type)"
        )
    source, relation, target = edge_type
    return (
        check_name(source, "node type"),
        check_name(relation, "relation"),
        check_name(target, "node type"),
    )


def show_edge_type(edge_type: EdgeType) -> str:
    """An edge type in messages and tables: (author, writes, paper)."""
    return f"({', '.join(edge_type)})"


def find_node_type(name: Any, known: Collection[str]) -> str:
    """Returns a node type that exists.

    Raises:
        InputError: it does not; the message names the nearest one.
    """
    if isinstance(name, str) and name in known:
        return name
    raise InputError(f"there is no node type {name!r:.80}; {nearest(str(name), sorted(known))}")


def find_edge_type(edge_type: Any, known: Collection[EdgeType]) -> EdgeType:
    """Returns an edge type that exists; a list of three names is taken as well.

    Raises:
        InputError: it does not; the message names the nearest one.
    """
    parts = tuple(edge_type) if isinstance(edge_type, tuple | list) else ()
    if all(isinstance(part, str) for part in parts) and parts in known:
        found: EdgeType = parts
        return found
    shown = {show_edge_type(one): one for one in known}
    asked = f"({', '.join(map(str, parts))})" if parts else str(edge_type)
    raise InputError(f"there is no relation {asked:.200}; {nearest(asked, sorted(shown))}")


@contextmanager
def about(subject: str) -> Iterator[None]:
    """Puts the table or relation that a problem is in before its message."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{subject}: {error}") from error
