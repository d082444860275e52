"""repeat: gives every given seed a row of its own in batches of several types."""

import copy
from typing import Any

import torch
from torch import Tensor

from foregather.interop.subgraphs import edges_again, new_places

__all__ = ["repeat_typed_seeds"]


def repeat_typed_seeds(out: Any, node_type: str, position: Tensor, distinct: int) -> Any:
    """As `repeat_seeds`, for the seeds of one type of a HeteroSamplerOutput.

    Args:
        out: nodes, each seed once, and edges of each relation by target.
        node_type: the type of the seeds.
        position: for each seed given, its place among the nodes of the type.
        distinct: seeds, each counted once.
    """
    made = copy.copy(out)
    made.node, made.row, made.col = dict(out.node), dict(out.row), dict(out.col)
    made.edge = dict(out.edge)
    seeds, count = int(position.numel()), int(out.node[node_type].numel())
    nodes, renamed = new_places(count, position, distinct)
    made.node[node_type] = out.node[node_type][nodes]
    if out.num_sampled_nodes is not None:
        made.num_sampled_nodes = dict(out.num_sampled_nodes)
        made.num_sampled_nodes[node_type] = [seeds, *out.num_sampled_nodes[node_type][1:]]
        made.num_sampled_edges = dict(out.num_sampled_edges)
    for name in out.row:
        row, col, edge = out.row[name], out.col[name], out.edge[name]
        if name[2] == node_type:
            edges, targets = edges_again(col, position, distinct)
            more = int(edges.numel() - col.numel())
            row, edge = row[edges], None if edge is None else edge[edges]
            col = torch.cat([targets, renamed[col[edges[targets.numel() :]]]])
            if out.num_sampled_edges is not None:
                own = out.num_sampled_edges[name]
                made.num_sampled_edges[name] = [n + more * (i == 0) for i, n in enumerate(own)]
        if name[0] == node_type:
            row = renamed[row]
        made.row[name], made.col[name], made.edge[name] = row, col, edge
    return made
