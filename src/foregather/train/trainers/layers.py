"""layers: from settings to the model of a full-graph run: a module, or a list of layers."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from foregather.errors import InputError
from foregather.nn import gcn_layers, gcnii_layers, resgcn_layers, sage_layers
from foregather.nn.by_name import ModelShape, make_plain_model
from foregather.train.settings import Settings
from foregather.train.settings.from_settings import count_layers, own_model
from foregather.train.settings.import_name import import_name

__all__ = ["make_full_model"]

_LISTS = ("gcn", "sage", "gcnii", "resgcn")
_MODULES = ("gat", "gin")


def make_full_model(settings: Settings, width: int, classes: int) -> nn.Module | list[nn.Module]:
    """Makes the model for a feature width and a number of classes; weights come from the seed.

    Raises:
        InputError: nobody knows the model, or it cannot be made with these options.
    """
    wanted, depth = settings.model, count_layers(settings)
    torch.manual_seed(settings.train.seed)
    if ":" in wanted.kind:
        return _own(settings, width, classes)
    if wanted.kind in _MODULES:
        shape = ModelShape(width, wanted.hidden, classes, depth, wanted.dropout)
        return make_plain_model(wanted.kind, shape, wanted.options)
    if wanted.kind in _LISTS and wanted.options:
        raise InputError(
            f"model.options is for module:Class, {' and '.join(_MODULES)}; {wanted.kind} takes none"
        )
    hidden, dropout = wanted.hidden, wanted.dropout
    if wanted.kind in ("gcn", "sage"):
        make = gcn_layers if wanted.kind == "gcn" else sage_layers
        return [*make([width, *[hidden] * (depth - 1), classes], dropout)]
    if wanted.kind == "gcnii":
        return [*gcnii_layers(width, hidden, classes, depth, dropout=dropout)]
    if wanted.kind == "resgcn":
        return [*resgcn_layers(width, hidden, classes, depth, dropout)]
    raise InputError(
        f"model.kind is {wanted.kind!r}, expected {', '.join((*_LISTS, *_MODULES))}, or "
        "module:Class, or module:function that makes a model or layers, where train.method is "
        "full-graph"
    )


def _own(settings: Settings, width: int, classes: int) -> nn.Module | list[nn.Module]:
    """What a class or function of the user makes; what it calls by PyG's names is filled in."""
    wanted = settings.model
    make = import_name(wanted.kind, "model.kind")
    common: dict[str, Any] = {
        "in_channels": width,
        "hidden_channels": wanted.hidden,
        "num_layers": count_layers(settings),
        "out_channels": classes,
        "dropout": wanted.dropout,
    }
    if inspect.isclass(make):
        return own_model(wanted, common)
    try:
        takes = set(inspect.signature(make).parameters)
        made = make(**{k: v for k, v in common.items() if k in takes} | wanted.options)
    except (TypeError, ValueError) as error:
        raise InputError(f"{wanted.kind} cannot be called: {error}") from error
    if isinstance(made, nn.Module) and not isinstance(made, (nn.ModuleList, nn.Sequential)):
        return made
    layers = [*made] if isinstance(made, (Sequence, nn.ModuleList, nn.Sequential)) else []
    if not layers or not all(isinstance(layer, nn.Module) for layer in layers):
        raise InputError(f"model.kind is {wanted.kind}, which makes no model and no list of layers")
    return layers
