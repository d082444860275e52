"""goal: a task and the metric that rates it; what training, evaluation and inference share."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import FormatError, InputError
from foregather.graph.mapped import take
from foregather.train.metrics.by_name import find_metric, fitting_metrics
from foregather.train.metrics.labels import Labelled, has_labels
from foregather.train.metrics.metric import Accumulator, Array, Metric, to_array
from foregather.train.tasks.classes import Classification, Multilabel
from foregather.train.tasks.find import find_task, task_from
from foregather.train.tasks.task import Task

__all__ = ["Goal", "choose_goal", "choose_metric", "goal_of_run"]

Nodes = npt.NDArray[np.int64]

_ROWS = 1 << 20
_RANKED = ("roc_auc", "average_precision")


@dataclass(frozen=True)
class Goal:
    """What a run learns, and what it is rated by.

    Attributes:
        task: loss, columns of scores and labels.
        metric: decides which epoch is best.
    """

    task: Task
    metric: Metric

    def add(self, to: Accumulator, scores: Any, labels: Any) -> None:
        """Adds what a model gave for some nodes, and their labels, to an accumulator."""
        to.update(self.task.finish(scores), self.task.labels(to_array(labels)))

    def rate(self, scores: Array, labels: Array) -> float:
        """The metric of what a model gave; NaN where nothing can be compared."""
        found = self.metric.start()
        self.add(found, scores, labels)
        return found.value()

    def rate_nodes(self, scores: Array, labels: Array, nodes: Nodes) -> float:
        """The metric of some nodes, where arrays have a row for every node and may be mapped."""
        found = self.metric.start()
        for part in _parts(nodes):
            self.add(found, take(scores, part), take(labels, part))
        return found.value()

    def baselines(self, graph: Labelled, split: str, nodes: Mapping[str, Nodes]) -> dict[str, Any]:
        """What the best constant answer reaches, by split, and what it is.

        Args:
            graph: a graph, or the nodes of one type.
            split: the training split, the only one whose labels the answer depends on.
            nodes: those of each split that is rated.

        Returns:
            `baseline` by split and `baseline_is`; empty if the training split has no labels here.
        """
        labels = graph.labels
        try:
            train = graph.split(split)
        except InputError:
            return {}
        if labels is None or not has_labels(graph, train, self.task.known):
            return {}
        answer = self.task.baseline(self.metric, take(labels, train))
        found = {
            name: answer.of(self.metric, self.task.labels(take(labels, ids)))
            for name, ids in nodes.items()
        }
        return {"baseline": found, "baseline_is": answer.name}

    def describe(self, by_labels: bool) -> str:
        """For people, at the start of a run."""
        why = ", by the labels" if by_labels else ""
        better = "larger" if self.metric.higher_is_better else "smaller"
        rated = f"rated by {self.metric.name}, {better} is better"
        return f"task      {self.task.describe()}{why}; {rated}"

    def rate_splits(self, graph: Labelled, scores: Array, split: str) -> dict[str, Any]:
        """The metric of every split of a graph that has labels, next to the baseline.

        Args:
            graph: a graph, or the nodes of one type.
            scores: in the unit of the labels, one row per node; may be mapped.
            split: the training split.

        Returns:
            `scores` by split, `baseline` (see `baselines`), `not_scored`, and names.
        """
        facts: dict[str, Any] = {**self.facts(), "scores": {}}
        labels = graph.labels
        if labels is None or not self.task.fits(labels):
            return facts
        nodes = {name: graph.split(name) for name in graph.splits}
        nodes = {
            name: ids for name, ids in nodes.items() if has_labels(graph, ids, self.task.known)
        }
        for name, ids in nodes.items():
            found = self.metric.start()
            for part in _parts(ids):
                found.update(take(scores, part), self.task.labels(take(labels, part)))
            if not math.isnan(value := found.value()):
                facts["scores"][name] = value
        rated = {name: ids for name, ids in nodes.items() if name in facts["scores"]}
        if bare := [name for name in graph.splits if name not in rated]:
            facts["not_scored"] = bare
        return facts | (self.baselines(graph, split, rated) if rated else {})

    def facts(self) -> dict[str, Any]:
        """Names, for every output."""
        return {"task": self.task.name, "metric": self.metric.name}


def _parts(nodes: Nodes) -> Iterator[Nodes]:
    """Some of the nodes at a time, in an order that files are read in."""
    for first in range(0, len(nodes), _ROWS):
        yield np.sort(nodes[first : first + _ROWS])


def choose_goal(graph: Labelled, train: Any) -> Goal:
    """The goal of a run.

    Args:
        graph: a graph, or the nodes of one type.
        train: its `TrainSettings`.

    Raises:
        InputError: labels, task and metric do not fit; the message says what does.
    """
    task = find_task(graph, graph.split(train.split), train.task, train.loss)
    metric = choose_metric(task, train.metric)
    for key in ("valid", "test"):
        _check_split(graph, task, metric, key, getattr(train, key))
    return Goal(task, metric)


def goal_of_run(facts: Mapping[str, Any], train: Any, labels: Array | None) -> Goal:
    """The goal that a run had.

    Args:
        facts: of its environment.
        train: its `TrainSettings`.
        labels: of the graph at hand: runs of release 0.1 do not say whether theirs had columns.

    Raises:
        FormatError: its facts are damaged.
    """
    if "task" in facts:
        task = task_from(facts["task"])
    else:
        several = labels is not None and labels.ndim == 2
        width = int(facts["model"]["classes"])
        task = Multilabel(width) if several else Classification(width)
    try:
        return Goal(task, find_metric(str(facts.get("metric", train.metric)), task.name))
    except InputError as error:
        raise FormatError(f"the metric of the run is damaged: {error}") from error


def choose_metric(task: Task, name: str = "auto") -> Metric:
    """The metric of this name for a task.

    Raises:
        InputError: it does not fit.
    """
    metric = find_metric(task.metric if name == "auto" else name, task.name)
    if metric.name in _RANKED and task.name == "classification" and task.width != 2:
        other = ", ".join(one for one in fitting_metrics(task.name) if one not in _RANKED)
        raise InputError(
            f"train.metric is {name!r}, which is for two classes, but the labels have "
            f"{task.width}; use one of {other}"
        )
    return metric


def _check_split(graph: Labelled, task: Task, metric: Metric, key: str, split: str) -> None:
    """Refuses a split on which the metric has no value; one without any label is not rated."""
    try:
        nodes = graph.split(split) if split else np.zeros(0, np.int64)
    except InputError:
        return
    if graph.labels is None or not has_labels(graph, nodes, task.known):
        return
    if why := metric.unfit(task.labels(take(graph.labels, nodes))):
        raise InputError(
            f"train.metric is {metric.name!r}, but in the split {split!r} {why}; name another by "
            f"train.{key}, or use {task.metric}"
        )
