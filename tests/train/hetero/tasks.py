"""tasks: classes to be learned, for tests of what only asks how many there are."""

from foregather.graph.hetero.graph import HeteroGraph
from foregather.train.hetero.task import TypedTask
from foregather.train.metrics import find_metric
from foregather.train.tasks.classes import Classification
from foregather.train.tasks.goal import Goal

__all__ = ["classes_of"]


def classes_of(graph: HeteroGraph, target: str, classes: int) -> TypedTask:
    """So many classes of the nodes of a type, without times."""
    goal = Goal(Classification(classes), find_metric("accuracy", "classification"))
    return TypedTask(target, graph.nodes[target], goal, None)
