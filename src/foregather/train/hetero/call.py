"""call: calls a typed model with a batch, and takes the scores and labels of its seeds.

A model whose `forward` has one argument, `batch` or `data`, gets the batch. Any other is called
with `x_dict, edge_index_dict` and, if its `forward` names them, other dicts of PyG's batches.
"""

from typing import Any

import torch
from torch import Tensor, nn

from foregather.errors import ForegatherError, InputError
from foregather.nn.arguments import parameters_of
from foregather.nn.hetero.model import TypedModel

__all__ = ["call_model", "check_call", "seed_labels", "seed_scores", "takes_whole_batch"]

#: What a model raises that is called with something else than it expects.
_NOT_CALLABLE = (
    *(RuntimeError, ValueError, TypeError),
    *(AssertionError, LookupError, AttributeError),
)
#: Optional arguments of `forward`, and the attribute that they collect from a batch.
_OPTIONAL = {
    "edge_attr_dict": "edge_attr",
    "edge_weight_dict": "edge_weight",
    "num_sampled_nodes_dict": "num_sampled_nodes",
    "num_sampled_edges_dict": "num_sampled_edges",
    "n_id_dict": "n_id",
    "batch_dict": "batch",
    "time_dict": "time",
}


def takes_whole_batch(model: nn.Module) -> bool:
    """Whether `forward` takes the batch itself, as its one argument."""
    return isinstance(model, TypedModel) or tuple(parameters_of(model)) in (("batch",), ("data",))


def call_model(model: nn.Module, batch: Any, target: str) -> Tensor:
    """Rows of scores for the nodes of the target type in a batch, the seeds first.

    Raises:
        InputError: the model gives something else, or needs what the batch does not have.
    """
    if takes_whole_batch(model):
        found = model(batch)
    else:
        x = {
            name: rows.to(torch.float32) if rows.dtype != torch.float32 else rows
            for name, rows in batch.collect("x", allow_empty=True).items()
        }
        found = model(x, batch.edge_index_dict, **_optional(model, batch))
    if isinstance(found, dict):
        if target not in found:
            there = ", ".join(map(repr, list(found)[:8])) or "none"
            raise InputError(
                f"{type(model).__name__} gives rows for {there}, but not for the node type "
                f"{target!r} that is classified; give it a relation into that type"
            )
        found = found[target]
    if not isinstance(found, Tensor) or found.ndim != 2:
        shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(
            f"{type(model).__name__} gave {shape}, expected a dict with a row of scores for each "
            f"node of type {target!r}, or that tensor"
        )
    return found


def _optional(model: nn.Module, batch: Any) -> dict[str, Any]:
    takes, given = parameters_of(model), {}
    for name, source in _OPTIONAL.items():
        if name not in takes:
            continue
        found = batch.collect(source, allow_empty=True)
        if not found and takes[name].default is takes[name].empty:
            raise InputError(
                f"{type(model).__name__} needs {name}, but nothing in the graph has {source}; "
                "convert the graph with it, or give the argument a default"
            )
        if found:
            given[name] = found
    return given


def seed_scores(model: nn.Module, batch: Any, target: str) -> Tensor:
    """Scores of the input rows of a batch [rows, columns].

    Raises:
        InputError: see `call_model`; or there are fewer rows than seeds.
    """
    scores, store = call_model(model, batch, target), batch[target]
    if len(scores) < store.batch_size:
        raise InputError(
            f"the model gave {len(scores)} rows for a batch of {store.batch_size} seeds, expected "
            f"a row for each node of type {target!r}"
        )
    return scores[_seeds(store)]


def seed_labels(batch: Any, target: str) -> Tensor:
    """Labels of the input rows of a batch."""
    labels: Tensor = batch[target].y[_seeds(batch[target])]
    return labels


def _seeds(store: Any) -> Any:
    """Where the input rows of a batch are among the nodes of their type."""
    found = store.get("seed_position")
    return slice(store.batch_size) if found is None else found


def check_call(model: nn.Module, batch: Any, target: str, classes: int) -> None:
    """Calls the model once in evaluation mode; parameters without a size get theirs.

    Raises:
        InputError: it cannot be called, gives fewer columns than there are classes, or has
            parameters that still have no size.
    """
    training = model.training
    try:
        with torch.no_grad():
            model.eval()
            width = int(seed_scores(model, batch, target).shape[1])
    except ForegatherError:
        raise
    except _NOT_CALLABLE as error:
        lines = str(error).splitlines()
        bare = [name for name in batch.node_types if "x" not in batch[name]]
        hint = f" ({', '.join(map(repr, bare))} has no array x)" if bare else ""
        raise InputError(
            f"{type(model).__name__} cannot be called with a batch of "
            f"{', '.join(batch.node_types)}: {lines[0] if lines else type(error).__name__}{hint}"
        ) from error
    finally:
        model.train(training)
    bare = [
        name
        for name, weight in model.named_parameters()
        if isinstance(weight, nn.parameter.UninitializedParameter)
    ]
    if bare:
        raise InputError(
            f"the first batch did not say how large {bare[0]} of {type(model).__name__} is, since "
            "it was not called; does every node type that it uses have an array x?"
        )
    labels = batch[target].get("y")
    several = labels is not None and labels.ndim == 2
    if width < classes or (several and width != classes):
        raise InputError(
            f"the model gives {width} columns of scores, but the labels have {classes} classes; "
            f"make its last layer {classes} wide"
        )
