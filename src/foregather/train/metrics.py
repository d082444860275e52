"""metrics: calls a model with a batch, and compares its scores with the labels.

Labels of one integer per node are classes (-1: missing, not counted); several columns of 0 and 1
are classes that a node may have at the same time (-1 and NaN: missing, not counted).
"""

import math
import warnings
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from foregather.errors import AccelerateWarning, ForegatherError, InputError
from foregather.graph.mapped import fetch, take
from foregather.nn.accelerated import Accelerated
from foregather.nn.arguments import call_arguments, parameters_of, takes_batch

__all__ = [
    "Labelled",
    "accuracy",
    "check_classes",
    "check_split",
    "check_valid",
    "count_classes",
    "count_known",
    "count_right",
    "forward",
    "has_labels",
    "loss_of",
    "plan_facts",
    "reads",
    "share",
    "wants_edge_attr",
]

Array = npt.NDArray[Any]

_ROWS = 1 << 20
_FEW_CLASSES = 1 << 16  # a graph may have fewer nodes than classes, up to this many


class Labelled(Protocol):
    """A graph, or the nodes of one type."""

    @property
    def labels(self) -> Array | None:
        """One row per node."""

    def split(self, name: str) -> npt.NDArray[np.int64]:
        """Node ids of a split; raises InputError if there is none."""


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


