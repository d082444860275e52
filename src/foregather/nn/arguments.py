"""arguments: which fields of a batch a model's `forward` gets, chosen by the names it takes.

A model whose `forward` has one argument, `batch`, gets the batch. Any other is called with `x,
edge_index` and with those of the optional fields that its `forward` names.
"""

import inspect
from collections.abc import Collection
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from foregather.errors import InputError
from foregather.loader.batches.first_sums import tie_sums
from foregather.nn.hop_order import fits, fits_typed
from foregather.nn.trimming import trims_alike

__all__ = [
    "COUNTS",
    "call_arguments",
    "count_of",
    "is_typed_batch",
    "optional_arguments",
    "parameters_of",
    "takes_batch",
    "typed_arguments",
]

#: Arguments that count sampled nodes and edges, and the batch fields they come from.
COUNTS = {
    "num_sampled_nodes": "num_sampled_nodes",
    "num_sampled_edges": "num_sampled_edges",
    "num_sampled_nodes_per_hop": "num_sampled_nodes",
    "num_sampled_edges_per_hop": "num_sampled_edges",
}
#: Optional arguments of a model, and the batch fields passed to them.
_OPTIONAL = {"edge_weight": "edge_weight", "edge_attr": "edge_attr", **COUNTS}
_takes: WeakKeyDictionary[nn.Module, dict[str, inspect.Parameter]] = WeakKeyDictionary()


def parameters_of(model: nn.Module) -> dict[str, inspect.Parameter]:
    """The parameters of a model's `forward`; of an accelerated one, of the model in it."""
    model = getattr(model, "accelerated_model", model)
    if model not in _takes:
        _takes[model] = dict(inspect.signature(model.forward).parameters)
    return _takes[model]


def count_of(name: str) -> str | None:
    """The counts that an argument or field of this name has, also by type; None if it has none."""
    return COUNTS.get(name.removesuffix("_dict"))


def is_typed_batch(value: Any) -> bool:
    """Whether a value is a batch with types: PyG's `HeteroData`."""
    return not isinstance(value, (torch.Tensor, dict, list, tuple)) and hasattr(value, "edge_items")


def takes_batch(model: nn.Module) -> bool:
    """Whether `forward` takes the batch itself, as its one argument."""
    return tuple(parameters_of(model)) == ("batch",)


