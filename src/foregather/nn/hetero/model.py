"""model: a typed model: encoders, layers that pass rows along relations, and scores of one type.

Each layer computes only the rows that later ones need, which changes no score of a seed. `step`
is one layer by itself, for inference over the whole graph.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from foregather.errors import InputError
from foregather.nn.hetero.encode import encode_batch, make_encoders
from foregather.nn.hetero.hops import Hops, is_layered
from foregather.nn.hetero.schema import Schema

__all__ = ["TypedModel"]


class TypedModel(nn.Module):
    """Classifies the nodes of one type; called with a batch of a `HeteroLoader`.

    Attributes:
        schema: what it was made for.
        encoders: see `encode`.
        layers: each from rows of all types (a list by number), edges of all relations and how many
            targets of each type are wanted, to the rows of those targets.
        head: from rows to scores.
        dropout: share of values dropped in training, before each layer and the head.

    Args:
        schema: see the attribute.
        layers: see the attribute; each takes and gives rows of `hidden` columns.
        hidden: columns of rows.
        dropout: see the attribute.
    """

    def __init__(
        self, schema: Schema, layers: Sequence[nn.Module], hidden: int, dropout: float
    ) -> None:
        super().__init__()
        self.schema, self.dropout = schema, dropout
        self.encoders = make_encoders(schema, hidden)
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(hidden, schema.classes)

    def forward(self, batch: Any) -> Tensor:
        """Scores of the seeds of a batch; of all nodes of the type where a batch has no layers."""
        return self.scores(self.rows(batch, Hops.of(batch, self.schema))[self.schema.place])

    def rows(self, batch: Any, hops: Hops) -> list[Tensor]:
        """Rows of the seeds of each type after the last layer."""
        depth = len(self.layers)
        x = self.encode(batch, hops.nodes_within(depth))
        if is_layered(batch, self.schema):
            return self._by_layers(batch, hops, x)
        edges = [batch[name].edge_index for name in self.schema.edges]
        for place in range(depth):
            left = depth - place
            within = zip(edges, hops.edges_within(left), strict=True)
            kept = [pairs[:, :count] for pairs, count in within]
            x = self.step(place, x, kept, hops.nodes_within(left - 1))
        return x

    def encode(self, batch: Any, counts: list[int]) -> list[Tensor]:
        """First rows of the first nodes of each type of a batch."""
        return encode_batch(self.encoders, self.schema, batch, counts)

    def _by_layers(self, batch: Any, hops: Hops, x: list[Tensor]) -> list[Tensor]:
        """The same of a batch whose relations have the edges of each layer, and their weights."""
        depth = len(self.layers)
        parts = [batch[name].layers for name in self.schema.edges]
        if any(len(own) != depth for own in parts):
            raise InputError(
                f"the batch has {len(parts[0])} layers, but the model has {depth}; sample as many"
            )
        for place in range(depth):
            own = [layers[place] for layers in parts]
            edges, weights = [one.edge_index for one in own], [one.weight for one in own]
            x = self.step(place, x, edges, hops.nodes_within(depth - place - 1), weights)
        return x

    def step(
        self,
        place: int,
        x: list[Tensor],
        edges: list[Tensor],
        targets: list[int],
        weights: list[Tensor | None] | None = None,
    ) -> list[Tensor]:
        """One layer: the next rows of the first `targets` nodes of each type.

        Args:
            place: number of the layer.
            x: rows of nodes of each type.
            edges: of each relation.
            targets: nodes of each type that get rows.
            weights: of edges, by which neighbours are summed; None: what the layer does by itself.
        """
        dropped = [functional.dropout(rows, self.dropout, self.training) for rows in x]
        given = (dropped, edges, targets)
        if weights is not None and any(one is not None for one in weights):
            given += (weights,)  # type: ignore[assignment]
        made: list[Tensor] = self.layers[place](*given)
        return [rows.relu() for rows in made]

    def scores(self, rows: Tensor) -> Tensor:
        """Scores of nodes with these rows."""
        found: Tensor = self.head(functional.dropout(rows, self.dropout, self.training))
        return found
