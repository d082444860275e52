"""fit: the training loop and evaluation; simple enough to copy and change.

A run resumes from a `Training`; see there.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from foregather.errors import InputError, NumericError
from foregather.loader.loader import Loader
from foregather.nn.accelerated import Accelerated
from foregather.nn.accelerated.hops import ask_ahead
from foregather.observe.progress import Progress, peak_memory
from foregather.observe.trace import span
from foregather.train.metrics import Accumulator, Metric, forward, has_labels
from foregather.train.metrics.reads import PHASE
from foregather.train.rank_agreement import Together
from foregather.train.tasks.goal import Goal
from foregather.train.trainers.trainer import Record, run_epochs
from foregather.train.training import Training, usual_goal

__all__ = ["SampledEpochs", "Training", "evaluate", "fit"]


def fit(
    training: Training,
    epochs: int,
    *,
    valid: Loader | Callable[[nn.Module], float] | None = None,
    patience: int = 0,
    after_batch: Callable[[Training], None] | None = None,
    after_epoch: Callable[[Training, Record], None] | None = None,
) -> list[Record]:
    """Trains until `epochs` epochs are done, including those done before.

    Args:
        training: changed in place.
        epochs: total number of epochs.
        valid: chooses the best epoch: a loader, or a function that returns a score, of which the
            larger is better unless `training.goal.metric` says otherwise.
        patience: stop after this many epochs without a better score; 0 never stops.
        after_batch: called after each step, where a checkpoint may be made; may raise to stop.
        after_epoch: called with the record of each epoch, which it may extend.

    Returns:
        `training.history`: loss, metric, seconds, seconds waited for batches, reads, peak memory;
        over ranks also `phases`, seconds of the threads that sample and fetch, by phase.
        `beside` counts what was read or sent for anything but the epoch's own batches: the trial
        step and validation. `scored` says how `valid` was computed.

    Raises:
        InputError: no node of `valid` has a label, or there is `patience` without `valid`.
        NumericError: the loss or a score is not finite.
    """
    if isinstance(valid, Loader) and not has_labels(
        valid.graph, valid.input_nodes, training.goal.task.known
    ):
        raise InputError(
            "no node of valid= has a label, but it decides which epoch is best; pass other nodes, "
            "or None to train without"
        )
    if patience and valid is None:
        raise InputError(
            f"patience is {patience}, but valid= is not given, so no epoch is better than another; "
            "pass valid=, or leave patience= out"
        )
    runner = SampledEpochs(training, valid)
    run_epochs(
        runner,
        epochs,
        patience=patience,
        after_step=None if after_batch is None else lambda: after_batch(training),
        after_epoch=None if after_epoch is None else lambda record: after_epoch(training, record),
    )
    return training.history


class SampledEpochs:
    """Epochs over the batches of a loader, for `run_epochs`.

    Args:
        training: changed in place.
        valid: see `fit`.
    """

    unit = "batches"

    def __init__(
        self, training: Training, valid: Loader | Callable[[nn.Module], float] | None = None
    ) -> None:
        self.training, self.valid = training, valid
        if isinstance(training.fast, Accelerated):
            ask_ahead(training.loader)

    @property
    def history(self) -> list[Record]:
        """The records of the training."""
        return self.training.history

    @property
    def metric(self) -> Metric:
        """That of the training's goal."""
        return self.training.goal.metric

    def steps(self) -> int:
        """Batches of an epoch."""
        return len(self.training.loader)

    def epochs_done(self) -> int:
        """Epochs with a record."""
        return len(self.training.history)

    def train_epoch(self, bar: Progress, after_step: Callable[[], None] | None) -> Record:
        """Trains on the remaining batches of an epoch."""
        record = _epoch(self.training, bar, after_step)
        plain = _agree_plain(self.training)
        return record if plain is None else record | {"plain": plain}

    def evaluate(self) -> Record:
        """Returns the score by `valid`; how it was computed is known only for a loader."""
        training, valid = self.training, self.valid
        if valid is None:
            return {}
        with span("evaluate"):
            if isinstance(valid, Loader):
                score = evaluate(
                    training.model, valid, training.together, training.fast, training.goal
                )
            else:
                score = valid(training.model)
        if math.isnan(score):
            raise NumericError(
                f"valid= gave nan after epoch {len(training.history) + 1}, which cannot be "
                "compared; pass a function whose scores are numbers"
            )
        how = {"scored": "sampled"} if isinstance(valid, Loader) else {}
        return {"valid": score, **how}

    def keep_best(self) -> None:
        """Copies the present weights."""
        self.training.best = copy.deepcopy(self.training.model.state_dict())

    def take_beside(self) -> Record:
        """Of all ranks."""
        beside: Record = dict(self.training.meter.take_beside())
        return self.training.together.sums(beside, "summing what was beside")


