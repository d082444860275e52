"""spec: reads the TOML file that describes node tables and edge tables, and checks all of it.

A `Spec` that exists is well formed: every key is known, every name valid, every type that edges
name is there. Files are named relative to the TOML file; they are opened by others.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from foregather.errors import FormatError, InputError
from foregather.files import read_regular
from foregather.graph.hetero.names import EdgeType, check_edge_type, check_name, find_node_type

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["EdgeSpec", "NodeSpec", "Spec", "TripleSpec", "read_spec"]

_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class NodeSpec:
    """One node type: a table, or a number of nodes, or neither (then its edges name its nodes)."""

    name: str
    file: Path | None = None
    count: int | None = None
    id: str | None = None
    ids: str = "auto"
    labels: str | None = None
    time: str | None = None
    split: str | None = None
    features: tuple[str, ...] = ()
    arrays: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class EdgeSpec:
    """One relation: a table with a source and a target column."""

    type: EdgeType
    file: Path
    source: str
    target: str
    weight: str | None = None
    time: str | None = None
    features: tuple[str, ...] = ()
    reverse: bool = False
    missing: str = "refuse"


@dataclass(frozen=True)
class TripleSpec:
    """Facts of a knowledge graph: a table of head, relation and tail, and of time where given."""

    file: Path
    head: str
    relation: str
    tail: str
    time: str | None = None
    type: str = "entity"
    reverse: bool = False


@dataclass(frozen=True)
class Spec:
    """Everything that a TOML file describes."""

    name: str
    nodes: tuple[NodeSpec, ...]
    edges: tuple[EdgeSpec, ...]
    triples: TripleSpec | None


def read_spec(path: Path) -> Spec:
    """Reads and checks a description.

    Raises:
        FormatError: it is not TOML.
        InputError: something in it is unknown, missing or contradictory; names where.
        StorageError: it cannot be read.
    """
    try:
        text = tomllib.loads(read_regular(path, _MOST_BYTES).decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error).splitlines()[0] if str(error) else "unknown"
        raise FormatError(f"{path.name} is not TOML: {why}") from error
    _known(text, ("nodes", "edges", "triples"), path.name)
    folder = path.parent
    nodes = text.get("nodes", {})
    edges = text.get("edges", [])
    if not isinstance(nodes, dict) or not isinstance(edges, list):
        raise InputError(f"{path.name} needs tables [nodes.TYPE] and [[edges]]")
    if not edges and "triples" not in text and not nodes:
        raise InputError(f"{path.name} describes nothing; give [nodes.TYPE] and [[edges]]")
    found = {name: _node(name, entry, folder) for name, entry in nodes.items()}
    made = tuple(_edge(number, entry, folder) for number, entry in enumerate(edges, 1))
    triples = _triples(text["triples"], folder) if "triples" in text else None
    names = list(found) + ([] if triples is None else [triples.type])
    seen: set[EdgeType] = set()
    for edge in made:
        for end in (edge.type[0], edge.type[2]):
            find_node_type(end, names)
        if edge.type in seen:
            raise InputError(f"the relation {edge.type} is described twice; join the two")
        seen.add(edge.type)
    return Spec(path.name, tuple(found.values()), made, triples)


def _known(entry: Mapping[str, Any], allowed: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in allowed:
            near = get_close_matches(key, allowed, 1, 0.6)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(allowed)}"
            raise InputError(f"{where} has {key!r:.80}, which is not known; {hint}")


def _text(entry: Mapping[str, Any], key: str, where: str) -> str | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f"{key} of {where} is {value!r:.80}, expected a string")
    return value


def _needed(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = _text(entry, key, where)
    if value is None:
        raise InputError(f"{where} has no {key}; give it one")
    return value


def _names(entry: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InputError(f"{key} of {where} is {value!r:.80}, expected a list of column names")
    if len(set(value)) != len(value):
        raise InputError(f"{key} of {where} names a column twice")
    return tuple(value)


def _flag(entry: Mapping[str, Any], key: str, where: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        raise InputError(f"{key} of {where} is {value!r:.80}, expected true or false")
    return value


def _file(entry: Mapping[str, Any], where: str, folder: Path) -> Path | None:
    value = _text(entry, "file", where)
    return None if value is None else folder / value


def _node(name: Any, entry: Any, folder: Path) -> NodeSpec:
    where = f"[nodes.{name}]"
    check_name(name, "node type")
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {entry!r:.80}, expected a table")
    keys = ("file", "count", "id", "ids", "labels", "time", "split", "features", "arrays")
    _known(entry, keys, where)
    count, arrays = entry.get("count"), entry.get("arrays", {})
    if count is not None and (type(count) is not int or not 0 <= count < 1 << 48):
        raise InputError(f"count of {where} is {count!r:.80}, expected a number of nodes")
    if not isinstance(arrays, dict) or not all(isinstance(one, str) for one in arrays.values()):
        raise InputError(f"arrays of {where} is {arrays!r:.80}, expected names of .npy files")
    ids = _text(entry, "ids", where) or "auto"
    if ids not in ("auto", "text"):
        raise InputError(f"ids of {where} is {ids!r:.80}, expected 'auto' or 'text'")
    made = NodeSpec(
        name,
        _file(entry, where, folder),
        count,
        _text(entry, "id", where),
        ids,
        _text(entry, "labels", where),
        _text(entry, "time", where),
        _text(entry, "split", where),
        _names(entry, "features", where),
        {check_name(key, "array"): folder / value for key, value in arrays.items()},
    )
    if made.file is None:
        given = [key for key in ("id", "labels", "time", "split", "features") if key in entry]
        if given:
            raise InputError(f"{where} has {given[0]}, a column, but no file; name the table")
        if made.arrays and count is None:
            raise InputError(f"{where} has arrays, but neither a file nor a count of its nodes")
    if made.features and "x" in made.arrays:
        raise InputError(f"{where} has features, which become x, and an array x; rename the array")
    return made


def _edge(number: int, entry: Any, folder: Path) -> EdgeSpec:
    where = f"[[edges]] number {number}"
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {entry!r:.80}, expected a table")
    keys = ("type", "file", "source", "target", "weight", "time", "features", "reverse", "missing")
    _known(entry, keys, where)
    name = entry.get("type")
    edge_type = check_edge_type(tuple(name) if isinstance(name, list) else name)
    missing = _text(entry, "missing", where) or "refuse"
    if missing not in ("refuse", "drop"):
        raise InputError(f"missing of {where} is {missing!r:.80}, expected 'refuse' or 'drop'")
    return EdgeSpec(
        edge_type,
        folder / _needed(entry, "file", where),
        _needed(entry, "source", where),
        _needed(entry, "target", where),
        _text(entry, "weight", where),
        _text(entry, "time", where),
        _names(entry, "features", where),
        _flag(entry, "reverse", where),
        missing,
    )


def _triples(entry: Any, folder: Path) -> TripleSpec:
    where = "[triples]"
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {entry!r:.80}, expected a table")
    _known(entry, ("file", "head", "relation", "tail", "time", "type", "reverse"), where)
    return TripleSpec(
        folder / _needed(entry, "file", where),
        _text(entry, "head", where) or "1",
        _text(entry, "relation", where) or "2",
        _text(entry, "tail", where) or "3",
        _text(entry, "time", where),
        check_name(_text(entry, "type", where) or "entity", "node type"),
        _flag(entry, "reverse", where),
    )
