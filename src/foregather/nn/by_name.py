"""by_name: models of plain graphs by name: sage, gcn, gat, gin, gcnii and mlp.

sage and mlp are plain torch; the others are made of PyG's convolutions, so that `accelerate` and
exact inference know them. gcn and gcnii take the weights of the whole graph that a Loader gives
with norm="gcn", in place of degrees of a sampled part, and the self-loops that the graph has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from foregather.errors import InputError, MissingDependencyError
from foregather.nn.sage import MLP, SAGE, SAGEConv

__all__ = ["LAYERED", "NORMED", "PLAIN_MODELS", "ModelShape", "make_plain_model"]

#: Models by name, with a line for people.
PLAIN_MODELS = {
    "sage": "GraphSAGE, mean of neighbours",
    "gcn": "GCN, weights of the whole graph (sampler.norm is gcn by itself)",
    "gat": "graph attention; model.options: heads, v2, concat",
    "gin": "graph isomorphism network, sum of neighbours",
    "gcnii": "GCNII, many layers with the first embedding in each; alpha, theta",
    "mlp": "features alone, as a baseline",
}
#: Those that need the weights of norm="gcn".
NORMED = ("gcn", "gcnii")
#: Those that take batches whose sampler expands per layer.
LAYERED = ("sage", "gcn")


@dataclass(frozen=True)
class ModelShape:
    """What every model by name is made with.

    Attributes:
        width: feature columns.
        hidden: columns of hidden layers.
        classes: columns of scores.
        layers: number of layers.
        dropout: share of hidden values dropped in training.
    """

    width: int
    hidden: int
    classes: int
    layers: int
    dropout: float

    @property
    def widths(self) -> list[int]:
        """Columns before, between and after the layers."""
        return [self.width, *[self.hidden] * (self.layers - 1), self.classes]


def make_plain_model(
    kind: str, shape: ModelShape, options: Mapping[str, Any], layered: bool = False
) -> nn.Module:
    """The model of this name.

    Args:
        kind: its name.
        shape: its columns and layers.
        options: further arguments; sage and mlp have none.
        layered: make it for batches whose sampler expands per layer; it has the same weights by
            the same names.

    Raises:
        InputError: it is unknown, does not take these options, or no such batches.
        MissingDependencyError: PyG is not installed.
    """
    if kind not in PLAIN_MODELS:
        raise InputError(
            f"model.kind is {kind!r}, expected one of {', '.join(PLAIN_MODELS)}, or module:Class"
        )
    if layered and kind not in LAYERED:
        raise InputError(
            f"model.kind is {kind!r}, but the sampler expands per layer; use {' or '.join(LAYERED)}"
        )
    if kind in ("sage", "mlp"):
        if options:
            raise InputError(f"model.options is for module:Class; {kind} takes none")
        if kind == "mlp":
            return MLP(shape.widths, shape.dropout)
        return (_LayeredSAGE if layered else SAGE)(shape.widths, shape.dropout)
    try:
        import torch_geometric.nn as pyg
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"model.kind {kind} needs PyG; install it with: pip install 'foregather[pyg]'"
        ) from error
    common = {
        "in_channels": shape.width,
        "hidden_channels": shape.hidden,
        "num_layers": shape.layers,
        "out_channels": shape.classes,
        "dropout": shape.dropout,
    }
    make: dict[str, Callable[..., nn.Module]] = {
        "gcn": _layered_gcn() if layered else pyg.GCN,
        "gat": pyg.GAT,
        "gin": pyg.GIN,
    }
    try:
        if kind == "gcnii":
            return GCNII(shape, **options)
        if kind == "gcn":
            common["normalize"] = False
        return make[kind](**common | dict(options))
    except (TypeError, ValueError, AssertionError) as error:
        raise InputError(f"{kind} cannot be made with {dict(options)}: {error}") from error


class GCNII(nn.Module):
    """GCNII (Chen et al. 2020) for sampled batches, with PyG's convolutions.

    Args:
        shape: columns and layers.
        alpha: share of the first embedding in each layer.
        theta: how fast a layer's weights lose influence with depth.
    """

    def __init__(self, shape: ModelShape, alpha: float = 0.1, theta: float = 0.5) -> None:
        from torch_geometric.nn import GCN2Conv

        super().__init__()
        self.first = nn.Linear(shape.width, shape.hidden)
        self.convs = nn.ModuleList(
            GCN2Conv(shape.hidden, alpha, theta, number + 1, normalize=False)
            for number in range(shape.layers)
        )
        self.last = nn.Linear(shape.hidden, shape.classes)
        self.dropout = shape.dropout

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Scores [nodes, classes]."""
        x = initial = self.first(self._drop(x)).relu()
        for conv in self.convs:
            x = conv(self._drop(x), initial, edge_index, edge_weight).relu()
        scores: Tensor = self.last(self._drop(x))
        return scores

    def layer_steps(self) -> list[Callable[..., Tensor]]:
        """For exact inference: rows hold the embedding and, beside it, the first one."""

        def step(number: int) -> Callable[..., Tensor]:
            def call(
                x: Tensor, edge_index: Tensor, count: int, edge_weight: Tensor | None = None
            ) -> Tensor:
                if number == 0:
                    h = first = self.first(x).relu()
                else:
                    h, first = x.chunk(2, dim=1)
                h = self.convs[number](h, first, edge_index, edge_weight)[:count].relu()
                if number + 1 == len(self.convs):
                    scores: Tensor = self.last(h)
                    return scores
                return torch.cat([h, first[:count]], dim=1)

            return call

        return [step(number) for number in range(len(self.convs))]


# ---- batches in layers -------------------------------------------------------------------------


def _check_layers(layers: Sequence[Any], model: int) -> None:
    if len(layers) != model:
        raise InputError(
            f"the batch has {len(layers)} layers, but the model has {model}; pass as many layer "
            "sizes as the model has layers"
        )


class _LayeredSAGE(SAGE):
    """SAGE on batches in layers: sums by the sampler's weights, which stand for the mean."""

    def forward(self, batch: Any) -> Tensor:  # type: ignore[override]
        """Scores of the seeds."""
        _check_layers(batch.layers, len(self.layers))
        x: Tensor = batch.x.float()
        for number, part in enumerate(batch.layers):
            layer = cast(SAGEConv, self.layers[number])
            if number:
                x = functional.dropout(x.relu(), self.dropout, self.training)
            count, edges = part.size[1], part.edge_index
            messages = layer.neighbour(x)
            if part.weight is None:
                total = layer.mean(messages, edges, count)
            else:
                sent = messages.index_select(0, edges[0]) * part.weight[:, None]
                total = messages.new_zeros(count, messages.shape[1]).index_add_(0, edges[1], sent)
            x = layer.own(x[:count]) + total
        return x


def _layered_gcn() -> type[nn.Module]:
    from torch_geometric.nn import GCN

    class LayeredGCN(GCN):  # type: ignore[misc]
        """PyG's GCN on batches in layers."""

        def forward(self, batch: Any) -> Tensor:
            """Scores of the seeds."""
            _check_layers(batch.layers, len(self.convs))
            x: Tensor = batch.x.float()
            for number, (conv, part) in enumerate(zip(self.convs, batch.layers, strict=True)):
                if number:
                    x = self.dropout(self.act(x))
                x = conv(x, part.edge_index, part.weight)[: part.size[1]]
            return x

    return LayeredGCN
