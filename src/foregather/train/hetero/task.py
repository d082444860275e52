"""task: what a typed run learns: the target type, its labels and splits, and the times of seeds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.columns import to_times
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import about, find_node_type
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.mapped import hold
from foregather.train.metrics import check_split, check_valid
from foregather.train.settings import Settings
from foregather.train.tasks.goal import Goal, choose_goal
from foregather.train.trainers.unused_settings import check_named_splits

__all__ = ["TypedTask", "find_target", "find_typed_task", "seed_times"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TypedTask:
    """What is learned of the nodes of one type.

    Attributes:
        target: the node type.
        table: its nodes.
        goal: what is learned, and what it is rated by.
        times: the time of each node as a seed; None where times are not looked at.
    """

    target: str
    table: NodeTable
    goal: Goal
    times: Ids | None

    @property
    def classes(self) -> int:
        """Columns of scores."""
        return self.goal.task.width

    def at(self, nodes: Ids) -> Ids | None:
        """The times of these seeds."""
        return None if self.times is None else self.times[nodes]


def find_typed_task(graph: HeteroGraph, settings: Settings) -> TypedTask:
    """Finds what is to be learned, and checks that there is something to learn from.

    Raises:
        InputError: the type, its labels, its splits or its times are not there or not usable.
    """
    target = find_target(graph, settings)
    table = graph.nodes[target]
    with about(f"node type {target!r}"):
        if table.labels is None:
            raise InputError(
                "it has no labels to learn from; convert it with them, or name another type by "
                "typed.target"
            )
        goal = choose_goal(table, settings.train)
        check_split(table, settings.train.split, goal.task.known)
        check_named_splits(table, settings.train)
        check_valid(table, settings.train.valid, goal.task.known)
    return TypedTask(target, table, goal, seed_times(table, target, settings))


def find_target(graph: HeteroGraph, settings: Settings) -> str:
    """The node type to learn about.

    Raises:
        InputError: there is no such type, or none or several that could be meant.
    """
    wanted, split = settings.typed.target, settings.train.split
    if wanted:
        with about("typed.target"):
            return find_node_type(wanted, graph.nodes)
    labelled = [name for name, one in graph.nodes.items() if one.labels is not None]
    found = [name for name in labelled if _has_split(graph.nodes[name], split)]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise InputError(
            f"typed.target is not given, and several node types have labels and a split "
            f"{split!r}: {', '.join(map(repr, found))}; name one of them"
        )
    if labelled:
        raise InputError(
            f"no node type has labels and a split {split!r}; {_names(labelled)} has labels, but no "
            "such split: convert the graph with it, or name another by train.split"
        )
    raise InputError("no node type of the graph has labels; convert it with them to train on it")


def _names(types: list[str]) -> str:
    more = f" (and {len(types) - 1} more)" if len(types) > 1 else ""
    return f"{types[0]!r}{more}"


def _has_split(table: NodeTable, split: str) -> bool:
    try:
        table.split(split)
    except InputError:
        return False
    return True


def seed_times(table: NodeTable, target: str, settings: Settings) -> Ids | None:
    """The time of each node of the target type as a seed; None where times are not looked at.

    Raises:
        InputError: there are none, or no whole numbers.
    """
    wanted = settings.typed
    if wanted.time == "none":
        return None
    if not wanted.seed_time:
        if table.time is None:
            raise InputError(
                f"typed.time is {wanted.time!r}, but node type {target!r} has no times, so nothing "
                "says what its seeds may see; name an array of whole numbers by typed.seed_time, "
                "or leave typed.time out"
            )
        return hold(table.time)
    if wanted.seed_time not in table.features:
        there = ", ".join(table.features) or "none"
        raise InputError(
            f"typed.seed_time is {wanted.seed_time!r}, but node type {target!r} has no such array; "
            f"it has: {there}"
        )
    values: Any = hold(table.features[wanted.seed_time])
    with about("typed.seed_time"):
        return to_times(values, table.num_nodes, f"array {wanted.seed_time!r}", "node")
