"""by_name: typed models by the names that settings use: rgcn, hetero-sage, hgt."""

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from foregather.errors import InputError
from foregather.loader.batches.pyg_batch import need_pyg
from foregather.nn.hetero.hgt import HGTLayer
from foregather.nn.hetero.model import TypedModel
from foregather.nn.hetero.rgcn import RGCNLayer
from foregather.nn.hetero.sage import SAGELayer
from foregather.nn.hetero.schema import Schema

__all__ = ["TYPED_MODELS", "make_typed_layers", "make_typed_model"]

_LAYERS: dict[str, type[nn.Module]] = {
    "hetero-sage": SAGELayer,
    "hgt": HGTLayer,
    "rgcn": RGCNLayer,
}
#: Names of the models.
TYPED_MODELS = tuple(_LAYERS)


def make_typed_model(
    kind: str,
    schema: Schema,
    hidden: int,
    layers: int,
    dropout: float = 0.0,
    options: Mapping[str, Any] | None = None,
) -> TypedModel:
    """Makes a model by name.

    Args:
        kind: rgcn, hetero-sage or hgt.
        schema: what it is made for.
        hidden: columns of rows between layers.
        layers: number of layers.
        dropout: share of values dropped in training.
        options: of its layers: bases (rgcn), aggr (hetero-sage), heads (hgt).

    Raises:
        InputError: there is no such model, or it does not take these options.
        MissingDependencyError: PyG is not installed.
    """
    return TypedModel(
        schema, make_typed_layers(kind, schema, hidden, layers, options), hidden, dropout
    )


def make_typed_layers(
    kind: str,
    schema: Schema,
    hidden: int,
    layers: int,
    options: Mapping[str, Any] | None = None,
) -> list[nn.Module]:
    """Makes the layers of a model by name; arguments and errors as of `make_typed_model`."""
    if kind not in _LAYERS:
        raise InputError(
            f"the model is {kind!r}, expected {', '.join(TYPED_MODELS)} or module:Class"
        )
    need_pyg(f"the model {kind}")
    made, given = _LAYERS[kind], dict(options or {})
    takes = list(inspect.signature(made).parameters)[2:]
    for name in given:
        if name not in takes:
            raise InputError(f"model.options has {name}, but {kind} takes {', '.join(takes)}")
    if kind == "rgcn" and not (type(given.get("bases", 0)) is int and given.get("bases", 0) >= 0):
        raise InputError(f"model.options has bases = {given['bases']!r}, expected a count")
    try:
        return [made(schema, hidden, **given) for _ in range(layers)]
    except (TypeError, ValueError, AssertionError, ZeroDivisionError) as error:
        raise InputError(f"{kind} cannot be made with {given} and hidden {hidden}: {error}") from (
            error
        )
