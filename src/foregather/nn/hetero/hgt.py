"""hgt: a layer of PyG's HGTConv: attention by the types of nodes and relations.

HGTConv computes the rows of all nodes it is given; those that later layers do not need are left
out afterwards. Hu et al., WWW 2020.
"""

from torch import Tensor, nn

from foregather.nn.hetero.schema import Schema

__all__ = ["HGTLayer"]


class HGTLayer(nn.Module):
    """Attention over in-neighbours of all relations; a type that no relation enters keeps its rows.

    Args:
        schema: types and relations.
        hidden: columns of rows, in and out.
        heads: attention heads, which must divide hidden.
    """

    def __init__(self, schema: Schema, hidden: int, heads: int = 1) -> None:
        from torch_geometric.nn import HGTConv

        super().__init__()
        self.types = [f"n{place}" for place in range(len(schema.nodes))]
        self.edges = [
            (f"n{source}", f"r{place}", f"n{target}")
            for place, (source, target) in enumerate(schema.ends)
        ]
        self.conv = HGTConv(hidden, hidden, (self.types, self.edges), heads)

    def forward(self, x: list[Tensor], edges: list[Tensor], targets: list[int]) -> list[Tensor]:
        """The next rows of the first `targets` nodes of each type."""
        named = dict(zip(self.types, x, strict=True))
        every = dict(zip(self.edges, edges, strict=True))
        pairs = {name: found for name, found in every.items() if found.shape[1]}
        if not pairs:  # a node without neighbours still has a next row of its own
            pairs = dict(list(every.items())[:1])
        made = self.conv(named, pairs) if pairs else {}
        return [
            made.get(name, rows)[:count]
            for name, rows, count in zip(self.types, x, targets, strict=True)
        ]
