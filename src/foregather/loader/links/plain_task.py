"""plain_task: reads what is asked about the links of a Graph."""

from typing import Any

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.loader.arguments import check_choice
from foregather.loader.links.input_links import EdgeLinks, Ends, InputLinks, known_links, named_ends
from foregather.loader.links.link_seeds import LinkTask
from foregather.sampling.links.negative_sampler import NegativeSampler
from foregather.sampling.links.negatives import Negatives

__all__ = ["check_exclude", "plain_task"]


def plain_task(
    graph: Graph,
    edge_label_index: Any,
    edge_label: Any,
    edge_label_time: Any,
    negatives: Any,
    exclude_seed_edges: Any,
    disjoint: bool,
) -> LinkTask:
    """What is asked about the links of a graph; arguments are those of `LinkLoader`.

    Raises:
        InputError: an argument breaks its rule; the message says which.
    """
    ends, label, time = _ends(graph, edge_label_index)
    if edge_label_time is not None:
        raise InputError(
            "edge_label_time was given, but a Graph has no times, so nothing of it can be kept "
            "from earlier links; use a HeteroGraph with times, which may have one type alone"
        )
    rule, sampler = Negatives.make(negatives), None
    if edge_label is None and (rule is None or rule.is_binary):
        edge_label = label
    links = InputLinks.make(ends, edge_label, time)
    if rule is not None:
        links = links.beside(rule)
        known = None if rule.exclude is None else known_links(graph, ends)
        nodes = graph.num_nodes
        sampler = NegativeSampler(rule, nodes, nodes, positives=known, same_type=True)
    return LinkTask(
        links, sampler, disjoint=bool(disjoint), leaves_out=check_exclude(exclude_seed_edges)
    )


def check_exclude(value: Any) -> str | None:
    """Reads `exclude_seed_edges`: what is left out, "edges" or "pairs", or None.

    Raises:
        InputError: it is none of True, False and "pairs".
    """
    check_choice("exclude_seed_edges", value, (True, False, "pairs"))
    if value == "pairs":
        return "pairs"
    return "edges" if value else None


def _ends(graph: Graph, asked: Any) -> tuple[Ends, Any, Any]:
    """The ends of the links, and the labels and times that they have in the graph."""
    if asked is None:
        return EdgeLinks(graph), None, None
    named = graph.links_of(asked) if isinstance(asked, str) else asked
    return named_ends(named, graph.num_nodes, graph.num_nodes)
