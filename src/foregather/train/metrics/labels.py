"""labels: what the labels of a graph are, and whether there is something to learn from.

Labels of one integer per node are classes (-1: missing, not counted); several columns of 0 and 1
are classes that a node may have at the same time (-1 and NaN: missing, not counted); others are
numbers (NaN: missing).
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional

from foregather.errors import InputError
from foregather.graph.mapped import fetch, take
from foregather.train.metrics.labels_right import ACCURACY
from foregather.train.metrics.metric import Array

__all__ = [
    "Labelled",
    "accuracy",
    "check_columns",
    "check_split",
    "check_valid",
    "count_classes",
    "has_labels",
    "loss_of",
]

Known = Callable[[Array], npt.NDArray[np.bool_]]

_ROWS = 1 << 20
_FEW_CLASSES = 1 << 16  # a graph may have fewer nodes than classes, up to this many


class Labelled(Protocol):
    """A graph, or the nodes of one type."""

    @property
    def labels(self) -> Array | None:
        """One row per node."""

    @property
    def splits(self) -> Iterable[str]:
        """Names of the splits."""

    def split(self, name: str) -> npt.NDArray[np.int64]:
        """Node ids of a split; raises InputError if there is none."""


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


def count_classes(graph: Labelled) -> int:
    """Number of score columns that the labels of a graph require.

    Raises:
        InputError: the graph has no labels, or labels that are not classes.
    """
    labels = graph.labels
    if labels is None:
        raise InputError("the graph has no labels; convert it with them to train on it")
    if labels.ndim == 2:
        check_columns(labels)
        return int(labels.shape[1])
    if labels.dtype.kind not in "iu":
        raise InputError(
            f"the labels are {labels.dtype}, expected classes as whole numbers; or set train.task "
            "to regression"
        )
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


def check_columns(labels: Array) -> None:
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
                "and -1 or NaN for missing; or set train.task to regression"
            )
    if not known:
        raise InputError("every label is missing (-1 or NaN), so there is nothing to learn from")


def check_split(graph: Labelled, name: str, known: Known | None = None) -> None:
    """Checks that a split has something to learn from.

    Raises:
        InputError: it has no nodes, or none with a label.
    """
    nodes = graph.split(name)
    if len(nodes) == 0:
        raise InputError(f"the split {name!r} has no nodes, so there is nothing to train on")
    if graph.labels is not None and not has_labels(graph, nodes, known):
        raise InputError(
            f"every node of the split {name!r} has a label that is missing, so there is "
            "nothing to learn from"
        )


def check_valid(graph: Labelled, name: str, known: Known | None = None) -> None:
    """Checks that the split that chooses the best epoch has labels, if there is one.

    Raises:
        InputError: it has nodes, but none with a label.
    """
    try:
        nodes = graph.split(name)
    except InputError:
        return  # trained without
    if len(nodes) and not has_labels(graph, nodes, known):
        raise InputError(
            f"no node of the split {name!r} has a label, but it decides which epoch is best; name "
            'another split for train.valid, or "" to train without'
        )


def has_labels(graph: Labelled, nodes: npt.NDArray[np.int64], known: Known | None = None) -> bool:
    """Whether any of these nodes has a label, by `Task.known`; None: of classes."""
    labels = graph.labels
    if labels is None:
        return False
    is_known = known or (lambda rows: rows >= 0)
    parts = (nodes[first : first + _ROWS] for first in range(0, len(nodes), _ROWS))
    return any(bool(is_known(take(labels, part)).any()) for part in parts)


def accuracy(scores: Array, labels: Array, nodes: npt.NDArray[np.int64]) -> float:
    """The share of labels that are right, as the metric of this name; arrays may be mapped.

    NaN if no node has a label.
    """
    found = ACCURACY.start()
    for first in range(0, len(nodes), _ROWS):
        part = np.sort(nodes[first : first + _ROWS])
        found.update(take(scores, part), take(labels, part))
    return found.value()
