"""split: `split_links`: a graph whose held-out edges are links, and no longer edges."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.columns import to_times
from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, about, show_edge_type
from foregather.graph.hetero.relation import Relation, is_identity
from foregather.graph.integrity.check_topology import check_topology
from foregather.graph.links.cut import STEP, Cut, decide
from foregather.graph.links.divide import (
    Collected,
    count_links,
    divide_rows,
    is_symmetric,
    link_columns,
    renumber,
)
from foregather.graph.links.links import Links
from foregather.graph.links.rule import EVERY, NAMES, LinkSplit, Which, check_sides
from foregather.graph.on_disk.folder import facts_of

__all__ = [
    "back_of",
    "both_ways",
    "divide_relations",
    "divided_relations",
    "kept_columns",
    "split_links",
    "treated_undirected",
]

Array = npt.NDArray[Any]


@overload
def split_links(
    graph: Graph,
    fractions: Any = ...,
    *,
    times: Any = ...,
    by_time: bool = ...,
    relation: Which = ...,
    seed: int = ...,
    undirected: bool | None = ...,
) -> Graph: ...
@overload
def split_links(
    graph: HeteroGraph,
    fractions: Any = ...,
    *,
    times: Any = ...,
    by_time: bool = ...,
    relation: Which = ...,
    seed: int = ...,
    undirected: bool | None = ...,
) -> HeteroGraph: ...
def split_links(
    graph: Graph | HeteroGraph,
    fractions: Any = None,
    *,
    times: Any = None,
    by_time: bool = False,
    relation: Which = None,
    seed: int = 0,
    undirected: bool | None = None,
) -> Graph | HeteroGraph:
    """Divides edges into links train, valid and test; only training links stay edges.

    The result is in memory and has `links`. Links keep the times of their edges, and their weights
    as labels. They are in the order of the stored edges: by target, then by source.

    Args:
        graph: without links of the relation.
        fractions: shares of train, valid and test, such as (0.8, 0.1, 0.1), which add up to 1.
        times: instead: valid starts at the first time, test at the second; whole numbers, or
            datetime64.
        by_time: `fractions` go by time, the earliest edges being train; edges of the same time
            stay together.
        relation: the edge type to divide, of a typed graph; None where there is one. Its reverse,
            (target, rev_NAME, source), is divided with it. "*" divides all relations as one list:
            two nodes are in the same part in every relation that joins them, in either direction.
        seed: of a division by chance, which is a function of the seed and of the two nodes of each
            edge: parallel edges stay together.
        undirected: an edge and its reverse stay together and are one link; None: where every edge
            has its reverse. Not by time.

    Raises:
        InputError: no such relation, no times, a side that would be empty, or links that are there
            already.
    """
    if times is not None:
        times = tuple(int(one) for one in to_times(np.asarray(times), 2, "times", "border"))
    made = None if fractions is None else tuple(fractions)
    rule = LinkSplit(made, times, by_time, seed, relation, undirected)
    if isinstance(graph, Graph):
        if relation is not None:
            raise InputError(
                f"relation is {relation!r:.80}, but the graph has no types; leave it out"
            )
        return _split_plain(graph, rule)
    if isinstance(graph._plain, Graph):
        if relation != EVERY:
            graph.linked_relation(relation)
        return HeteroGraph.from_graph(_split_plain(graph._plain, replace(rule, relation=None)))
    return _split_typed(graph, rule)


def treated_undirected(graph: Graph, rule: LinkSplit) -> bool:
    """Whether the two directions of an edge are one link.

    Raises:
        InputError: that is asked for, and some edge has no reverse.
    """
    if rule.in_time or rule.undirected is False:
        return False
    return both_ways(graph, rule, graph.meta.get("undirected") is True)


def both_ways(rows: Any, rule: LinkSplit, said: bool) -> bool:
    """Whether every edge has its reverse: `said` so, or found.

    Raises:
        InputError: that is asked for, and some edge has none.
    """
    if said or is_symmetric(rows):
        return True
    if rule.undirected:
        raise InputError(
            "undirected is true, but some edge has no reverse; convert the graph with "
            "--undirected, or leave it out"
        )
    return False


def kept_columns(weights: Array | None, features: Array | None) -> dict[str, Array]:
    """What links keep of their edges as labels: weights, else features."""
    labels = weights if weights is not None else features
    return {} if labels is None else {"labels": labels}


def _split_plain(graph: Graph, rule: LinkSplit) -> Graph:
    if graph.links:
        raise InputError(f"the graph has links already: {', '.join(graph.links)}; split it once")
    check_topology(graph)
    undirected = treated_undirected(graph, rule)
    cut = decide([(graph, None)], rule, undirected, STEP)
    check_sides(count_links(graph, cut, None, STEP))
    columns = {
        name: getattr(graph, name)
        for name in ("edge_weight", "edge_ids")
        if getattr(graph, name) is not None
    }
    rows = graph.edge_features
    if rows is not None:
        columns["edge_features"] = rows.data
    kept, links = Collected(), Collected()
    divide_rows(graph, columns, cut, None, kept.put, STEP)
    nodes = graph.num_nodes
    own = kept_columns(graph.edge_weight, None if rows is None else rows.data)
    link_columns(graph, own, cut, None, nodes, nodes, links.put, STEP)
    found: dict[str, Any] = dict(kept.arrays())
    features = None if rows is None else Features(found.pop("edge_features"), rows.scale)
    facts = {**facts_of(graph), "link_split": rule.facts()}
    return replace(
        graph,
        num_edges=int(found["indices"].size),
        edge_features=features,
        meta=facts,
        links=_links(links.arrays()),
        **found,
    )


def _links(arrays: Mapping[str, Array]) -> dict[str, Links]:
    return {
        name: Links(
            **{
                key.removeprefix(f"{name}/"): values
                for key, values in arrays.items()
                if key.startswith(f"{name}/")
            }
        )
        for name in NAMES
        if f"{name}/sources" in arrays
    }


def back_of(edge_type: EdgeType) -> EdgeType:
    """The edge type of a relation's reverse."""
    source, name, target = edge_type
    back = name.removeprefix("rev_") if name.startswith("rev_") else f"rev_{name}"
    return target, back, source