def loss_of(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy, or its binary form if a node may have several classes."""
    known = labels >= 0  # NaN is not
    if not bool(known.any()):  # a batch without labels contributes nothing
        return scores.sum() * 0.0
    if labels.ndim == 1:
        return functional.cross_entropy(scores, labels, ignore_index=-1)
    if not bool(known.all()):
        scores, labels = scores[known], labels[known]
    return functional.binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))


def count_right(scores: Tensor, labels: Tensor) -> float:
    """Number of correct nodes; with several classes per node, the sum of their correct shares."""
    if labels.ndim == 2:
        known = labels >= 0
        right = ((scores > 0) == (labels > 0.5)) & known
        return float((right.sum(dim=1) / known.sum(dim=1).clamp(min=1)).sum())
    return float((scores.argmax(dim=1) == labels).sum())


def count_known(labels: Tensor) -> float:
    """Number of nodes with a label; with several classes, with at least one of them."""
    known = labels >= 0
    return float((known.any(dim=1) if labels.ndim == 2 else known).sum())


def count_classes(graph: Labelled) -> int:
    """Number of score columns that the labels of a graph require.

    Raises:
        InputError: the graph has no labels, or labels that are not classes.
    """
    labels = graph.labels
    if labels is None:
        raise InputError("the graph has no labels; convert it with them to train on it")
    if labels.ndim == 2:
        _check_columns(labels)
        return int(labels.shape[1])
    if labels.dtype.kind not in "iu":
        raise InputError(f"the labels are {labels.dtype}, expected classes as whole numbers")
    most, least = -1, -1
    for first in range(0, len(labels), _ROWS):
        part = fetch(labels[first : first + _ROWS])
        most, least = max(most, int(np.max(part))), min(least, int(np.min(part)))
    if most < 0:
        raise InputError("every label is missing (-1), so there is nothing to learn from")
    if least < -1:
        raise InputError(
            f"the labels hold {least}, expected classes of at least 0, and -1 for missing"
        )
    if most >= max(_FEW_CLASSES, len(labels)):
        raise InputError(
            f"the labels hold class {most}, but there are only {len(labels)} nodes; number the "
            "classes from 0 without gaps"
        )
    return 1 + most


def _check_columns(labels: Array) -> None:
    """Checks that several columns of labels are classes: 0 or 1, or missing."""
    if labels.shape[1] == 0:
        raise InputError("the labels have no column, so there is nothing to learn from")
    known, step = False, max(1, _ROWS // labels.shape[1])
    for first in range(0, len(labels), step):
        part = fetch(labels[first : first + step])
        there = (part == 0) | (part == 1)
        known = known or bool(there.any())
        wrong = np.argwhere(~(there | (part == -1) | (part != part)))  # NaN alone is not itself
        if wrong.size:
            row, column = wrong[0]
            raise InputError(
                f"the labels hold {part[row, column]:g} for node {first + row}, column {column}, "
                "expected 0 or 1 in every column (classes that a node may have at the same time), "
                "and -1 or NaN for missing; regression is not supported yet"
            )
    if not known:
        raise InputError("every label is missing (-1 or NaN), so there is nothing to learn from")


def check_split(graph: Labelled, name: str) -> None:
    """Checks that a split has something to learn from.

    Raises:
        InputError: it has no nodes, or none with a label.
    """
    nodes = graph.split(name)
    if len(nodes) == 0:
        raise InputError(f"the split {name!r} has no nodes, so there is nothing to train on")
    if graph.labels is not None and not has_labels(graph, nodes):
        raise InputError(
            f"every node of the split {name!r} has a label that is missing, so there is "
            "nothing to learn from"
        )


def check_valid(graph: Labelled, name: str) -> None:
    """Checks that the split that chooses the best epoch has labels, if there is one.

    Raises:
        InputError: it has nodes, but none with a label.
    """
    try:
        nodes = graph.split(name)
    except InputError:
        return  # trained without
    if len(nodes) and not has_labels(graph, nodes):
        raise InputError(
            f"no node of the split {name!r} has a label, but it decides which epoch is best; name "
            'another split for train.valid, or "" to train without'
        )


def has_labels(graph: Labelled, nodes: npt.NDArray[np.int64]) -> bool:
    """Whether any of these nodes has a label."""
    labels = graph.labels
    if labels is None or labels.dtype.kind not in "if":
        return labels is not None and len(nodes) > 0
    parts = (nodes[first : first + _ROWS] for first in range(0, len(nodes), _ROWS))
    return any(bool((take(labels, part) >= 0).any()) for part in parts)


def share(right: float, known: float) -> float:
    """The share of labelled nodes; NaN if there are none."""
    return right / known if known else math.nan


def accuracy(scores: Array, labels: Array, nodes: npt.NDArray[np.int64]) -> float:
    """The share of labelled nodes whose class has the highest score; arrays may be mapped.

    NaN if no node has a label.
    """
    right = known = 0.0
    for first in range(0, len(nodes), _ROWS):
        part = np.sort(nodes[first : first + _ROWS])
        given = torch.from_numpy(take(labels, part))
        right += count_right(torch.from_numpy(take(scores, part)), given)
        known += count_known(given)
    return share(right, known)


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
    several = batch.y.ndim == 2
    if width < classes or (several and width != classes):
        raise InputError(
            f"the model gives {width} columns of scores, but the labels have {classes} classes; "
            f"make its last layer {classes} wide"
        )
    return reason


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def reads(loader: Any) -> dict[str, int]:
    """What a loader read from disk so far: bytes, requests (also of feature rows alone), hits.

    Over ranks, also what this rank sent for samples and feature rows, and where rows came from.
    """
    counters = loader.counters()
    if loader.ranks is not None:
        return _crossed(counters)
    parts = [counters.get(name, {}) for name in ("features", "topology", "edge_features")]
    found = {key: sum(int(part.get(key, 0)) for part in parts) for key in ("bytes", "requests")}
    found |= {f"feature_{key}": int(parts[0].get(key, 0)) for key in ("bytes", "requests")}
    return found | {key: int(parts[0].get(key, 0)) for key in ("rows", "hits")}


def _crossed(counters: dict[str, Any]) -> dict[str, int]:
    rows, disk = counters.get("rows", {}), counters.get("disk", {})
    sent = {
        f"sent_{name}": sum(int(entry["bytes"]) for entry in counters.get(name, {}).values())
        for name in ("sampling", "features")
    }
    found = {"sent": sum(sent.values()), **sent}
    found |= {key: int(disk.get(key, 0)) for key in ("bytes", "requests")}
    found["rows"] = sum(int(rows.get(name, 0)) for name in ("local", "hits", "misses"))
    return found | {name: int(rows.get(name, 0)) for name in ("local", "hits")}


def plan_facts(loader: Any) -> dict[str, Any]:
    """Totals of the plans of the last epoch: blocks, their lower bound, seconds."""
    planned = loader.planned()
    if planned is None:
        return {}
    reads, cost = planned
    facts: dict[str, Any] = {"blocks": reads.blocks, "predicted_bytes": cost.bytes}
    if reads.block_bound >= 0:
        facts["block_bound"] = reads.block_bound
    return facts | {"predicted_seconds": cost.seconds, "predicted_requests": cost.requests}
