"""call: calls a typed model with a batch, and takes the scores and labels of its seeds.

A model whose `forward` has one argument, not called `x`, gets the batch. Any other is called with
`x_dict, edge_index_dict` and, if its `forward` names them, other dicts of PyG's batches.
"""

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from foregather.errors import AccelerateWarning, ForegatherError, InputError
from foregather.nn.accelerated import Accelerated
from foregather.nn.arguments import parameters_of, typed_arguments
from foregather.nn.hetero.model import TypedModel

__all__ = [
    "call_model",
    "check_call",
    "prove_call",
    "seed_labels",
    "seed_scores",
    "takes_whole_batch",
]

#: What a model raises that is called with something else than it expects.
_NOT_CALLABLE = (
    *(RuntimeError, ValueError, TypeError),
    *(AssertionError, LookupError, AttributeError),
)


def takes_whole_batch(model: nn.Module) -> bool:
    """Whether `forward` takes the batch itself, as its one argument."""
    takes = tuple(parameters_of(model))
    return isinstance(model, TypedModel) or (len(takes) == 1 and takes[0] not in ("x", "x_dict"))


def call_model(
    model: nn.Module, batch: Any, target: str, fast: Accelerated | None = None
) -> Tensor:
    """Rows of scores for the nodes of the target type in a batch, the seeds first.

    Args:
        model: the model.
        batch: a HeteroData.
        target: the node type.
        fast: the model, accelerated, which is called instead.

    Raises:
        InputError: the model gives something else, or needs what the batch does not have.
    """
    if takes_whole_batch(model):
        found = (fast or model)(batch)
    else:
        given, named = typed_arguments(model, batch, torch.float32)
        found = (fast or model)(*given, **named)
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


def seed_scores(
    model: nn.Module, batch: Any, target: str, fast: Accelerated | None = None
) -> Tensor:
    """Scores of the input rows of a batch [rows, columns]; arguments as of `call_model`.

    Raises:
        InputError: see `call_model`; or there are fewer rows than seeds.
    """
    scores, store = call_model(model, batch, target, fast), batch[target]
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


def prove_call(model: nn.Module, fast: Accelerated, batch: Any) -> str | None:
    """Has an accelerated model prove itself for calls with batches like this, in both modes.

    Weights, modes and random states stay as they are.

    Returns:
        Why it cannot be used; None if it can.
    """
    training, random, reason = model.training, torch.get_rng_state(), None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccelerateWarning)  # the caller says why
            given: tuple[Any, ...] = (batch,)
            named: dict[str, Any] = {}
            if not takes_whole_batch(model):
                given, named = typed_arguments(model, batch, torch.float32)
            for mode in (False, True):
                if reason is None:
                    model.train(mode)
                    reason = fast.prove(*given, **named)
    finally:
        model.train(training)
        torch.set_rng_state(random)
    return reason


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
