"""per_class: which classes a model takes for which, counted for the summary and the report.

Counts add up over parts of the nodes, so that scores may be mapped from disk.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.mapped import take
from foregather.train.metrics.metric import Array
from foregather.train.tasks.task import Task

__all__ = ["MOST_CLASSES", "count_classes"]

MOST_CLASSES = 200  # 40,000 counts at most: a summary stays small
_ROWS = 1 << 16


def count_classes(
    task: Task, split: str, scores: Array, labels: Array, nodes: npt.NDArray[np.int64]
) -> dict[str, Any]:
    """Nodes of a split by true and by predicted class.

    Args:
        task: of the run.
        split: its name.
        scores: a row for every node; may be mapped.
        labels: of every node.
        nodes: those of the split.

    Returns:
        `per_class` with the split and the counts; empty for other tasks and for many classes.
    """
    if task.name != "classification" or not 1 < task.width <= MOST_CLASSES:
        return {}
    counts: npt.NDArray[np.int64] = np.zeros((task.width, task.width), np.int64)
    for first in range(0, len(nodes), _ROWS):
        part = np.sort(nodes[first : first + _ROWS])
        true, given = task.labels(take(labels, part)), take(scores, part).argmax(axis=1)
        known = (true >= 0) & (true < task.width)
        np.add.at(counts, (true[known], given[known]), 1)
    return {"per_class": {"split": split, "counts": counts.tolist()}}
