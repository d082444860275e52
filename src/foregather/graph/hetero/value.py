"""value: node tables and relations that fit together, frozen.

Types and relations are numbered by their sorted names, whatever the order they are given in. That
shapes fit is checked on construction, in time that does not depend on the number of edges unless a
relation does not know how many sources its ids were made for; rows and times, and ids of files, are
checked when a relation is first walked (`relation`).
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.chunks import row_pieces
from foregather.graph.graph_value import GraphValue
from foregather.graph.hetero.check import check_relation
from foregather.graph.hetero.load import held
from foregather.graph.hetero.names import (
    EdgeType,
    about,
    check_edge_type,
    check_name,
    find_edge_type,
    find_node_type,
    show_edge_type,
)
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.on_disk.stored import RESERVED, describe_types, stored_arrays
from foregather.graph.hetero.relation import Level, Relation
from foregather.graph.hetero.time_order import in_order
from foregather.graph.links.links import Links, check_alike, find_links
from foregather.graph.mapped import hold, shows_file
from foregather.units import format_bytes, format_number

__all__ = ["AnyHetero", "HeteroValue"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class HeteroValue:
    """The tables and relations of a graph; `HeteroGraph`, the public class, documents them."""

    nodes: Mapping[str, NodeTable]
    edges: Mapping[EdgeType, Relation]
    meta: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    checked: bool = False
    links: Mapping[EdgeType, Mapping[str, Links]] = field(default_factory=dict)
    _plain: GraphValue | None = field(default=None, init=False)  # the graph this one was made from
    _opened: list[str] = field(default_factory=list, init=False)  # the digest of an opened folder
    _kept: dict[Any, Any] = field(default_factory=dict, init=False)
    _lock: Any = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        nodes = {check_name(name, "node type"): table for name, table in self.nodes.items()}
        edges = {check_edge_type(name): relation for name, relation in self.edges.items()}
        for edge_type, relation in edges.items():
            with about(f"relation {show_edge_type(edge_type)}"):
                _check_fit(edge_type, relation, nodes)
        put = object.__setattr__  # read-only, as the rest of the value
        put(self, "nodes", MappingProxyType({name: nodes[name] for name in sorted(nodes)}))
        put(self, "edges", MappingProxyType({name: edges[name] for name in sorted(edges)}))
        put(self, "links", MappingProxyType(_sorted_links(self.links, edges, nodes)))
        put(self, "meta", MappingProxyType(dict(self.meta)))
        if not self._shows_folder():  # what is read by the path would be another graph
            put(self, "path", None)
            put(self, "checked", False)

    def _shows_folder(self) -> bool:
        """Whether what is read from the folder is what the arrays hold, without reading them."""
        entries = self.meta.get("arrays")
        if self.path is None or "digest" not in self.meta or not isinstance(entries, Mapping):
            return False
        names = describe_types(self.nodes, self.edges, self.links)
        arrays = self.stored_arrays()
        return (
            all(self.meta.get(key) == said for key, said in names.items())
            and arrays.keys() == entries.keys()
            and all(shows_file(one, self.path, entries[name]) for name, one in arrays.items())
        )

    # ---- queries ---------------------------------------------------------------------------

    @property
    def node_types(self) -> tuple[str, ...]:
        """Names of the node types, sorted; the number of a type is its position here."""
        return tuple(self.nodes)

    @property
    def edge_types(self) -> tuple[EdgeType, ...]:
        """Names of the relations, sorted; the number of a relation is its position here."""
        return tuple(self.edges)

    @property
    def num_nodes(self) -> int:
        """Nodes of all types together."""
        return sum(table.num_nodes for table in self.nodes.values())

    @property
    def num_edges(self) -> int:
        """Edges of all relations together, parallel ones counted."""
        return sum(relation.num_edges for relation in self.edges.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all stored arrays."""
        return sum(int(values.nbytes) for values in self.stored_arrays().values())

    @property
    def facts(self) -> dict[str, Any]:
        """What `meta` says besides what the arrays and tables say themselves."""
        return {key: value for key, value in self.meta.items() if key not in RESERVED}

    def table(self, node_type: str) -> NodeTable:
        """The nodes of a type.

        Raises:
            InputError: there is no such type; names the nearest.
        """
        return self.nodes[find_node_type(node_type, self.nodes)]

    def links_of(self, name: str, relation: EdgeType | None = None) -> Links:
        """The links of that name; val, valid and validation are the same name.

        Args:
            name: train, valid, test or another name.
            relation: their edge type; None where the links of the graph are of one relation.

        Raises:
            InputError: there are none, or of several relations; names the nearest.
        """
        if not isinstance(name, str):
            raise InputError(
                f"the name of links is {name!r:.80}, expected text such as 'train'; the relation "
                "is the second argument: links_of('train', relation)"
            )
        edge_type = self.linked_relation(relation)
        of = f"relation {show_edge_type(edge_type)}"
        return find_links(name, self.links.get(edge_type, {}), of)

    def linked_relation(self, relation: EdgeType | None = None) -> EdgeType:
        """The relation that links are of: the one given, or the only one besides ways back.

        Raises:
            InputError: there is no such relation, or more than one to choose from.
        """
        if relation is not None:
            return find_edge_type(relation, self.edges)
        ways_back = {(end, f"rev_{name}", start) for start, name, end in self.edges}
        choice = list(self.links) or [one for one in self.edges if one not in ways_back]
        if len(choice) != 1:
            shown = ", ".join(show_edge_type(one) for one in choice[:8])
            more = ", ..." if len(choice) > 8 else ""
            raise InputError(
                f"relation is not given, and there are {len(choice)}: {shown}{more}; say which "
                "one links are of"
            )
        return choice[0]

    def relation(
        self, edge_type: EdgeType, time: Level | None = None, threads: int = 0
    ) -> Relation:
        """A relation as kernels may walk it: in memory, checked, rows in a definite order.

        It is made once and kept by the graph. Edge features stay mapped where rows keep their
        stored order.

        Args:
            edge_type: (source type, relation, target type).
            time: "edge" or "node" orders rows by (time, source) of that level and sets `time` of
                each edge; a relation without such times has rows by source and `time` None, since
                nothing limits it. None orders rows by source.
            threads: 0 uses all cores; the result is the same for any number.

        Raises:
            InputError: there is no such relation; or no times of that level in the graph.
            FormatError: ids or times are damaged.
            StorageError: a file cannot be read.
        """
        edge_type = find_edge_type(edge_type, self.edges)
        if time is not None:
            self._check_level(time)
        key = ("relation", edge_type, time)
        with self._lock:
            if key not in self._kept:
                stored, source_time = self._sound(edge_type, threads)
                made = in_order(
                    stored, self.nodes[edge_type[0]].num_nodes, time, source_time, threads
                )
                self._kept[key] = made
            found: Relation = self._kept[key]
        return found

    def _sound(
        self, edge_type: EdgeType, threads: int
    ) -> tuple[Relation, npt.NDArray[np.int64] | None]:
        """The stored relation in memory and checked, and the times of its sources."""
        table = self.nodes[edge_type[0]]
        source_time = None if table.time is None else hold(table.time)
        stored = held(self.edges[edge_type])
        if ("sound", edge_type) not in self._kept:
            check_relation(stored, edge_type, table.num_nodes, source_time, threads)
            self._kept["sound", edge_type] = True
        return stored, source_time

    def _check_level(self, level: Level) -> None:
        if level not in ("edge", "node"):
            raise InputError(f"time is {level!r:.40}, expected 'node' or 'edge'")
        if level == "node" and all(table.time is None for table in self.nodes.values()):
            raise InputError(
                "no node type of the graph has a time, so rows cannot be ordered by it; set the "
                "time of a node table"
            )
        if level == "edge" and all(
            one.time is None or one.time_level == "node" for one in self.edges.values()
        ):
            raise InputError(
                "no relation of the graph has times of its edges, so rows cannot be ordered by "
                "them; set the time of a relation"
            )

    def stored_arrays(self) -> dict[str, Array]:
        """Every array of the graph that a folder holds, by its name there."""
        return stored_arrays(self.nodes, self.edges, self.links)

    def __repr__(self) -> str:
        tables = ", ".join(f"{name} {table.num_nodes:,}" for name, table in self.nodes.items())
        where = "in memory" if self.path is None else f"in folder {self.path.name}"
        count = sum(one.num_links for lists in self.links.values() for one in lists.values())
        links = f", {format_number(count, 'link')}" if self.links else ""
        types = format_number(len(self.nodes), "node type")
        return (
            f"HeteroGraph({types} ({tables:.200}), {format_number(len(self.edges), 'relation')} "
            f"with {format_number(self.num_edges, 'edge')}{links}; {format_bytes(self.nbytes)} "
            f"{where})"
        )


