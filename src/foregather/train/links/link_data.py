"""link_data: the links of a run: which relation, what each split holds, and what is known.

Links of several relations between the same two types (a knowledge graph) are one list, in which
each has the number of its relation, by sorted name.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, find_edge_type, show_edge_type
from foregather.graph.links.known import KnownLinks
from foregather.graph.links.links import Links, same_name
from foregather.graph.links.split import divided_relations
from foregather.graph.mapped import fetch

__all__ = ["EVERY", "LinkData", "SplitLinks", "find_relations", "read_links", "show_relation"]

Ids = npt.NDArray[np.int64]

#: The name of links of several relations, as the loader sees them.
EVERY = "every"


@dataclass(frozen=True, eq=False)
class SplitLinks:
    """The links of a split.

    Attributes:
        index: sources and targets, int64 [2, n].
        relation: the number of each link's relation; None where there is one.
        time: when each came to be; None where that is not known.
        pool: given negatives [2, m] that all links are compared with; None.
        candidates: given targets [n, k] that each link is compared with; None.
    """

    index: Ids
    relation: Ids | None
    time: Ids | None
    pool: Ids | None = None
    candidates: Ids | None = None

    def __len__(self) -> int:
        return int(self.index.shape[1])

    def turned(self) -> "SplitLinks":
        """The same with sources and targets exchanged."""
        return SplitLinks(self.index[::-1].copy(), self.relation, self.time)


@dataclass(frozen=True, eq=False)
class LinkData:
    """What a run learns from and is scored on.

    Attributes:
        graph: the graph that messages pass along.
        edge_type: of the links; None on a plain graph.
        relations: the relations of links, by number; one, or those of a knowledge graph.
        counts: nodes of the source type and of the target type.
        splits: links by the role of their split: train, valid, test; those that there are.
    """

    graph: Graph | HeteroGraph
    edge_type: EdgeType | None
    relations: tuple[EdgeType, ...]
    counts: tuple[int, int]
    splits: dict[str, SplitLinks]

    @property
    def same(self) -> bool:
        """Whether sources and targets are of one type."""
        return self.edge_type is None or self.edge_type[0] == self.edge_type[2]

    @property
    def undirected(self) -> bool:
        """Whether the graph was made with both directions of every edge, so that links have two."""
        return not isinstance(self.graph, HeteroGraph) and bool(self.graph.meta.get("undirected"))

    @property
    def several(self) -> int:
        """How many relations a decoder tells apart; 0 where there is one."""
        return len(self.relations) if len(self.relations) > 1 else 0

    def edges(self, number: int = 0) -> Ids:
        """The edges of a relation of links, which are known too: int64 [2, n]."""
        rows: Any = self.graph
        if isinstance(self.graph, HeteroGraph):
            if self.relations[number] not in self.graph.edges:
                return np.empty((2, 0), np.int64)
            rows = self.graph.relation(self.relations[number])
        indptr = fetch(rows.indptr)
        targets = np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))
        return np.stack([fetch(rows.indices).astype(np.int64), targets])

    def every_edge(self) -> Ids:
        """The edges of all relations of links."""
        parts = [self.edges(number) for number in range(max(1, len(self.relations)))]
        return np.concatenate(parts, axis=1)

    def known(self, turned: bool = False, roles: tuple[str, ...] | None = None) -> KnownLinks:
        """What is known to be linked: edges, and links of these splits (None: of all).

        On a graph that was made undirected a link is known in both directions, as its edges are.
        With several relations, a source is (node, relation): node * relations + relation.

        Args:
            turned: from targets to sources.
            roles: of splits.
        """
        total, pairs = max(1, self.several), []
        for number in range(max(1, len(self.relations))):
            pairs.append(_keyed(self.edges(number), number, total, turned))
        for role, one in self.splits.items():
            if roles is None or role in roles:
                numbers = 0 if one.relation is None else one.relation
                pairs.append(_keyed(one.index, numbers, total, turned))
                if self.undirected:
                    pairs.append(one.index[:: 1 if turned else -1])
        sources, targets = self.counts[::-1] if turned else self.counts
        return KnownLinks.of(pairs, sources * total, targets)

    def known_of(self, number: int) -> KnownLinks:
        """What is known to be linked by one relation: edges, and links of all splits."""
        pairs = [self.edges(number)]
        for one in self.splits.values():
            mine = slice(None) if one.relation is None else one.relation == number
            pairs.append(one.index[:, mine])
            if self.undirected:
                pairs.append(one.index[::-1])
        return KnownLinks.of(pairs, *self.counts)

    def key(self, sources: Ids, relation: Ids | None) -> Ids:
        """Sources as `known` numbers them."""
        if not self.several:
            return sources
        return sources * self.several + (0 if relation is None else relation)


def _keyed(pairs: Ids, relation: Any, total: int, turned: bool) -> Ids:
    sources, targets = pairs[::-1] if turned else pairs
    return (
        np.stack([sources * total + relation, targets])
        if total > 1
        else pairs[:: -1 if turned else 1]
    )


def read_links(
    graph: Graph | HeteroGraph, relation: str, names: dict[str, str], needed: bool = True
) -> LinkData:
    """Reads the links of a run.

    Args:
        graph: the graph.
        relation: as in the settings.
        names: of the splits by role: train, valid, test; empty for none.
        needed: there must be something to learn from.

    Raises:
        InputError: there are no such links, or none to train on.
    """
    edge_type, relations = find_relations(graph, relation)
    splits = {}
    for role, name in names.items():
        if name and (found := _split(graph, relations, name)) is not None and len(found):
            splits[role] = found
    counts = (graph.num_nodes,) * 2 if isinstance(graph, Graph) else _counts(graph, edge_type)
    data = LinkData(graph, edge_type, relations, counts, splits)
    if "train" not in splits:
        if not splits and needed:
            raise InputError(
                f"{show_relation(edge_type)} has no links {names['train']!r} and none that are "
                "held out, so there is nothing to predict; hold some out with split_links, or "
                "convert the graph with links"
            )
        edges = data.every_edge()
        if not edges.shape[1] and needed:
            raise InputError(
                f"{show_relation(edge_type)} has no links {names['train']!r} and no edges, so "
                "there is nothing to learn from"
            )
        splits["train"] = _edge_links(data)
    return data


def _edge_links(data: LinkData) -> SplitLinks:
    """All edges of the relations, as training links."""
    parts = [data.edges(number) for number in range(max(1, len(data.relations)))]
    numbers = np.repeat(np.arange(len(parts)), [one.shape[1] for one in parts])
    return SplitLinks(np.concatenate(parts, axis=1), numbers if data.several else None, None)


def _counts(graph: HeteroGraph, edge_type: EdgeType | None) -> tuple[int, int]:
    assert edge_type is not None
    return graph.nodes[edge_type[0]].num_nodes, graph.nodes[edge_type[2]].num_nodes


def find_relations(
    graph: Graph | HeteroGraph, wanted: str
) -> tuple[EdgeType | None, tuple[EdgeType, ...]]:
    """The edge type of links as a loader sees them, and the relations that they are of.

    Raises:
        InputError: there is no such relation, or none or several that could be meant.
    """
    if isinstance(graph, Graph):
        if wanted:
            raise InputError(
                f"link.relation is {wanted!r}, but the graph is plain and has one kind of edge; "
                "leave it out"
            )
        return None, ()
    if wanted == "*":
        found = _with_links(graph) or graph.edge_types
        ends = {(one[0], one[2]) for one in found}
        if len(ends) != 1:
            shown = ", ".join(f"{a!r} to {b!r}" for a, b in sorted(ends))
            raise InputError(
                f"link.relation is '*', but the relations with links join different types: "
                f"{shown}; name one relation"
            )
        source, target = ends.pop()
        return ((source, EVERY, target), found) if len(found) > 1 else (found[0], found)
    if wanted:
        parts = tuple(part.strip() for part in wanted.strip("()").split(","))
        try:
            one = find_edge_type(parts, graph.edge_types)
        except InputError as error:
            raise InputError(f"link.relation: {error}") from None
        return one, (one,)
    if len(graph.links) > 1:
        shown = ", ".join(map(show_edge_type, list(graph.links)[:4]))
        raise InputError(
            f"link.relation is not given, and {len(graph.links)} relations have links: {shown}; "
            "name one of them, or '*' for all"
        )
    try:
        one = graph.linked_relation()
    except InputError as error:
        raise InputError(f"link.{error}") from None
    return one, (one,)


def _with_links(graph: HeteroGraph) -> tuple[EdgeType, ...]:
    """Relations with links; where none are for training, those whose edges are learned too."""
    if any(name in lists for lists in graph.links.values() for name in same_name("train")):
        return tuple(graph.links)
    ends = {(one[0], one[2]) for one in graph.links}
    forward = divided_relations(graph, "*") if ends else ()
    return tuple(sorted({*graph.links, *(one for one in forward if (one[0], one[2]) in ends)}))


def show_relation(edge_type: EdgeType | None) -> str:
    """What has the links, for people."""
    return "the graph" if edge_type is None else f"relation {show_edge_type(edge_type)}"


def _split(
    graph: Graph | HeteroGraph, relations: tuple[EdgeType, ...], name: str
) -> SplitLinks | None:
    """The links of a split, of all relations; None if there are none."""
    parts: list[tuple[int, Links]] = []
    if isinstance(graph, Graph):
        parts = [(0, one) for one in _named(graph.links, name)]
    else:
        for number, relation in enumerate(relations):
            parts += [(number, one) for one in _named(graph.links.get(relation, {}), name)]
    if not parts:
        return None
    if len(relations) < 2:
        only = parts[0][1]
        candidates = None if only.candidates is None else fetch(only.candidates).astype(np.int64)
        return SplitLinks(only.index, None, _times(only), only.negatives, candidates)
    numbers = np.concatenate([np.full(len(one), number) for number, one in parts])
    times = [_times(one) for _, one in parts]
    joined = [one for one in times if one is not None]
    return SplitLinks(
        np.concatenate([one.index for _, one in parts], axis=1),
        numbers.astype(np.int64),
        np.concatenate(joined) if len(joined) == len(times) else None,
    )


def _named(lists: Any, name: str) -> list[Links]:
    return [lists[one] for one in same_name(name) if one in lists][:1]


def _times(links: Links) -> Ids | None:
    return None if links.time is None else fetch(links.time)
