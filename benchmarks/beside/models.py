"""models: the models of the epochs, unmodified ones of PyG, and the three ways to run them.

Plain, as most programs call them; trimmed, as PyG advises for sampled batches; and accelerated by
`foregather.nn.accelerate`, where this version has it.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch_geometric.nn import models

from .graphs import CLASSES, Case
from .rounds import Turn, Work

__all__ = ["SETTINGS", "Dense", "Setting", "Trainer", "can_accelerate", "input_nodes"]

try:
    from foregather.nn import accelerate
except ImportError:  # a version before it
    accelerate = None


def can_accelerate() -> bool:
    """Whether this version has `foregather.nn.accelerate`."""
    return accelerate is not None


@dataclass(frozen=True)
class Setting:
    """A model and what is sampled for it.

    Args:
        kind: of its convolutions.
        fanouts: one a layer.
        hidden: columns between layers.
        seeds: of a batch.
        batches: of an epoch.
        plain: the least ratio of PyG's epoch with the plain model to ours.
        trimmed: likewise with the trimmed one.
        dense: the dense products alone stand beside it.
    """

    kind: str
    fanouts: tuple[int, ...]
    hidden: int
    seeds: int
    batches: int
    plain: float
    trimmed: float
    dense: bool = False

    @property
    def title(self) -> str:
        """As it stands in the table."""
        shape = f"{self.kind} {len(self.fanouts)} x {self.hidden}"
        return f"{shape}, {[*self.fanouts]}, {self.seeds} seeds"

    def model(self, columns: int) -> torch.nn.Module:
        """PyG's own, from the same weights each time."""
        torch.manual_seed(0)
        shape = (columns, self.hidden, len(self.fanouts), CLASSES)
        made: torch.nn.Module = {
            "SAGE": lambda: models.GraphSAGE(*shape),
            "GCN": lambda: models.GCN(*shape, normalize=False),
            "GIN": lambda: models.GIN(*shape),
            "GAT": lambda: models.GAT(*shape, heads=4),
        }[self.kind]()
        return made


SETTINGS = (
    Setting("SAGE", (15, 10, 5), 256, 1024, 4, 8, 4, dense=True),
    Setting("SAGE", (15, 10, 5), 128, 1024, 4, 8, 4),
    Setting("SAGE", (10, 10), 64, 1024, 32, 8, 4),
    Setting("GCN", (15, 10, 5), 128, 256, 16, 6, 3),
    Setting("GIN", (15, 10, 5), 128, 256, 16, 6, 3),
    Setting("GAT", (15, 10, 5), 128, 256, 16, 4, 2),
)


def input_nodes(case: Case, setting: Setting) -> tuple[torch.Tensor, int]:
    """Random nodes for an epoch, and the size of its batches, smaller where the graph is."""
    size = min(setting.seeds, case.nodes // (2 * setting.batches))
    return torch.from_numpy(np.concatenate(case.seeds(setting.batches, size))), size


class Trainer:
    """A model and its optimiser; every system trains its own, from the same weights.

    Args:
        setting: says which.
        columns: of the features.
        way: "plain", "trimmed" or "accelerated".
    """

    def __init__(self, setting: Setting, columns: int, way: str) -> None:
        self.way, self.setting = way, setting
        self.model = setting.model(columns)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.run = accelerate(self.model) if way == "accelerated" else self.model
        self.targets: list[list[int]] = []

    def scores(self, batch: Any) -> torch.Tensor:
        """Class scores of the seeds."""
        made: torch.Tensor
        if self.way == "accelerated":
            made = self.run(batch)
        else:
            more: dict[str, Any] = {}
            if self.setting.kind == "GCN":
                more["edge_weight"] = batch.edge_weight
            if self.way == "trimmed":
                more["num_sampled_nodes_per_hop"] = batch.num_sampled_nodes
                more["num_sampled_edges_per_hop"] = batch.num_sampled_edges
            made = self.run(batch.x, batch.edge_index, **more)
        return made[: batch.batch_size]

    def why_plain(self) -> str | None:
        """Why an accelerated model runs as it is; None where it does not."""
        return getattr(self.run, "plain", None) if self.way == "accelerated" else None

    def epoch(self, loader: Iterable[Any]) -> Turn:
        """Trains on every batch once."""
        nodes = edges = count = 0
        total = 0.0
        self.targets = []
        begin = perf_counter()
        for batch in loader:
            self.optimizer.zero_grad()
            loss = functional.cross_entropy(self.scores(batch), batch.y[: batch.batch_size])
            loss.backward()
            self.optimizer.step()
            total += float(loss.detach())
            nodes, edges = nodes + len(batch.n_id), edges + batch.edge_index.shape[1]
            self.targets.append([int(number) for number in batch.num_sampled_nodes])
            count += 1
            del batch, loss
        return Turn(perf_counter() - begin, count, nodes, edges, total / count)

    def on(self, loader: Any) -> Work:
        """Epochs of a loader; ours is told which epoch, so that all ours see the same batches."""

        def turn(number: int) -> Turn:
            if hasattr(loader, "set_epoch"):
                loader.set_epoch(number)
            return self.epoch(loader)

        return turn


class Dense:
    """The dense products of a SAGE step alone: what remains if everything else cost nothing.

    Each layer multiplies the rows of its targets twice (their own and the aggregated ones), and
    the backward pass each of these twice, but for the first layer, whose input needs no gradient.

    Args:
        setting: of the model.
        columns: of the features.
        trainer: one that has run an epoch: its targets are those counted.
    """

    def __init__(self, setting: Setting, columns: int, trainer: Trainer) -> None:
        widths = [columns, *[setting.hidden] * (len(setting.fanouts) - 1), CLASSES]
        self.pairs = list(itertools.pairwise(widths))
        self.trainer = trainer
        self.weights = [torch.randn(b, a) for a, b in self.pairs]

    def __call__(self, number: int) -> Turn:
        """The products of an epoch."""
        seconds = 0.0
        for hops in self.trainer.targets:
            for layer, (width, out) in enumerate(self.pairs):
                rows = sum(hops[: len(self.pairs) - layer])
                x, back = torch.ones(rows, width), torch.ones(rows, out)
                weight = self.weights[layer]
                begin = perf_counter()
                for _ in range(2):
                    made = functional.linear(x, weight)
                    grad = back.t() @ x
                    if layer:
                        back @ weight
                seconds += perf_counter() - begin
                del made, grad
        return Turn(seconds, len(self.trainer.targets))
