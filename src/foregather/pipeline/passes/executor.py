"""executor: carries out the tasks of a schedule on one rank; each kind of pass says how chunks run.

Rows and gradients of chunks come in and go out here, in the order of the schedule: receives are
posted ahead in the order in which its tasks will ask for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from foregather.pipeline.passes.stage import Stage, Values
from foregather.pipeline.planning.schedule import Schedule, Task

__all__ = ["Executor", "Outcome", "gradient_of", "run_backward"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a forward pass found on this stage.

    Attributes:
        loss: the loss, on the last stage; else 0.
        fault: the first chunk whose rows were not finite, or None.
    """

    loss: float
    fault: int | None


class Executor:
    """Carries out the tasks of one rank, except "agree" and "sum", which the engine does.

    Args:
        stage: the stage.
        schedule: of all ranks.
        epoch: for random numbers; None for evaluation.

    Attributes:
        tasks: those of this rank.
    """

    def __init__(self, stage: Stage, schedule: Schedule, epoch: int | None) -> None:
        self._stage, self._schedule, self._epoch = stage, schedule, epoch
        self.tasks = schedule.tasks(stage.link.own)
        self._loss = 0.0
        self._fault: int | None = None
        self._phase: bool | None = None  # True: backward, False: forward, None: not begun
        self._take: Callable[[int], Any] | None = None
        self._arrived: dict[int, Values] = {}
        self._leaving: dict[int, Values] = {}
        self._gradients_in: dict[int, list[Tensor]] = {}
        self._gradients_out: dict[int, Sequence[Tensor]] = {}

    @property
    def outcome(self) -> Outcome:
        """What the forward pass has found so far."""
        return Outcome(self._loss, self._fault)

    def do(self, task: Task) -> None:
        """Carries out the next task."""
        if self._phase is not task.backward:
            self._phase = task.backward
            self._begin(task.backward)
        steps: dict[str, Callable[[Task], None]] = {
            "receive": self._receive,
            "send": self._send,
            "run": self._run,
            "again": self._again,
            "exchange": self._exchange,
            "free": self._free,
        }
        steps[task.kind](task)

    def forward(self) -> Outcome:
        """Carries out the forward tasks, without telling other ranks the outcome."""
        for task in self.tasks:
            if task.kind == "agree":
                break
            self.do(task)
        self._stage.link.flush()
        return self.outcome

    # ---- rows in and out -------------------------------------------------------------------

    def _begin(self, backward: bool) -> None:
        """Posts the first receives of a phase."""
        coming = [
            task.chunks[0]
            for task in self.tasks
            if task.kind == "receive" and task.backward is backward
        ]
        self._take = None
        if coming:
            self._take = self._stage.gradients(coming) if backward else self._stage.inlet(coming)

    def _receive(self, task: Task) -> None:
        assert self._take is not None
        arrived: dict[int, Any] = self._gradients_in if task.backward else self._arrived
        arrived[task.chunks[0]] = self._take(task.chunks[0])

    def _send(self, task: Task) -> None:
        (chunk,) = task.chunks
        if task.backward:
            self._stage.send_back(chunk, self._gradients_out.pop(chunk))
        else:
            self._stage.send_on(chunk, self._leaving.pop(chunk))

    def _start(self, chunk: int) -> Values:
        """Returns what a chunk starts with: rows that arrived, or its features."""
        if self._stage.program.stage == 0:
            return Values(self._stage.features.chunk(chunk))
        return self._arrived.pop(chunk)

    # ---- chunks ----------------------------------------------------------------------------

    def _run(self, task: Task) -> None:
        """Runs chunks through ops."""
        if task.backward:
            self._run_back(task)
        else:
            self._run_on(task)

    def _run_on(self, task: Task) -> None:
        raise NotImplementedError

    def _run_back(self, task: Task) -> None:
        raise NotImplementedError

    def _again(self, task: Task) -> None:
        raise NotImplementedError

    def _exchange(self, task: Task) -> None:
        raise NotImplementedError

    def _free(self, task: Task) -> None:
        raise NotImplementedError

    def _check(self, chunk: int, rows: Tensor) -> None:
        """Remembers the first chunk whose rows are not finite."""
        if self._fault is None and not bool(torch.isfinite(rows).all()):
            self._fault = chunk


def run_backward(roots: Sequence[Tensor | None], gradients: Sequence[Tensor | None]) -> None:
    """Runs backward from the roots that depend on a weight or a leaf."""
    pairs = [
        (root, gradient)
        for root, gradient in zip(roots, gradients, strict=True)
        if root is not None and root.requires_grad
    ]
    if pairs:
        torch.autograd.backward([p[0] for p in pairs], [p[1] for p in pairs])


def gradient_of(leaf: Tensor) -> Tensor:
    """Returns the gradient that a leaf collected, or zeros if there is none."""
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