def divided_relations(graph: HeteroGraph, which: Which) -> tuple[EdgeType, ...]:
    """The relations that are divided; ways back go with theirs.

    Raises:
        InputError: there is no such relation, or none or several that could be meant.
    """
    if which != EVERY:
        return (graph.linked_relation(which),)
    forward = tuple(
        one
        for one in graph.edge_types
        if not (one[1].startswith("rev_") and back_of(one) in graph.edges)
    )
    if not forward:
        raise InputError("the relation of links is '*', but the graph has no relations")
    return forward


def divide_relations(
    graph: HeteroGraph, relations: tuple[EdgeType, ...], rule: LinkSplit, step: int
) -> tuple[Cut, dict[EdgeType, tuple[int, int, int]]]:
    """Where the parts of relations begin, and how many links of each name each has.

    Raises:
        InputError: an option does not fit them, or a part of all of them would be empty.
    """
    parts: list[tuple[Relation, Array | None]] = []
    undirected = False
    for edge_type in relations:
        with about(f"relation {show_edge_type(edge_type)}"):
            own = graph.edges[edge_type]
            times = own.time if own.time_level == "edge" else None
            same = edge_type[0] == edge_type[2]
            if rule.undirected and not same:
                raise InputError("undirected is true, but the relation is between two node types")
            if same and not rule.in_time and rule.undirected is not False and len(relations) == 1:
                undirected = rule.relation != EVERY and both_ways(own, rule, False)
            if rule.in_time and times is None:
                decide([(own, None)], rule, False, step)  # says so
            parts.append((own, times))
    shown = f"relation {show_edge_type(relations[0])}" if len(relations) == 1 else "all relations"
    with about(shown):
        cut = decide(parts, rule, undirected, step)
        sizes = {
            name: count_links(own, cut, times, step)
            for name, (own, times) in zip(relations, parts, strict=True)
        }
        first, second, third = (sum(column) for column in zip(*sizes.values(), strict=True))
        check_sides((first, second, third))
    return cut, sizes


def _split_typed(graph: HeteroGraph, rule: LinkSplit) -> HeteroGraph:
    relations = divided_relations(graph, rule.relation)
    for edge_type in relations:
        if edge_type in graph.links:
            raise InputError(
                f"relation {show_edge_type(edge_type)} has links already: "
                f"{', '.join(graph.links[edge_type])}; split it once"
            )
        with about(f"relation {show_edge_type(edge_type)}"):
            graph.relation(edge_type)  # checks ids and times
    cut = divide_relations(graph, relations, rule, STEP)[0]
    edges, made = dict(graph.edges), dict(graph.links)
    for edge_type in relations:
        own = graph.edges[edge_type]
        times = own.time if own.time_level == "edge" else None
        links, columns = Collected(), kept_columns(own.weights, own.features)
        columns |= {} if times is None else {"time": times}
        ends = graph.nodes[edge_type[2]].num_nodes, graph.nodes[edge_type[0]].num_nodes
        link_columns(own, columns, cut, times, *ends, links.put, STEP)
        there = {name: one for name, one in _links(links.arrays()).items() if one.num_links}
        made |= {edge_type: there} if there else {}
        with about(f"relation {show_edge_type(edge_type)}"):
            edges[edge_type] = _divided(own, cut)
        back = back_of(edge_type)
        if back in graph.edges and back != edge_type:
            with about(f"relation {show_edge_type(back)}"):
                graph.relation(back)
                edges[back] = _divided(graph.edges[back], cut, turned=True)
    stated = rule if rule.relation == EVERY else replace(rule, relation=relations[0])
    facts = {**graph.facts, "link_split": stated.facts()}
    return HeteroGraph(graph.nodes, edges, facts, links=made)


def _divided(relation: Relation, cut: Cut, turned: bool = False) -> Relation:
    """The relation without held-out edges."""
    times = relation.time if relation.time_level == "edge" else None
    if cut.seed is None and times is None:
        raise InputError(
            "the relation that is divided by time has times, and this one, its way back, has none; "
            "make it again with with_reverse"
        )
    names = ("edge_ids", "time", "weights", "features")
    columns = {name: one for name in names if (one := getattr(relation, name)) is not None}
    kept = Collected()
    divide_rows(relation, columns, cut, times, kept.put, STEP, turned=turned)
    found: dict[str, Any] = {"edge_ids": None, **kept.arrays()}
    if found["edge_ids"] is not None:
        ids = renumber(found["edge_ids"], relation.num_edges)
        found["edge_ids"] = None if is_identity(ids) else ids
    return replace(relation, **found)
