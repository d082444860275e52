"""sage: a layer with PyG's SAGEConv for each relation, summed: what PyG's HeteroConv computes."""

from typing import Any

from torch import Tensor, nn

from foregather.nn.hetero.schema import Schema
from foregather.nn.hetero.weighted import weighted_sum

__all__ = ["SAGELayer"]


class SAGELayer(nn.Module):
    """A convolution per relation; those into one type are summed. A type without any keeps rows.

    Args:
        schema: types and relations.
        hidden: columns of rows, in and out.
        aggr: how in-neighbours are joined: mean, sum, max.
    """

    def __init__(self, schema: Schema, hidden: int, aggr: str = "mean") -> None:
        from torch_geometric.nn import SAGEConv

        super().__init__()
        self.ends = schema.ends
        self.convs = nn.ModuleList(
            SAGEConv((hidden, hidden), hidden, aggr=aggr) for _ in schema.edges
        )

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
        out: list[Tensor | None] = [None] * len(x)
        for number, (source, target) in enumerate(self.ends):
            to = x[target][: targets[target]]
            if len(to):
                conv: Any = self.convs[number]
                weight = None if weights is None else weights[number]
                if weight is None:
                    made = conv((x[source], to), edges[number])
                else:
                    total = weighted_sum(x[source], edges[number], weight, len(to))
                    made = conv.lin_l(total) + conv.lin_r(to)
                found = out[target]
                out[target] = made if found is None else found + made
        return [
            rows[:count] if made is None else made
            for made, rows, count in zip(out, x, targets, strict=True)
        ]
