"""typed_task: reads what is asked about the links of a HeteroGraph."""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType, find_node_type, show_edge_type
from foregather.graph.hetero.relation import Level, Relation
from foregather.loader.links.input_links import GivenLinks, InputLinks, known_links, named_ends
from foregather.loader.links.link_seeds import LinkTask
from foregather.loader.links.plain_task import check_exclude
from foregather.sampling.links.negative_sampler import NegativeSampler
from foregather.sampling.links.negatives import Negatives

__all__ = ["split_links", "typed_task"]

Ids = npt.NDArray[np.int64]


def typed_task(
    graph: HeteroGraph,
    edge_type: EdgeType,
    asked: tuple[Any, Any, Any],
    negatives: Any,
    exclude_seed_edges: Any,
    disjoint: bool,
    level: Level | None,
) -> LinkTask:
    """What is asked about the links of a relation.

    Args:
        graph: the graph.
        edge_type: of the links; need not be a relation of the graph if pairs are given.
        asked: edge_label_index without its edge type, edge_label and edge_label_time.
        negatives: as of `LinkLoader`.
        exclude_seed_edges: as of `LinkLoader`.
        disjoint: every end has its own tree.
        level: whose times limit what links see.

    Raises:
        InputError: an argument breaks its rule; the message says which.
    """
    index, label, time = asked
    ends, own_label, own_time = _ends(graph, edge_type, index)
    rule, sampler = Negatives.make(negatives), None
    if label is None and (rule is None or rule.is_binary):
        label = own_label
    if time is None and level is not None:
        time = own_time
    _check_times(time, level)
    links = InputLinks.make(ends, label, time)
    source, _, target = edge_type
    if rule is not None:
        links = links.beside(rule)
        src, dst = graph.nodes[source], graph.nodes[target]
        known = None
        if rule.exclude is not None:
            known = known_links(_edges(graph, edge_type), ends)
        timed = level == "node"
        sampler = NegativeSampler(
            rule,
            src.num_nodes,
            dst.num_nodes,
            positives=known,
            src_time=src.time if timed else None,
            dst_time=dst.time if timed else None,
            same_type=source == target,
        )
    left = check_exclude(exclude_seed_edges)
    return LinkTask(links, sampler, source == target, disjoint, left)


def split_links(graph: HeteroGraph, edge_label_index: Any) -> tuple[EdgeType, Any]:
    """The edge type of links, and which they are, not looked at yet.

    Raises:
        InputError: there is no such type, or several and none is named.
    """
    given = edge_label_index
    if _is_type(given):
        return _find(graph, given, None), None
    if isinstance(given, tuple | list) and len(given) == 2 and _is_type(given[0]):
        return _find(graph, given[0], given[1]), given[1]
    if isinstance(given, str):  # links that the graph has, of one relation
        return graph.linked_relation(), given
    types = graph.edge_types
    if len(types) == 1:
        return types[0], given
    what = "None" if given is None else f"a {type(given).__name__}"
    raise InputError(
        f"edge_label_index is {what}, but the graph has {len(types)} relations; pass an edge type, "
        f"or (edge type, links): {', '.join(map(show_edge_type, types[:4]))}"
    )


def _is_type(given: Any) -> bool:
    whole = isinstance(given, tuple | list) and len(given) in (2, 3)
    return whole and all(isinstance(part, str) for part in given)


def _find(graph: HeteroGraph, given: Any, links: Any) -> EdgeType:
    """An edge type of the graph, also by its two node types; or a new one, if pairs are given."""
    parts = tuple(given)
    if parts in graph.edges:
        return parts
    between = [one for one in graph.edge_types if (one[0], one[2]) == (parts[0], parts[-1])]
    if len(parts) == 2 and len(between) == 1:
        return between[0]
    source, target = (find_node_type(name, graph.node_types) for name in (parts[0], parts[-1]))
    shown = ", ".join(map(show_edge_type, between or graph.edge_types))
    if len(parts) == 2 and between:
        raise InputError(f"there are {len(between)} relations from {source} to {target}: {shown}")
    if links is None or isinstance(links, str):
        raise InputError(f"there is no relation {show_edge_type(parts)}; the graph has: {shown}")
    return source, parts[1] if len(parts) == 3 else "to", target


def _ends(graph: HeteroGraph, edge_type: EdgeType, index: Any) -> tuple[GivenLinks, Any, Any]:
    """The ends of links, and labels and times that they have in the graph."""
    if index is None:
        return _all_edges(graph.relation(edge_type)), None, None
    if isinstance(index, str):
        index = graph.links_of(index, edge_type)
    count = graph.nodes[edge_type[0]].num_nodes, graph.nodes[edge_type[2]].num_nodes
    return named_ends(index, *count)


def _all_edges(relation: Relation) -> GivenLinks:
    """All edges in the order in which they were given, as `e_id` counts them."""
    every = np.arange(relation.num_edges)
    target = np.repeat(np.arange(relation.num_targets), np.diff(relation.indptr))
    src, dst = np.empty(every.size, np.int64), np.empty(every.size, np.int64)
    at = every if relation.edge_ids is None else relation.edge_ids
    src[at], dst[at] = relation.indices, target
    return GivenLinks(src, dst, every)


def _edges(graph: HeteroGraph, edge_type: EdgeType) -> Any:
    """What the graph knows of a relation; one that it does not have has no edges."""
    if edge_type in graph.edges:
        return graph.relation(edge_type)
    targets = graph.nodes[edge_type[2]].num_nodes
    return Relation(np.zeros(targets + 1, np.int64), np.empty(0, np.uint32))


def _check_times(time: Any, level: Level | None) -> None:
    if time is not None and level is None:
        raise InputError(
            "'edge_label_time' is set, but nothing says whose times it limits; pass time='node' or "
            "'edge' as well (PyG: time_attr)"
        )
    if time is None and level is not None:
        raise InputError(
            f"the times of {level}s limit what is seen, but 'edge_label_time' is not set; pass one "
            "time per link"
        )
