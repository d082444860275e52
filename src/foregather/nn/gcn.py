"""gcn: graph convolutional networks (Kipf and Welling) and GraphSAGE as lists of layers.

A layer transforms before it aggregates if that makes the exchanged rows narrower.
"""

import itertools

from torch import Tensor, nn

from foregather.nn.drop import dropout
from foregather.nn.layer import GraphLayer, Near

__all__ = ["GCNLayer", "SAGELayer", "gcn_layers", "sage_layers"]


class _Hidden(GraphLayer):
    """Activation and dropout after a layer, for all but the last."""

    def __init__(self, last: bool, dropout: float) -> None:
        super().__init__()
        self.last = last
        self.dropout = dropout

    def _finish(self, x: Tensor) -> Tensor:
        return x if self.last else dropout(x.relu(), self.dropout, self.training)


class GCNLayer(_Hidden):
    """W times the degree-normalised sum over in-neighbours and the node itself.

    Args:
        width_in: columns of x.
        width_out: columns of the result.
        last: no activation and no dropout.
        dropout: share of values dropped in training.
    """

    def __init__(
        self, width_in: int, width_out: int, last: bool = False, dropout: float = 0.5
    ) -> None:
        super().__init__(last, dropout)
        self.weight = nn.Linear(width_in, width_out, bias=False)
        self.bias = nn.Parameter(self.weight.weight.new_zeros(width_out))
        self.first = width_out < width_in

    def message(self, x: Tensor) -> Tensor:
        """Returns x, already transformed if that is narrower."""
        return self.weight(x) if self.first else x

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Tensor:
        """Rows [own, width_out]."""
        assert near is not None
        return near.dense(self._dense, near.aggregate("gcn"))

    def _dense(self, z: Tensor) -> Tensor:
        return self._finish((z if self.first else self.weight(z)) + self.bias)


class SAGELayer(_Hidden):
    """W_self x_v + W_neighbour mean of x_u over the in-neighbours u of v.

    Args:
        width_in: columns of x.
        width_out: columns of the result.
        last: no activation and no dropout.
        dropout: share of values dropped in training.
    """

    def __init__(
        self, width_in: int, width_out: int, last: bool = False, dropout: float = 0.5
    ) -> None:
        super().__init__(last, dropout)
        self.own = nn.Linear(width_in, width_out)
        self.neighbour = nn.Linear(width_in, width_out, bias=False)
        self.first = width_out < width_in

    def message(self, x: Tensor) -> Tensor:
        """Returns x, already transformed if that is narrower."""
        return self.neighbour(x) if self.first else x

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Tensor:
        """Rows [own, width_out]."""
        assert near is not None
        return near.dense(self._dense, near.aggregate("mean"), x)

    def _dense(self, z: Tensor, x: Tensor) -> Tensor:
        return self._finish(self.own(x) + (z if self.first else self.neighbour(z)))


def gcn_layers(widths: list[int], dropout: float = 0.5) -> list[GraphLayer]:
    """A GCN; `widths` are the columns of x, of each hidden layer, and the classes."""
    pairs = list(itertools.pairwise(widths))
    return [GCNLayer(a, b, i + 1 == len(pairs), dropout) for i, (a, b) in enumerate(pairs)]


def sage_layers(widths: list[int], dropout: float = 0.5) -> list[GraphLayer]:
    """A GraphSAGE with mean aggregation; `widths` as for `gcn_layers`."""
    pairs = list(itertools.pairwise(widths))
    return [SAGELayer(a, b, i + 1 == len(pairs), dropout) for i, (a, b) in enumerate(pairs)]
