"""spec: reads the TOML file that describes node tables and edge tables, and checks all of it.

A `Spec` that exists is well formed: every key is known, every name valid, every type that edges
name is there. Files are named relative to the TOML file; they are opened by others.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from foregather.errors import FormatError, InputError
from foregather.files import read_regular
from foregather.graph.convert.typed.databases.plan import plan_database
from foregather.graph.convert.typed.databases.wishes import TableWishes
from foregather.graph.convert.typed.description.kind import database_kind
from foregather.graph.convert.typed.description.node_spec import (
    Foreign,
    NodeSpec,
    check_named,
    foreign_types,
)
from foregather.graph.convert.typed.description.triple_spec import TripleSpec
from foregather.graph.hetero.columns import BATCH_NAMES
from foregather.graph.hetero.names import (
    EdgeType,
    check_edge_type,
    check_name,
    find_node_type,
    show_edge_type,
)
from foregather.graph.links.rule import EVERY, LinkSplit

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["EdgeSpec", "Spec", "read_links", "read_spec"]

_MOST_BYTES = 16 << 20


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
    header: bool | None = None  # whether the first line of text names columns; None: as it looks


@dataclass(frozen=True)
class Spec:
    """Everything that a TOML file describes."""

    name: str
    nodes: tuple[NodeSpec, ...]
    edges: tuple[EdgeSpec, ...]
    triples: TripleSpec | None
    strict: bool = False
    notes: tuple[str, ...] = ()  # what was chosen for the user, in whole sentences


def read_spec(path: Path, skip_columns: Sequence[str] = ()) -> Spec:
    """Reads and checks a description, or makes one of the catalogue of a database.

    Args:
        path: the description or the database.
        skip_columns: columns of the database that are left out, each as "table.column".

    Raises:
        FormatError: it is not TOML, or a database is damaged.
        InputError: something in it is unknown, missing or contradictory; names where.
        StorageError: it cannot be read.
    """
    if database_kind(path) is not None:
        nodes, notes = plan_database(path, {}, skip_columns)
        return _checked(Spec(path.name, tuple(nodes), (), None, notes=tuple(notes)))
    text = _load(path)
    if skip_columns:
        raise InputError(
            f"--skip-columns names columns of a database, and {path.name} is a description; leave "
            "columns out there, with leave_out"
        )
    _known(text, ("nodes", "edges", "triples", "strict", "database", "links"), path.name)
    folder = path.parent
    entries = text.get("nodes", {})
    edges = text.get("edges", [])
    if not isinstance(entries, dict) or not isinstance(edges, list):
        raise InputError(f"{path.name} needs tables [nodes.TYPE] and [[edges]]")
    if not edges and not entries and not {"triples", "database"} & text.keys():
        raise InputError(f"{path.name} describes nothing; give [nodes.TYPE] and [[edges]]")
    database = _text(text, "database", path.name)
    own = {
        name: entry
        for name, entry in entries.items()
        if database is None or (isinstance(entry, dict) and {"file", "count"} & entry.keys())
    }
    found = [_node(name, entry, folder) for name, entry in own.items()]
    chosen: list[str] = []
    if database is not None:
        wishes = {n: _wishes(n, entry, folder) for n, entry in entries.items() if n not in own}
        tables, chosen = plan_database(folder / database, wishes)
        found += tables
    made = tuple(_edge(number, entry, folder) for number, entry in enumerate(edges, 1))
    triples = _triples(text["triples"], folder) if "triples" in text else None
    strict = _flag(text, "strict", path.name)
    return _checked(Spec(path.name, tuple(found), made, triples, strict, tuple(chosen)))


def _load(path: Path) -> dict[str, Any]:
    try:
        return dict(tomllib.loads(read_regular(path, _MOST_BYTES).decode("utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error).splitlines()[0] if str(error) else "unknown"
        raise FormatError(f"{path.name} is not TOML: {why}") from error


def read_links(path: Path) -> LinkSplit | None:
    """How a description divides a relation into links; None where it does not.

    Raises:
        FormatError: it is not TOML.
        InputError: something in [links] is unknown, missing or contradictory.
        StorageError: it cannot be read.
    """
    entry = _load(path).get("links")
    if entry is None:
        return None
    where = "[links]"
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {entry!r:.80}, expected a table")
    _known(entry, ("type", "split", "times", "by", "seed", "undirected"), where)
    name, way = entry.get("type"), entry.get("by", "chance")
    if way not in ("chance", "time"):
        raise InputError(f"by of {where} is {way!r:.80}, expected 'chance' or 'time'")
    for key in ("split", "times"):
        if not isinstance(entry.get(key, []), list):
            raise InputError(f"{key} of {where} is {entry[key]!r:.80}, expected a list")
    return LinkSplit(
        tuple(entry["split"]) if "split" in entry else None,
        tuple(entry["times"]) if "times" in entry else None,
        by_time=way == "time" and "split" in entry,
        seed=entry.get("seed", 0),
        relation=name
        if name in (None, EVERY)
        else check_edge_type(tuple(name) if isinstance(name, list) else name),
        undirected=_flag(entry, "undirected", where) if "undirected" in entry else None,
    )


def _checked(spec: Spec) -> Spec:
    """The description, whose relations are between types that there are.

    Raises:
        InputError: names the type that is not there, or what is described twice.
    """
    names = [one.name for one in spec.nodes]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"node type {twice!r} is a table of the database and described once more")
    names += [] if spec.triples is None else [spec.triples.type]
    seen: set[EdgeType] = set()
    for node in spec.nodes:
        for key in node.foreign:
            find_node_type(key.type, names)
        for one in (f"f2p_{key.column}" for key in node.foreign):
            check_name(one, "relation")
        if len(foreign_types(node)) != len(node.foreign):
            raise InputError(f"node type {node.name!r} has a foreign key twice; leave one out")
        seen |= foreign_types(node).keys()
    for edge in spec.edges:
        for end in (edge.type[0], edge.type[2]):
            find_node_type(end, names)
        if edge.type in seen:
            raise InputError(f"the relation {edge.type} is described twice; join the two")
        seen.add(edge.type)
    _check_joins(spec)
    return spec


def _check_joins(spec: Spec) -> None:
    """Refuses columns that would be joined to row numbers without being told to.

    Raises:
        InputError: names the column, and the type whose table has no id.
    """
    nodes = {one.name: one for one in spec.nodes}
    for node in spec.nodes:
        for key in (one for one in node.foreign if one.key is None and one.type in nodes):
            check_named(nodes[key.type], f"foreign key {key.column!r} of [nodes.{node.name}]")
    for edge in spec.edges:
        ends = ((edge.type[0], "source", edge.source), (edge.type[2], "target", edge.target))
        for name, end, column in (one for one in ends if one[0] in nodes):
            check_named(nodes[name], f"{end} {column!r} of relation {show_edge_type(edge.type)}")
    triples = spec.triples
    if triples is not None and triples.type in nodes:
        check_named(nodes[triples.type], f"head {triples.head!r} of [triples]")


def _wishes(name: Any, entry: Any, folder: Path) -> TableWishes:
    """What a description says about a table of its database."""
    where = f"[nodes.{name}]"
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {entry!r:.80}, expected a table")
    keys = ("time", "labels", "split", "features", "categories", "leave_out", "arrays", "ids")
    _known(entry, keys, where)
    time, gone = entry.get("time"), entry.get("leave_out", [])
    return TableWishes(
        "" if time is False else _text(entry, "time", where),
        _text(entry, "labels", where),
        _text(entry, "split", where),
        _names(entry, "features", where) if "features" in entry else None,
        _names(entry, "categories", where) if "categories" in entry else None,
        gone if isinstance(gone, bool) else _names(entry, "leave_out", where),
        _arrays(entry, where, folder),
        _ids(entry, where),
    )


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


def _header(entry: Mapping[str, Any], where: str) -> bool | None:
    return _flag(entry, "header", where) if "header" in entry else None


def _file(entry: Mapping[str, Any], where: str, folder: Path) -> Path | None:
    value = _text(entry, "file", where)
    return None if value is None else folder / value


def _ids(entry: Mapping[str, Any], where: str) -> str:
    ids = _text(entry, "ids", where) or "auto"
    if ids not in ("auto", "text", "rows"):
        raise InputError(f"ids of {where} is {ids!r:.80}, expected 'auto', 'text' or 'rows'")
    return ids


def _arrays(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Path]:
    arrays = entry.get("arrays", {})
    if not isinstance(arrays, dict) or not all(isinstance(one, str) for one in arrays.values()):
        raise InputError(f"arrays of {where} is {arrays!r:.80}, expected names of .npy files")
    return {check_name(key, "array"): folder / value for key, value in arrays.items()}


def _node(name: Any, entry: Any, folder: Path) -> NodeSpec:
    where = f"[nodes.{name}]"
    check_name(name, "node type")
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {entry!r:.80}, expected a table")
    keys = ("file", "count", "id", "ids", "labels", "time", "split", "features", "arrays")
    _known(entry, (*keys, "categories", "foreign", "header"), where)
    foreign = entry.get("foreign", {})
    if not isinstance(foreign, dict) or not all(isinstance(one, str) for one in foreign.values()):
        raise InputError(f"foreign of {where} is {foreign!r:.80}, expected columns and node types")
    count = entry.get("count")
    if count is not None and (type(count) is not int or not 0 <= count < 1 << 48):
        raise InputError(f"count of {where} is {count!r:.80}, expected a number of nodes")
    made = NodeSpec(
        name,
        _file(entry, where, folder),
        count,
        _text(entry, "id", where),
        _ids(entry, where),
        _text(entry, "labels", where),
        _text(entry, "time", where),
        _text(entry, "split", where),
        _names(entry, "features", where),
        _arrays(entry, where, folder),
        _names(entry, "categories", where),
        tuple(Foreign(check_name(key, "relation"), value) for key, value in foreign.items()),
        _header(entry, where),
    )
    _check_node(made, entry, where)
    return made


def _check_node(made: NodeSpec, entry: Mapping[str, Any], where: str) -> None:
    """Refuses what does not go together in one type.

    Raises:
        InputError: names what was given, and what to do.
    """
    if made.ids == "rows" and not made.numbered:
        raise InputError(
            f'{where} has ids = "rows", which is for a table whose ids are row numbers; '
            + ("name the table" if made.id is None else "leave id out, or ids")
        )
    if made.file is None:
        columns = ("id", "labels", "time", "split", "features", "categories", "foreign", "header")
        given = [key for key in columns if key in entry]
        if given:
            what = "which is of a table" if given[0] == "header" else "a column"
            raise InputError(f"{where} has {given[0]}, {what}, but no file; name the table")
        if made.arrays and made.count is None:
            raise InputError(f"{where} has arrays, but neither a file nor a count of its nodes")
    if made.features and "x" in made.arrays:
        raise InputError(f"{where} has features, which become x, and an array x; rename the array")
    if odd := sorted(BATCH_NAMES & {*made.categories, *made.arrays}):
        raise InputError(
            f"{where} has a feature called {odd[0]!r}, as something else in a batch is; rename "
            "the column"
        )
    both = sorted(set(made.categories) & ({"x"} | made.arrays.keys() | set(made.features)))
    if both:
        raise InputError(
            f"{where} has {both[0]!r} among its categories and once more; rename one of them"
        )


def _edge(number: int, entry: Any, folder: Path) -> EdgeSpec:
    where = f"[[edges]] number {number}"
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {entry!r:.80}, expected a table")
    keys = ("type", "file", "source", "target", "weight", "time", "features", "reverse", "missing")
    _known(entry, (*keys, "header"), where)
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
        _header(entry, where),
    )


def _triples(entry: Any, folder: Path) -> TripleSpec:
    where = "[triples]"
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {entry!r:.80}, expected a table")
    columns = ("head", "relation", "tail", "time")
    _known(entry, ("file", *columns, "type", "reverse", "header"), where)
    return TripleSpec(
        folder / _needed(entry, "file", where),
        _text(entry, "head", where) or "1",
        _text(entry, "relation", where) or "2",
        _text(entry, "tail", where) or "3",
        _text(entry, "time", where),
        check_name(_text(entry, "type", where) or "entity", "node type"),
        _flag(entry, "reverse", where),
        _header(entry, where),
    )