def call_arguments(
    model: nn.Module, batch: Any, dtype: torch.dtype
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns what a model is called with for a batch: positional and named arguments.

    Args:
        model: the model.
        batch: a Batch, or a Data with the same fields; for a HeteroData, see `typed_arguments`.
        dtype: of features.

    Raises:
        InputError: the batch has layers and no `edge_index`, or `forward` needs a missing field.
    """
    if takes_batch(model):
        return (batch,), {}
    if is_typed_batch(batch):
        return typed_arguments(model, batch, dtype)
    if batch.edge_index is None:
        raise InputError(
            "the sampler expands per layer, so batches have layers and no edge_index; use "
            'expand="once", or a model whose forward takes the batch'
        )
    x = batch.x.to(dtype)
    if getattr(batch, "neighbor_sum", None) is not None:
        if not hasattr(model, "accelerated_model"):
            raise InputError(
                f"batches have sums in place of the rows of leaves, but {type(model).__name__} "
                "takes the rows of all nodes; use leaves='rows', accelerate(model), or a model "
                "whose forward takes the batch"
            )
        tie_sums(batch, x)
    return (x, batch.edge_index), optional_arguments(model, batch, dtype)


def optional_arguments(model: nn.Module, batch: Any, dtype: torch.dtype) -> dict[str, Any]:
    """The optional arguments that a model takes and a batch has.

    Raises:
        InputError: `forward` needs one that the batch does not have.
    """
    takes = parameters_of(model)
    given = {
        name: value
        for name, source in _OPTIONAL.items()
        if name in takes
        and getattr(model, f"supports_{name}", True)  # PyG's models name what they leave out
        and (value := getattr(batch, source, None)) is not None
    }
    if given.keys() & COUNTS.keys() and not fits(batch):
        given = {name: value for name, value in given.items() if name not in COUNTS}
        _refuse_needed(model, COUNTS)
    both = hasattr(model, "supports_edge_attr") and given.keys() >= {"edge_weight", "edge_attr"}
    joins = getattr(model, "jk_mode", None) not in (None, "last")
    hops = len(given.get("num_sampled_nodes_per_hop", ())) - 1
    fewer = getattr(model, "num_layers", 0) > hops  # a subgraph, whose edges all layers use
    if both or joins or fewer or hops == 0 or (hops > 0 and not trims_alike(model)):
        # PyG trims neither both nor what jumping knowledge joins; with one count there is nothing
        # to trim; and where trimming would change the scores of the seeds, it is not asked for
        given = {name: value for name, value in given.items() if "per_hop" not in name}
    for name in _OPTIONAL:
        if name in takes and name not in given and takes[name].default is takes[name].empty:
            raise InputError(
                f"{type(model).__name__} needs {name}, but the graph has none; convert the "
                "graph with it, or give the argument a default"
            )
    if "edge_attr" in given:
        given["edge_attr"] = given["edge_attr"].to(dtype)
    if "edge_weight" in given and dtype == torch.float64:
        given["edge_weight"] = given["edge_weight"].to(dtype)
    return given


def _refuse_needed(model: nn.Module, names: Collection[str]) -> None:
    """Refuses counts that do not fit for a model that cannot do without.

    Raises:
        InputError: `forward` has such an argument without a default.
    """
    for name, one in parameters_of(model).items():
        if name.removesuffix("_dict") in names and one.default is one.empty:
            raise InputError(
                f"{_name_of(model)} needs {name}, but the edges of the batch are not those that "
                "were sampled; leave them as they are in transforms, or give the argument a default"
            )


def _name_of(model: nn.Module) -> str:
    """The class of a model; of an accelerated one, of the model in it."""
    return type(getattr(model, "accelerated_model", model)).__name__


def typed_arguments(
    model: nn.Module, batch: Any, dtype: torch.dtype | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns what a model is called with for a typed batch: positional and named arguments.

    A model with one argument that is not `x` gets the batch. Any other gets, for each of its
    arguments, what the types or relations of the batch have under that name: `x_dict` or `x`,
    `edge_index_dict`, `edge_attr_dict`, `time_dict`, counts of sampled nodes and edges. The first
    two are `x` and `edge_index` where their names say nothing else.

    Args:
        model: the model.
        batch: a HeteroData.
        dtype: of features; None to leave them as they are.

    Raises:
        InputError: `forward` needs something that the batch does not have.
    """
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    takes = [one for one in parameters_of(model).values() if one.kind not in kinds]
    needed = [one for one in takes if one.default is one.empty]
    if len(needed) <= 1 and (not takes or takes[0].name.removesuffix("_dict") != "x"):
        return (batch,), {}
    given: dict[str, Any] = {}
    counted = not any(count_of(one.name) for one in takes) or fits_typed(batch)
    if not counted:
        _refuse_needed(model, COUNTS)
    for place, one in enumerate(takes):
        name = one.name.removesuffix("_dict")
        if not counted and name in COUNTS:
            continue
        usual = name != one.name or name in ("x", "edge_index", *_OPTIONAL)
        if not usual and place < 2 and one.default is one.empty:
            name, usual = ("x", "edge_index")[place], True
        found = batch.collect(COUNTS.get(name, name), allow_empty=True) if usual else {}
        if name in ("x", "edge_attr", "edge_weight") and dtype is not None:
            found = {
                key: value.to(dtype) if torch.is_floating_point(value) else value
                for key, value in found.items()
            }
        if found:
            given[one.name] = found
        elif one.default is one.empty:
            raise InputError(
                f"{_name_of(model)} needs {one.name}, but no type or relation of the batch "
                "has it; give the argument a default, or call the model with its arguments"
            )
    return (), given
