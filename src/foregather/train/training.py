"""training: a model in training: model, optimiser, schedule, loader, goal and counters.

Its state after any batch, with torch's random state, leads to the same weights as an undisturbed
run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.loader.loader import Loader
from foregather.nn.accelerated import Accelerated
from foregather.train.checkpoints.checkpoint import is_sharded
from foregather.train.device import in_precision
from foregather.train.metrics import Accumulator, forward, plan_facts
from foregather.train.rank_agreement import Together
from foregather.train.runs.run_counters import Meter
from foregather.train.tasks.find import find_task
from foregather.train.tasks.goal import Goal, choose_metric
from foregather.train.trainers.trainer import Record, epochs_without_gain

__all__ = ["Training", "usual_goal"]


@dataclass
class Training:
    """A model in training: model, loader, optimiser and progress.

    Attributes:
        model: any module that `forward` of `train.metrics` can call.
        loader: yields the batches of an epoch.
        optimizer: of torch.
        scheduler: of torch; steps after each epoch.
        history: the record of each finished epoch.
        best: weights of the epoch with the best validation so far; None without validation.
        counted: sums of the current epoch, on this rank.
        parallel: called instead of `model` and `fast` in training: the DDP wrapper, over ranks.
        together: the ranks that train.
        meter: counts what is moved; None makes one.
        fast: called instead of `model`, also for evaluation: the same scores in less time, such as
            `nn.accelerate(model)`.
        precision: of forward passes in training: "float32", or "bfloat16" by torch's autocast.
        goal: task and metric; None: as the labels of the loader's graph suggest, with the usual
            metric of that task.
        scored: the metric of the current epoch, on this rank.
        only: [N] which nodes to learn from, for samplers that choose the nodes of batches
            themselves; None: all seeds.
        loss_weight: [N] weights of nodes in the loss of a batch, which is their sum then, for
            samplers that hold some nodes more often than others; None: the mean.
    """

    model: nn.Module
    loader: Loader
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None
    history: list[Record] = field(default_factory=list)
    best: dict[str, Tensor] | None = None
    counted: dict[str, float] = field(default_factory=dict)
    parallel: nn.Module | None = None
    together: Together = field(default_factory=Together)
    meter: Meter = None  # type: ignore[assignment]  # made below: it needs the loader
    fast: nn.Module | None = None
    precision: str = "float32"
    goal: Goal = None  # type: ignore[assignment]  # likewise
    scored: Accumulator | None = None
    only: Tensor | None = None
    loss_weight: Tensor | None = None

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "bfloat16"):
            raise InputError(f"precision is {self.precision!r}, expected 'float32' or 'bfloat16'")
        if self.meter is None:
            self.meter = Meter(self.loader)
        if self.goal is None:
            self.goal = usual_goal(self.loader)

    def state_dict(self) -> dict[str, Any]:
        """Everything but random numbers, which belong to the process."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "loader": self.loader.state_dict(),
            "history": self.history,
            "best": self.best,
            "counted": self.counted | self.meter.state(),
            "accelerated": self.given_up(),
            "scored": None if self.scored is None else self.scored.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state; the loader refuses one that does not fit."""
        self.loader.load_state_dict(state["loader"])
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.history, self.counted = list(state["history"]), dict(state["counted"])
        self.meter.load(self.counted)
        self.best, self.scored = state["best"], None
        if (scored := state.get("scored")) is not None:
            self.scored = self.goal.metric.start()
            self.scored.merge(scored)
        if (
            isinstance(self.fast, Accelerated)
            and (given_up := state.get("accelerated")) is not None
        ):
            self.fast.load_accelerated_state(given_up)

    def given_up(self) -> list[dict[str, Any]] | None:
        """For which calls an accelerated model gave up on this rank; None: it is another model."""
        return self.fast.accelerated_state() if isinstance(self.fast, Accelerated) else None

    def scores(self, batch: Any) -> Tensor:
        """Scores of a batch's seeds in training, in the precision of the run."""
        call = self.fast if self.parallel is None else self.parallel
        with in_precision(self.precision, batch.y.device):
            scores = forward(self.model, batch, call)
        return scores.float() if scores.dtype == torch.bfloat16 else scores

    def labels(self, batch: Any) -> Tensor:
        """Labels of a batch's seeds."""
        labels: Tensor = batch.y[: batch.batch_size]
        if self.only is None:
            return labels
        other = ~self.only.to(labels.device)[batch.n_id[: batch.batch_size]]
        if not labels.is_floating_point():
            labels = labels.long()  # unsigned ones have no -1
        return labels.masked_fill(
            other if labels.ndim == 1 else other[:, None],
            float("nan") if labels.is_floating_point() else -1,
        )

    def loss(self, batch: Any, scores: Any, labels: Tensor) -> Tensor:
        """The loss of a batch: a mean, or the weighted sum where nodes have weights."""
        if self.loss_weight is None:
            return self.goal.task.loss(scores, labels)
        weight = self.loss_weight.to(labels.device)[batch.n_id[: batch.batch_size]]
        return (weight * self.goal.task.loss_each(scores, labels)).sum()

    def plan_facts(self) -> Record:
        """Totals of the plans of the last epoch."""
        return plan_facts(self.loader)

    def in_parts(self) -> bool:
        """Whether a rank has only a part of the weights."""
        return any(is_sharded(weight) for weight in self.model.parameters())

    def like(self, path: str) -> Tensor:
        """The weight that a sharded tensor at this path of a checkpoint belongs to."""
        _, _, part, name = path.split("/", 3)  # /training/model/NAME, /training/optimizer/state/...
        if part != "optimizer":
            weight: Tensor = self.model.state_dict()[name]
            return weight
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        found: Tensor = weights[int(name.split("/")[1])]
        return found

    def without_gain(self) -> int:
        """Epochs since the best validation; 0 without validation."""
        return epochs_without_gain(self.history, self.goal.metric)


def usual_goal(loader: Loader) -> Goal:
    """What the labels of a loader's graph suggest."""
    task = find_task(loader.graph, loader.input_nodes)
    return Goal(task, choose_metric(task))
