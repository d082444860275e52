"""sage: a layer with PyG's SAGEConv for each relation, summed: what PyG's HeteroConv computes."""

from torch import Tensor, nn

from foregather.nn.hetero.schema import Schema

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

    def forward(self, x: list[Tensor], edges: list[Tensor], targets: list[int]) -> list[Tensor]:
        """The next rows of the first `targets` nodes of each type."""
        out: list[Tensor | None] = [None] * len(x)
        for number, (source, target) in enumerate(self.ends):
            to = x[target][: targets[target]]
            if len(to):
                made = self.convs[number]((x[source], to), edges[number])
                found = out[target]
                out[target] = made if found is None else found + made
        return [
            rows[:count] if made is None else made
            for made, rows, count in zip(out, x, targets, strict=True)
        ]
