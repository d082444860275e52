"""rgcn: a layer with one matrix per relation, applied to the mean of its in-neighbours (R-GCN).

With bases, the matrices are combinations of a few shared ones. Schlichtkrull et al., ESWC 2018.
"""

import torch
from torch import Tensor, nn

from foregather.nn.hetero.schema import Schema
from foregather.nn.hetero.weighted import weighted_sum

__all__ = ["RGCNLayer"]


class RGCNLayer(nn.Module):
    """out[v] = own matrix of v's type + sum over relations of (matrix of r) mean of neighbours.

    Args:
        schema: types and relations.
        hidden: columns of rows, in and out.
        bases: matrices that those of relations are combined from; 0: each has its own.
    """

    def __init__(self, schema: Schema, hidden: int, bases: int = 0) -> None:
        from torch_geometric.nn import SimpleConv

        super().__init__()
        self.ends = schema.ends
        self.mean = SimpleConv(aggr="mean")
        relations = len(schema.edges)
        self.weight = nn.Parameter(torch.empty(bases or relations, hidden, hidden))
        self.mix = nn.Parameter(torch.empty(relations, bases)) if bases else None
        self.own = nn.ModuleList(nn.Linear(hidden, hidden) for _ in schema.nodes)
        for matrix in self.weight:
            nn.init.xavier_uniform_(matrix)
        if self.mix is not None:
            nn.init.xavier_uniform_(self.mix)

    def matrices(self) -> Tensor:
        """The matrix of each relation [relations, hidden, hidden]."""
        if self.mix is None:
            return self.weight
        return torch.einsum("rb,bij->rij", self.mix, self.weight)

    def forward(
        self,
        x: list[Tensor],
        edges: list[Tensor],
        targets: list[int],
        weights: list[Tensor | None] | None = None,
    ) -> list[Tensor]:
        """The next rows of the first `targets` nodes of each type.

        Args:
            x: rows of nodes of each type.
            edges: of each relation.
            targets: nodes of each type that get rows.
            weights: of edges, whose sum stands for the mean; None, or None for a relation: 1 each.
        """
        out = [own(rows[:count]) for own, rows, count in zip(self.own, x, targets, strict=True)]
        matrices = self.matrices()
        for number, (source, target) in enumerate(self.ends):
            if targets[target] and edges[number].shape[1]:
                to = x[target][: targets[target]]
                weight = None if weights is None else weights[number]
                if weight is None:
                    mean = self.mean((x[source], to), edges[number])
                else:
                    mean = weighted_sum(x[source], edges[number], weight, len(to))
                out[target] = out[target] + mean @ matrices[number]
        return out