def _epoch(training: Training, bar: Progress, after_step: Callable[[], None] | None) -> Record:
    """Trains on the remaining batches of an epoch."""
    names = ("loss", "seen", "seconds", "waited")
    whole = training.scored is not None or not training.counted.get("seen")
    if training.scored is None:
        training.scored = training.goal.metric.start()
    counted = training.counted = {name: training.counted.get(name, 0.0) for name in names}
    epoch = len(training.history)
    training.meter.start()
    training.model.train()
    batches: Any = iter(training.loader)
    try:
        _steps(training, batches, bar, after_step)
    except (KeyboardInterrupt, SystemExit):
        batches.close()  # ranks stop after the same batch, and end the loop together
        raise
    if training.scheduler is not None:
        training.scheduler.step()
    training.meter.stop()
    moved: Record = dict(training.meter.take_moved())
    score = _over_ranks(training.scored, training.goal.metric, training.together)
    training.counted, training.scored = {}, None
    summed = _summed(training.together, counted, moved | training.plan_facts())
    # Without a label nothing is right; checkpoints of release 0.1 have no scores of a part.
    found = {"train": score} if whole and not math.isnan(score) else {}
    return {"epoch": epoch + 1, "metric": training.goal.metric.name, **found, **summed}


def _over_ranks(own: Accumulator, metric: Metric, together: Together) -> float:
    """The metric of the rows of all ranks."""
    total = metric.start()
    for state in together.gather(own.state(), "comparing scores"):
        total.merge(state)
    return total.value()


def _steps(
    training: Training,
    batches: Iterator[Any],
    bar: Progress,
    after_step: Callable[[], None] | None,
) -> None:
    """A step of the optimiser for each batch."""
    optimizer, counted = training.optimizer, training.counted
    last = time.perf_counter()
    while True:
        with span("wait"):
            batch = next(batches, None)
        waited = time.perf_counter() - last
        counted["waited"] += waited
        if batch is None:
            counted["seconds"] += waited
            return
        optimizer.zero_grad()
        part = float(getattr(batch, "share", 1.0))  # over ranks; 0 for padding
        with span("forward"), training.together.passing("forward"):
            scores = training.scores(batch)
            labels = training.labels(batch)
            loss = training.loss(batch, scores, labels)
        with span("backward"), training.together.passing("gradients"):
            torch.autograd.backward(loss * part)
        with span("step"):
            optimizer.step()
        value = loss.item()
        if not math.isfinite(value):
            raise NumericError(
                f"the loss is {value} after {counted['seen']:.0f} seeds of epoch "
                f"{len(training.history) + 1}; try a smaller learning rate, and check the features"
            )
        if part > 0:
            counted["loss"] += value * len(labels)
            if training.scored is not None:
                training.goal.add(training.scored, scores, labels)
            counted["seen"] += len(labels)
        bar.advance(1)
        counted["seconds"] += time.perf_counter() - last
        del batch
        if after_step is not None:
            after_step()
        last = time.perf_counter()


def _agree_plain(training: Training) -> str | None:
    """After an epoch, ranks run the model as it is if one of them had to give it up.

    Until then its own verdict is in each rank's checkpoint. Returns why it is plain in training.
    """
    found = training.together.gather(training.given_up(), "comparing accelerated models")
    if not isinstance(training.fast, Accelerated):
        return None
    for rank, part in enumerate(found):
        if rank != training.together.rank:
            training.fast.take_accelerated_state(part or [], f" (on rank {rank})")
    return training.fast.plain


def _summed(together: Together, counted: Record, moved: Record) -> Record:
    """An epoch over all ranks: seeds and bytes summed; the slowest and the largest rank.

    `phases` is the mean over ranks of the seconds of threads that sample and fetch.
    """
    parts = together.gather({**counted, **moved, "peak_memory": peak_memory()}, "summing an epoch")
    total = {name: sum(part[name] for part in parts) for name in parts[0]}
    record: Record = {"loss": total["loss"] / max(1, total["seen"])}
    record["seconds"] = max(part["seconds"] for part in parts)
    record["waited"] = total["waited"] / len(parts)
    record |= {name: total[name] for name in moved if not name.startswith(PHASE)}
    spent = {name.removeprefix(PHASE): total[name] for name in moved if name.startswith(PHASE)}
    if any(spent.values()):
        record["phases"] = {name: ns / 1e9 / len(parts) for name, ns in spent.items() if ns}
    record["peak_memory"] = max(part["peak_memory"] for part in parts)
    return record


@torch.no_grad()
def evaluate(
    model: nn.Module,
    loader: Loader,
    together: Together | None = None,
    fast: nn.Module | None = None,
    goal: Goal | None = None,
) -> float:
    """Returns the metric on a loader's labelled input nodes, with sampled neighbours.

    It estimates the one with all edges, which `infer` and `foregather train` compute. The
    loader starts at its epoch 0, so equal weights have equal scores. Over ranks each takes its
    share of the nodes, and all get the same score. NaN if no node has a label. `fast`, if given,
    is called instead of the model. `goal` has the metric; None: as of `Training`.
    """
    goal = usual_goal(loader) if goal is None else goal
    training, own = model.training, goal.metric.start()
    model.eval()
    loader.set_epoch(0)
    for batch in loader:
        scores = forward(model, batch, fast)
        if not bool(torch.isfinite(scores).all()):
            raise NumericError(
                f"scores of {batch.batch_size} evaluated nodes hold NaN or infinity; try a smaller "
                "learning rate, and check the features"
            )
        if float(getattr(batch, "share", 1.0)) > 0:
            goal.add(own, scores, batch.y[: batch.batch_size])
    model.train(training)
    return _over_ranks(own, goal.metric, together or Together())
