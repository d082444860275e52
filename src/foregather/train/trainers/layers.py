"""layers: from settings to the layers of a full-graph run."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from foregather.errors import InputError
from foregather.nn import gcn_layers, gcnii_layers, resgcn_layers, sage_layers
from foregather.train.settings import Settings
from foregather.train.settings.from_settings import count_layers
from foregather.train.settings.import_name import import_name

__all__ = ["make_layers"]


def make_layers(settings: Settings, width: int, classes: int) -> list[nn.Module]:
    """Makes the layers for a feature width and a number of classes; weights come from the seed.

    Raises:
        InputError: nobody knows the model, or it cannot be made with these options.
    """
    wanted, depth = settings.model, count_layers(settings)
    torch.manual_seed(settings.train.seed)
    if ":" in wanted.kind:
        return _own_layers(settings, width, classes)
    if wanted.options:
        raise InputError(f"model.options is for module:function; {wanted.kind} takes none")
    hidden, dropout = wanted.hidden, wanted.dropout
    if wanted.kind in ("gcn", "sage"):
        make = gcn_layers if wanted.kind == "gcn" else sage_layers
        return [*make([width, *[hidden] * (depth - 1), classes], dropout)]
    if wanted.kind == "gcnii":
        return [*gcnii_layers(width, hidden, classes, depth, dropout=dropout)]
    if wanted.kind == "resgcn":
        return [*resgcn_layers(width, hidden, classes, depth, dropout)]
    raise InputError(
        f"model.kind is {wanted.kind!r}, expected gcn, sage, gcnii, resgcn, or module:function "
        "that makes layers, where train.method is full-graph"
    )


def _own_layers(settings: Settings, width: int, classes: int) -> list[nn.Module]:
    """Layers that a function of the user makes; what it calls by PyG's names is filled in."""
    wanted = settings.model
    make = import_name(wanted.kind, "model.kind")
    common: dict[str, Any] = {
        "in_channels": width,
        "hidden_channels": wanted.hidden,
        "num_layers": count_layers(settings),
        "out_channels": classes,
        "dropout": wanted.dropout,
    }
    try:
        takes = set(inspect.signature(make).parameters)
        made = make(**{k: v for k, v in common.items() if k in takes} | wanted.options)
    except (TypeError, ValueError) as error:
        raise InputError(f"{wanted.kind} cannot be called: {error}") from error
    layers = [*made] if isinstance(made, (Sequence, nn.ModuleList, nn.Sequential)) else []
    if not layers or not all(isinstance(layer, nn.Module) for layer in layers):
        raise InputError(f"model.kind is {wanted.kind}, which makes no list of layers")
    return layers
