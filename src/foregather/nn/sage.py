"""sage: GraphSAGE with mean aggregation, and the MLP it is compared with, in plain torch.

A layer takes `x` (or a pair of source and target rows) and `edge_index` with messages flowing
`edge_index[0] -> edge_index[1]`, as PyG's convolutions do.
"""

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from foregather.errors import InputError

__all__ = ["MLP", "SAGE", "SAGEConv"]


class SAGEConv(nn.Module):
    """One layer: W_self x_v + W_neighbour mean of x_u over the in-neighbours u of v.

    Args:
        width_in: columns of x.
        width_out: columns of the result.
    """

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.own = nn.Linear(width_in, width_out)
        self.neighbour = nn.Linear(width_in, width_out, bias=False)

    def forward(self, x: Tensor | tuple[Tensor, Tensor], edge_index: Tensor) -> Tensor:
        """Rows [targets, width_out]; a node without in-neighbours gets a mean of zero."""
        given, target = x if isinstance(x, tuple) else (x, x)
        # transform first: the aggregation then moves width_out columns, not width_in
        mean = self.mean(self.neighbour(given), edge_index, target.shape[0])
        return torch.add(self.own(target), mean)

    def mean(self, messages: Tensor, edge_index: Tensor, count: int) -> Tensor:
        """The mean message of the sources of each of `count` targets; 0 where there are none."""
        total = messages.new_zeros(count, messages.shape[1])
        total.index_add_(0, edge_index[1], messages.index_select(0, edge_index[0]))
        degree = torch.bincount(edge_index[1], minlength=count).clamp_(min=1)
        return total / degree.unsqueeze(1)


class SAGE(nn.Module):
    """A stack of SAGEConv layers with ReLU and dropout between them.

    Args:
        widths: columns of x, of each hidden layer, and classes: [128, 64, 40].
        dropout: share of hidden values dropped in training.
    """

    def __init__(self, widths: list[int], dropout: float = 0.5) -> None:
        super().__init__()
        self.layers = nn.ModuleList(SAGEConv(a, b) for a, b in itertools.pairwise(widths))
        self.dropout = dropout

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        num_sampled_nodes: list[int] | None = None,
        num_sampled_edges: list[int] | None = None,
    ) -> Tensor:
        """Class scores [nodes, classes].

        With the counts of a batch, each layer computes only the nodes and edges that the seeds
        still depend on; the first rows, those of the seeds, are the same.

        Raises:
            InputError: the batch was sampled deeper than the model is.
        """
        counted = num_sampled_nodes is not None and num_sampled_edges is not None
        if counted and len(num_sampled_edges or []) > len(self.layers):
            raise InputError(
                f"the batch has {len(num_sampled_edges or [])} layers of neighbours, but the model "
                f"has {len(self.layers)} and never sees the outer ones; pass as many fan-outs as "
                "the model has layers"
            )
        trim = counted and len(num_sampled_edges or []) == len(self.layers)
        for number, layer in enumerate(self.layers):
            if number:
                x = functional.dropout(x.relu(), self.dropout, self.training)
            if trim and num_sampled_nodes is not None and num_sampled_edges is not None:
                left = len(self.layers) - number
                x = x[: sum(num_sampled_nodes[: left + 1])]
                edge_index = edge_index[:, : sum(num_sampled_edges[:left])]
            x = layer(x, edge_index)
        return x


class MLP(nn.Module):
    """The same stack without a graph, as a baseline that uses only the features."""

    def __init__(self, widths: list[int], dropout: float = 0.5) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor | None = None) -> Tensor:
        """Class scores [nodes, classes]; `edge_index` is ignored."""
        for number, layer in enumerate(self.layers):
            if number:
                x = functional.dropout(x.relu(), self.dropout, self.training)
            x = layer(x)
        return x
