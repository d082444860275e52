"""sides: batches of one task from foregather, from PyG's NeighborLoader, or the whole graph.

The loaders get the same arguments. Every batch of either is looked through: its rows are those that
were asked about, their labels are theirs, and no tree sees what it may not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from common.training import forever

from foregather import HeteroLoader

from .task import Task

__all__ = ["Ours", "Pyg", "Seen", "Side", "checked", "whole"]


@dataclass
class Seen:
    """How many batches, and nodes in them, were looked through."""

    batches: int = 0
    nodes: int = 0


class Side:
    """A task as one of the libraries loads it.

    Args:
        task: the task.
        strategy: "uniform" or "last", for times.
        seen: counts what was looked through.
    """

    def __init__(self, task: Task, strategy: str, seen: Seen) -> None:
        self.task, self.strategy, self.seen = task, strategy, seen

    def arguments(self, part: str, train: bool) -> dict[str, Any]:
        """What both loaders are given."""
        task = self.task
        given: dict[str, Any] = {
            "num_neighbors": list(task.fanout),
            "input_nodes": (task.target, torch.from_numpy(task.split[part])),
            "batch_size": task.batch_size,
            "shuffle": train,
        }
        if task.level is not None:
            given["input_time"] = torch.from_numpy(task.times(part))
            given["time_attr"] = "time"
            given["temporal_strategy"] = self.strategy
        return given

    def loader(self, part: str, seed: int, train: bool) -> Any:
        """Batches of a part."""
        raise NotImplementedError

    def batches(self, part: str, seed: int, train: bool = True) -> Iterator[Any]:
        """Batches of a part, each looked through; for training, of one epoch after the other."""
        made = self.loader(part, seed, train)
        for batch in forever(made) if train else made:
            yield checked(batch, self.task, part, self.seen)


class Ours(Side):
    """Foregather's."""

    def loader(self, part: str, seed: int, train: bool) -> Any:
        """A HeteroLoader."""
        return HeteroLoader(self.task.graph, seed=seed, **self.arguments(part, train))


class Pyg(Side):
    """PyG's, with pyg-lib."""

    def loader(self, part: str, seed: int, train: bool) -> Any:
        """A NeighborLoader; it draws from torch's global generator, whose state the run set."""
        from torch_geometric.loader import NeighborLoader

        return NeighborLoader(self.task.graph.to_pyg(), **self.arguments(part, train))


def whole(task: Task) -> Any:
    """The whole graph as a batch."""
    data = task.graph.to_pyg()
    for name in data.node_types:
        data[name].n_id = torch.arange(task.graph.nodes[name].num_nodes)
    return data


def checked(batch: Any, task: Task, part: str, seen: Seen) -> Any:
    """The batch, if it is what was asked for.

    Raises:
        SystemExit: it is not.
    """
    own, ids = batch[task.target], torch.from_numpy(task.split[part])
    size = own.batch_size
    if not torch.equal(own.n_id[:size], ids[own.input_id]):
        raise SystemExit(f"{task.name}: the first nodes of a batch are not its rows")
    labels = torch.from_numpy(task.graph.nodes[task.target].labels)
    if not torch.equal(own.y, labels[own.n_id]):
        raise SystemExit(f"{task.name}: labels of a batch are not those of its nodes")
    if task.later is not None and (why := task.later(batch)) is not None:
        raise SystemExit(f"{task.name}: {why}")
    seen.batches += 1
    seen.nodes += sum(batch[name].num_nodes for name in batch.node_types)
    return batch
