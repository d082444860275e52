"""runs: trains one model on the batches of one side and scores it as every side is scored.

The score is taken at the best validation, or after the last step where a set has no validation:
percent of right classes, from the exact forward of the whole graph; with times, the area under the
ROC curve in percent, on batches that were drawn once for all sides.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from common.training import score
from torch import Tensor
from torch.nn import functional

from .models import make_model
from .sides import whole
from .task import Task

__all__ = ["Scores", "exact_scores", "sampled_scores", "train"]

#: From a model and a part to its score.
Scores = Callable[[torch.nn.Module, str], float]


def exact_scores(task: Task) -> Scores:
    """Scores from the whole graph."""
    data = whole(task)

    def scores(model: torch.nn.Module, part: str) -> float:
        return score(_forward(model, data), data[task.target].y, torch.from_numpy(task.split[part]))

    return scores


def sampled_scores(task: Task, drawn: Callable[[str], Iterator[Any]]) -> Scores:
    """Scores from batches that are drawn once."""
    kept = {part: list(drawn(part)) for part in ("val", "test")}

    def scores(model: torch.nn.Module, part: str) -> float:
        found, labels = [], []
        for batch in kept[part]:
            size = batch[task.target].batch_size
            found.append(_forward(model, batch)[:size])
            labels.append(batch[task.target].y[:size])
        y = torch.cat(labels)
        return score(torch.cat(found), y, torch.arange(len(y)))

    return scores


@torch.no_grad()
def _forward(model: torch.nn.Module, batch: Any) -> Tensor:
    model.eval()
    made: Tensor = model(batch)
    return made


def train(
    task: Task,
    kind: str,
    seed: int,
    batches: Iterator[Any] | None,
    scores: dict[str, Scores],
) -> dict[str, float]:
    """Test scores, by their names, of a model trained on these batches.

    Args:
        task: the task.
        kind: of model.
        seed: of its first weights.
        batches: None: the whole graph at every step.
        scores: ways to score; the first chooses the step by its validation.
    """
    model = make_model(task, kind, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=task.rate, weight_decay=_decay(task))
    loss_of = _whole_loss(task) if batches is None else _batch_loss(task, batches)
    chosen = next(iter(scores.values()))
    best, found, worse = -1.0, {}, 0
    for step in range(1, task.steps + 1):
        model.train()
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        if step % task.every and step < task.steps:
            continue
        if "val" not in task.split:
            if step == task.steps:
                found = {name: one(model, "test") for name, one in scores.items()}
            continue
        now = chosen(model, "val")
        worse = 0 if now > best else worse + 1
        if now > best:
            best, found = now, {name: one(model, "test") for name, one in scores.items()}
        if task.patience and worse >= task.patience:
            break
    return found


def _decay(task: Task) -> float:
    return 0.0 if task.name == "aifb" else 5e-4 if task.level is None else 1e-5


def _whole_loss(task: Task) -> Callable[[torch.nn.Module], Tensor]:
    data, rows = whole(task), torch.from_numpy(task.split["train"])

    def loss(model: torch.nn.Module) -> Tensor:
        return functional.cross_entropy(model(data)[rows], data[task.target].y[rows])

    return loss


def _batch_loss(task: Task, batches: Iterator[Any]) -> Callable[[torch.nn.Module], Tensor]:
    def loss(model: torch.nn.Module) -> Tensor:
        batch = next(batches)
        size = batch[task.target].batch_size
        return functional.cross_entropy(model(batch)[:size], batch[task.target].y[:size])

    return loss
