"""subgraphs: converts a sample to PyG's rows and edges, for the drop-in NeighborLoader.

Our samples hold each node once and the edges that were drawn. PyG gives a repeated seed two rows,
and has two more kinds of subgraphs: "bidirectional" adds the reverse of each edge, "induced" has
all edges of the graph between the nodes. All functions here are pure, from one PyG `SamplerOutput`
to another.
"""

import copy
from typing import Any

import torch
from torch import Tensor

from foregather.graph.graph import Graph
from foregather.sampling.subgraphs.subgraph import induced_subgraphs

__all__ = ["bidirectional", "edges_again", "induced", "new_places", "repeat_seeds"]


def repeat_seeds(out: Any, position: Tensor, distinct: int) -> tuple[Any, Tensor, Tensor]:
    """Gives every given seed its own row; `position` maps seeds to nodes of the sample.

    The edges into a repeated seed are repeated too, so that a model gives both rows the same
    scores. Other edges go to and from the first row.

    Args:
        out: nodes, each seed once, and edges by target.
        position: for each seed given, its place among the nodes.
        distinct: seeds, each counted once.

    Returns:
        The new output, and the original position of each of its nodes and edges.
    """
    seeds = int(position.numel())
    nodes, renamed = new_places(int(out.node.numel()), position, distinct)
    edges, targets = edges_again(out.col, position, distinct)
    made = copy.copy(out)
    made.node, made.edge = out.node[nodes], out.edge[edges]
    made.row = renamed[out.row[edges]]
    made.col = renamed[out.col[edges]]
    made.col[: targets.numel()] = targets
    if out.num_sampled_nodes is not None:
        more = int(edges.numel() - out.col.numel())
        made.num_sampled_nodes = [seeds, *out.num_sampled_nodes[1:]]
        made.num_sampled_edges = [
            count + more * (i == 0) for i, count in enumerate(out.num_sampled_edges)
        ]
    return made, nodes, edges


def new_places(count: int, position: Tensor, distinct: int) -> tuple[Tensor, Tensor]:
    """Where nodes go when every given seed has a row of its own.

    Args:
        count: nodes, each seed once.
        position: for each seed given, its place among them.
        distinct: seeds, each counted once.

    Returns:
        The original place of each new row, and the new row of each node; of those of a repeated
        seed the first.
    """
    seeds = int(position.numel())
    rest = torch.arange(distinct, count)
    renamed = torch.empty(count, dtype=torch.int64)
    renamed[distinct:] = rest + (seeds - distinct)
    order = torch.arange(seeds)
    # the smallest of its rows stands for a node
    renamed[:distinct] = torch.full((distinct,), seeds).scatter_reduce(0, position, order, "amin")
    return torch.cat([position, rest]), renamed


def edges_again(col: Tensor, position: Tensor, distinct: int) -> tuple[Tensor, Tensor]:
    """The edges, those into a repeated seed as often as it was given; arguments as `new_places`.

    Returns:
        The original position of each edge, and the new targets of those into seeds, which are
        first.
    """
    into = int(torch.searchsorted(col, distinct))  # edges into seeds come first
    degree = torch.bincount(col[:into], minlength=distinct)
    start, times = degree.cumsum(0) - degree, degree[position]
    again = torch.repeat_interleave(start[position] - (times.cumsum(0) - times), times)
    edges = torch.cat([again + torch.arange(again.numel()), torch.arange(into, col.numel())])
    return edges, torch.repeat_interleave(torch.arange(position.numel()), times)


def bidirectional(out: Any) -> Any:
    """Returns each edge and its reverse once, by target and then source, without layers.

    An edge that was not drawn itself has the id of its reverse, as in PyG.
    """
    made = copy.copy(out)
    count, nodes = int(out.row.numel()), int(out.node.numel())
    row, col = torch.cat([out.row, out.col]), torch.cat([out.col, out.row])
    edge = torch.cat([out.edge, out.edge])
    # stable: drawn edges are first among equals
    key, order = torch.sort(col * max(nodes, 1) + row, stable=True)
    first = torch.ones(2 * count, dtype=torch.bool)
    first[1:] = key[1:] != key[:-1]
    order = order[first]
    made.row, made.col, made.edge = row[order], col[order], edge[order]
    made.num_sampled_nodes = made.num_sampled_edges = None
    return made


def induced(out: Any, graph: Graph, threads: int) -> Any:
    """Returns all edges of the graph between the nodes, by target, without layers."""
    made = copy.copy(out)
    sample = induced_subgraphs(graph, [out.node.cpu().numpy()], threads=threads)[0]
    made.row, made.col, made.edge = (
        torch.from_numpy(part.astype("int64")) for part in (sample.row, sample.col, sample.edge)
    )
    made.num_sampled_nodes = made.num_sampled_edges = None
    return made
