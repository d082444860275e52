"""find: the task of a run, as the settings name it or as the labels suggest."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import FormatError, InputError
from foregather.graph.mapped import fetch, take
from foregather.train.metrics.labels import Labelled, check_columns, count_classes
from foregather.train.metrics.metric import Array
from foregather.train.tasks.classes import Classification, Multilabel
from foregather.train.tasks.numbers import Loss, Regression, to_numbers
from foregather.train.tasks.task import Task

__all__ = ["TASKS", "find_task", "guess_task", "task_from"]

#: Tasks by name, with a line for people.
TASKS = {
    "auto": "by the labels: whole numbers are classes, columns of 0 and 1 labels, others numbers",
    "classification": "one class per node: whole numbers from 0 on",
    "multilabel": "several labels per node: columns of 0 and 1",
    "regression": "one or more numbers per node, standardised for the loss",
    "link": "which nodes are linked",
}
_ROWS = 1 << 20
_MOST_COLUMNS = 1 << 20


def guess_task(labels: Array) -> str:
    """The task that labels suggest."""
    if labels.ndim == 1:
        return "regression" if labels.dtype.kind == "f" else "classification"
    if labels.dtype.kind != "f":
        return "multilabel"
    step = max(1, _ROWS // max(1, labels.shape[1]))
    for first in range(0, len(labels), step):
        part = fetch(labels[first : first + step])
        if not ((part == 0) | (part == 1) | (part == -1) | (part != part)).all():
            return "regression"
    return "multilabel"


def find_task(
    graph: Labelled,
    nodes: npt.NDArray[np.int64],
    wanted: str = "auto",
    loss: str = "auto",
) -> Task:
    """The task of nodes that a graph's labels are for.

    Args:
        graph: a graph, or the nodes of one type.
        nodes: those of the training split, whose numbers regression standardises by.
        wanted: its name in settings.
        loss: of regression: auto, l2, l1 or huber.

    Raises:
        InputError: there are no labels, or they do not fit; the message says which task they fit.
    """
    labels = graph.labels
    if labels is None:
        raise InputError("the graph has no labels; convert it with them to train on it")
    if labels.ndim > 2 or labels.dtype.kind not in "iuf":
        shape = " x ".join(map(str, labels.shape))
        raise InputError(
            f"the labels are {labels.dtype} [{shape}], expected a number or a row of numbers per "
            "node"
        )
    name = guess_task(labels) if wanted == "auto" else wanted
    if loss != "auto" and name != "regression":
        raise InputError(
            f"train.loss is {loss!r}, which is for regression, but the task is {name}; leave it out"
        )
    if name == "regression":
        return _find_numbers(labels, nodes, "l2" if loss == "auto" else loss)
    columns = labels.ndim == 2
    if name == "classification":
        if columns:
            raise InputError(
                f"train.task is 'classification', but the labels have {labels.shape[1]} columns, "
                "expected one class per node; use multilabel (columns of 0 and 1) or regression"
            )
        return Classification(count_classes(graph))
    if name != "multilabel":
        raise InputError(
            f"train.task is {name!r}, but the labels of nodes are for classification, multilabel "
            "or regression"
        )
    if not columns:
        raise InputError(
            "train.task is 'multilabel', but the labels are one per node, expected columns of 0 "
            "and 1; use classification or regression"
        )
    check_columns(labels)
    return Multilabel(int(labels.shape[1]))


def _find_numbers(labels: Array, nodes: npt.NDArray[np.int64], loss: Any) -> Regression:
    """Regression, standardised by the labels of the training split."""
    if labels.ndim == 2 and not 0 < labels.shape[1] <= _MOST_COLUMNS:
        raise InputError(f"the labels have {labels.shape[1]} columns, so nothing can be learned")
    for first in range(0, len(labels), _ROWS):
        part = fetch(labels[first : first + _ROWS])
        if labels.dtype.kind == "f" and np.isinf(part).any():
            node = first + int(np.argwhere(np.isinf(part))[0][0])
            raise InputError(
                f"the label of node {node} is infinite, expected numbers, and NaN for missing"
            )
    width = 1 if labels.ndim == 1 else labels.shape[1]
    numbers = to_numbers(take(labels, nodes)).reshape(len(nodes), width)
    means, scales = [], []
    for column in numbers.T:
        known = column[~np.isnan(column)]
        means.append(float(known.mean()) if len(known) else 0.0)
        spread = float(known.std()) if len(known) else 0.0
        scales.append(spread if spread > 0 else 1.0)
    return Regression(tuple(means), tuple(scales), loss)


def task_from(facts: Mapping[str, Any]) -> Task:
    """The task with these facts, as a run has written them.

    Raises:
        FormatError: they are damaged.
    """
    try:
        name, width = facts["name"], facts["width"]
        if type(width) is not int or not 0 < width <= 1 << 62:
            raise ValueError(f"width is {width!r}")
        if name == "classification":
            return Classification(width)
        if name == "multilabel":
            return Multilabel(width)
        if name != "regression":
            raise ValueError(f"there is no task {name!r}")
        mean, scale = (tuple(float(one) for one in facts[key]) for key in ("mean", "scale"))
        loss: Loss = facts["loss"]
        sound = all(map(np.isfinite, (*mean, *scale))) and all(one > 0 for one in scale)
        if loss not in ("l2", "l1", "huber") or not len(mean) == len(scale) == width or not sound:
            raise ValueError("its numbers are impossible")
        return Regression(mean, scale, loss)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the task of the run is damaged: {error}; train again") from error
