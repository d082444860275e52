"""calls: calls a model with a batch, for the scores of its seeds."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from foregather.errors import AccelerateWarning, ForegatherError, InputError
from foregather.nn.accelerated import Accelerated
from foregather.nn.arguments import call_arguments, parameters_of, takes_batch

__all__ = ["check_classes", "check_width", "forward", "wants_edge_attr"]


def forward(
    model: nn.Module,
    batch: Any,
    parallel: nn.Module | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Scores of the seeds [batch_size, classes].

    A model whose `forward` has one argument, `batch`, gets the batch. Any other is called with
    `x, edge_index` and, if its `forward` names them, `edge_weight`, `edge_attr` and the counts
    of sampled nodes and edges (also under PyG's names, `..._per_hop`); features are of `dtype`.
    `parallel`, if given, is called instead of the model that it wraps.

    Raises:
        InputError: the scores do not have one row per node, or `forward` needs a missing field.
    """
    given, named = call_arguments(model, batch, dtype)
    scores = (model if parallel is None else parallel)(*given, **named)
    if not isinstance(scores, Tensor) or scores.ndim != 2 or len(scores) < batch.batch_size:
        shape = list(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise InputError(
            f"the model gave {shape} for a batch of {batch.batch_size} seeds, expected a tensor "
            "with one row of scores per node"
        )
    return scores[: batch.batch_size]


def wants_edge_attr(model: nn.Module) -> bool:
    """Whether a model may use edge features: `forward` names them, or takes the batch."""
    takes = parameters_of(model)
    named = "edge_attr" in takes or takes_batch(model)
    return named and bool(getattr(model, "supports_edge_attr", True))  # PyG's models say so


def check_classes(
    model: nn.Module, batch: Any, classes: int, fast: Accelerated | None = None
) -> str | None:
    """Calls the model once in evaluation mode, without changing weights or random states.

    Args:
        model: what is to be trained.
        batch: what it is called with.
        classes: the least number of columns.
        fast: the model, accelerated, which is called instead and proves itself for both modes.

    Returns:
        Why `fast` cannot be used; None if it can, or is not given.

    Raises:
        InputError: it cannot be called, or gives fewer columns than there are classes.
    """
    training, random = model.training, torch.get_rng_state()
    reason = None
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", AccelerateWarning)  # the caller says why
            model.eval()
            width = int(forward(model, batch, fast).shape[1])
            given, named = call_arguments(model, batch, torch.float32)
            for mode in (False, True):
                if fast is not None and reason is None:
                    model.train(mode)
                    reason = fast.prove(*given, **named)
    except ForegatherError:
        raise
    except (RuntimeError, ValueError, TypeError, AssertionError, LookupError) as error:
        edges = getattr(batch, "edge_attr", None)
        more = "" if edges is None else f" and {edges.shape[1]} of edges"
        raise InputError(
            f"{type(model).__name__} cannot be called with a batch of {batch.x.shape[1]} feature "
            f"columns{more}: {_first_line(error)}"
        ) from error
    finally:
        model.train(training)
        torch.set_rng_state(random)
    check_width(width, classes, exactly=batch.y.ndim == 2 or batch.y.is_floating_point())
    return reason


def check_width(width: int, classes: int, exactly: bool) -> None:
    """Checks the columns of scores that a model gives.

    Raises:
        InputError: there are too few, or others than there are columns of labels.
    """
    if width < classes or (exactly and width != classes):
        raise InputError(
            f"the model gives {width} columns of scores, but the labels have {classes} "
            f"{'columns' if exactly else 'classes'}; make its last layer {classes} wide"
        )


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
