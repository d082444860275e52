"""deep: models made for many layers, as lists of layers: GCNII and ResGCN+ (with LayerNorm).

GCNII (Chen et al. 2020) mixes the first embedding into every layer, so it declares that tensor as
a skip. ResGCN+ (Li et al. 2020) adds each layer to its input: norm, ReLU, dropout, convolution.
"""

import math

from torch import Tensor, nn

from foregather.nn.drop import dropout
from foregather.nn.layer import Dense, GraphLayer, Near

__all__ = ["GCNIILayer", "ResLayer", "gcnii_layers", "resgcn_layers"]

INITIAL = "initial"  # the skip tensor of GCNII


class GCNIILayer(GraphLayer):
    """((1 - beta) I + beta W) ((1 - alpha) A x + alpha x_initial), then ReLU and dropout.

    Args:
        width: columns of x and of the result.
        number: which convolution this is, from 1; beta = log(lam / number + 1).
        alpha: share of the first embedding.
        lam: how fast W loses weight with depth.
        dropout: share of values dropped in training.
    """

    needs = (INITIAL,)

    def __init__(
        self, width: int, number: int, alpha: float = 0.1, lam: float = 0.5, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.weight = nn.Linear(width, width, bias=False)
        self.alpha = alpha
        self.beta = math.log(lam / number + 1)
        self.dropout = dropout

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Tensor:
        """Rows [own, width]."""
        assert near is not None
        return near.dense(self._dense, near.aggregate("gcn"), skips[INITIAL])

    def _dense(self, z: Tensor, initial: Tensor) -> Tensor:
        mixed = (1 - self.alpha) * z + self.alpha * initial
        out = (1 - self.beta) * mixed + self.beta * self.weight(mixed)
        return dropout(out.relu(), self.dropout, self.training)


class ResLayer(GraphLayer):
    """X plus a SAGE convolution of dropout(relu(layer_norm(x))).

    Args:
        width: columns of x and of the result.
        dropout: share of values dropped in training.
    """

    def __init__(self, width: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.own = nn.Linear(width, width)
        self.neighbour = nn.Linear(width, width, bias=False)
        self.dropout = dropout

    def message(self, x: Tensor) -> Tensor:
        """Norm, ReLU, dropout."""
        return dropout(self.norm(x).relu(), self.dropout, self.training)

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Tensor:
        """Rows [own, width]."""
        assert near is not None
        return near.dense(self._dense, x, near.own, near.aggregate("mean"))

    def _dense(self, x: Tensor, own: Tensor, z: Tensor) -> Tensor:
        added: Tensor = self.own(own) + self.neighbour(z)
        return x + added


def gcnii_layers(
    width_in: int,
    width: int,
    classes: int,
    depth: int,
    alpha: float = 0.1,
    lam: float = 0.5,
    dropout: float = 0.5,
) -> list[GraphLayer]:
    """GCNII with `depth` convolutions between two dense layers."""
    first = nn.Sequential(nn.Dropout(dropout), nn.Linear(width_in, width), nn.ReLU())
    layers: list[GraphLayer] = [Dense(first, gives=INITIAL)]
    if dropout:
        layers.append(Dense(nn.Dropout(dropout)))
    layers += [GCNIILayer(width, i + 1, alpha, lam, dropout) for i in range(depth)]
    return [*layers, Dense(nn.Linear(width, classes))]


def resgcn_layers(
    width_in: int, width: int, classes: int, depth: int, dropout: float = 0.5
) -> list[GraphLayer]:
    """ResGCN+ with `depth` residual convolutions between two dense layers; LayerNorm throughout."""
    last = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, classes))
    blocks = [ResLayer(width, dropout) for _ in range(depth)]
    return [Dense(nn.Linear(width_in, width)), *blocks, Dense(last)]