def _sorted_links(
    links: Mapping[Any, Mapping[str, Links]],
    edges: Mapping[EdgeType, Relation],
    nodes: Mapping[str, NodeTable],
) -> dict[EdgeType, Mapping[str, Links]]:
    """Links by relation and name, in the order of both; relations without any are left out."""
    made: dict[EdgeType, Mapping[str, Links]] = {}
    for name, lists in links.items():
        edge_type = find_edge_type(name, edges)
        for end in (edge_type[0], edge_type[2]):
            find_node_type(end, nodes)
        if lists:
            of = f"relation {show_edge_type(edge_type)}"
            made[edge_type] = MappingProxyType(check_alike(lists, of))
    return {name: made[name] for name in sorted(made)}


def _check_fit(edge_type: EdgeType, relation: Relation, nodes: Mapping[str, NodeTable]) -> None:
    source, _, target = edge_type
    tables = {name: nodes[find_node_type(name, nodes)] for name in (source, target)}
    if relation.num_targets != tables[target].num_nodes:
        raise InputError(
            f"indptr has {relation.num_targets} rows, but node type {target!r} has "
            f"{tables[target].num_nodes} nodes"
        )
    _check_sources(relation, source, tables[source].num_nodes)
    if relation.indices.dtype == np.uint32 and tables[source].num_nodes > 1 << 32:
        raise InputError(
            f"indices is uint32, which cannot name the {tables[source].num_nodes} nodes of type "
            f"{source!r}; use int64"
        )
    if relation.time_level == "node" and tables[source].time is None:
        raise InputError(f"its times are those of node type {source!r}, which has none")


def _check_sources(relation: Relation, source: str, count: int) -> None:
    """Refuses ids beyond the source nodes: by what they were made for, else by one pass."""
    made_for = relation.num_sources
    if made_for is not None and made_for > count:
        raise InputError(
            f"its ids were made for {made_for} sources, but node type {source!r} has "
            f"{format_number(count, 'node')}; make it with the number of nodes that there are"
        )
    if made_for is None:
        for start, piece in row_pieces(relation.indices):
            bad = _core.check_ids(piece, count)
            if bad >= 0:
                raise InputError(
                    f"indices holds node {int(piece[bad])} at position {start + bad}, but node "
                    f"type {source!r} has {format_number(count, 'node')} (ids are 0 to N-1)"
                )


#: Functions on graphs return a graph of the same class.
AnyHetero = TypeVar("AnyHetero", bound=HeteroValue)
