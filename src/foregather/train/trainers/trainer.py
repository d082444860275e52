"""trainer: the interface between a run and its training, and the loop over epochs.

A run folder, its checkpoints, signals and metrics know only this `Trainer`; how epochs are made is
in `trainers`. All ranks make the same calls in the same order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.observe.progress import Progress
from foregather.train.metrics.metric import Metric

__all__ = [
    "EpochRunner",
    "Record",
    "Trainer",
    "best_record",
    "epochs_without_gain",
    "run_epochs",
]

Record = dict[str, Any]


class EpochRunner(Protocol):
    """The interface that the loop over epochs needs.

    Attributes:
        unit: the unit of an epoch, for the progress bar.
    """

    unit: str

    @property
    def history(self) -> list[Record]:
        """The record of each epoch; `run_epochs` adds to it."""

    @property
    def metric(self) -> Metric:
        """What scores are, and which of two is better."""

    def steps(self) -> int:
        """Steps of an epoch."""

    def epochs_done(self) -> int:
        """Number of complete epochs."""

    def train_epoch(self, bar: Progress, after_step: Callable[[], None] | None) -> Record:
        """Trains the rest of an epoch; the record has its number, loss, seconds and counters.

        Args:
            bar: advanced after each step.
            after_step: called after each step, where a checkpoint may be made; may raise to stop.
        """

    def evaluate(self) -> Record:
        """Returns `valid`, the score of the current weights, and how it was computed.

        Empty: no validation.
        """

    def keep_best(self) -> None:
        """Keeps the current weights as those with the best validation so far."""

    def take_beside(self) -> Record:
        """What all ranks read and sent for anything but epochs since the last call."""


class Trainer(EpochRunner, Protocol):
    """The interface that a run needs.

    Attributes:
        shape: feature columns and classes that the model was made for.
        own: entries of the state that are specific to each rank; the others are equal on all.
    """

    shape: dict[str, int]
    own: tuple[str, ...]

    @property
    def graph(self) -> Graph | HeteroGraph:
        """The graph trained on."""

    @property
    def model(self) -> nn.Module:
        """The weights of this rank, by name."""

    def facts(self) -> Record:
        """Facts for the run's environment, in addition to graph, model and machine."""

    def begin(self) -> None:
        """Refuses, before the first epoch, anything that could not be done after it."""

    def position(self) -> tuple[int, int]:
        """Finished epochs, and finished steps of the next."""

    def state_dict(self) -> dict[str, Any]:
        """Everything but random numbers, which belong to the process."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""

    def like(self, path: str) -> Tensor:
        """The weight that a sharded tensor at this path of a checkpoint belongs to."""

    def best_weights(self) -> dict[str, Tensor]:
        """The final weights of a run, complete and in host memory."""

    def final_scores(self) -> Record:
        """Scores by split of the best weights, how they were computed, and other facts."""

    def outlook(self) -> str:
        """What is known before the first epoch: layout and predicted reads; may be empty."""

    def explain(self, record: Record) -> str:
        """Compares predicted with measured figures of an epoch, as text; may be empty."""

    def give_back(self) -> None:
        """Frees the training's resources, keeping its counters; a second call does nothing."""


def best_record(history: Sequence[Record], metric: Metric) -> Record | None:
    """The first record with the best validation; None without validation."""
    best: Record | None = None
    for record in history:
        if "valid" in record and (best is None or metric.is_better(record["valid"], best["valid"])):
            best = record
    return best


def epochs_without_gain(history: Sequence[Record], metric: Metric) -> int:
    """Epochs since the best validation; 0 without validation."""
    seen = [record for record in history if "valid" in record]
    best = best_record(seen, metric)
    return 0 if best is None else len(seen) - 1 - [one is best for one in seen].index(True)


def run_epochs(
    runner: EpochRunner,
    epochs: int,
    *,
    patience: int = 0,
    after_step: Callable[[], None] | None = None,
    after_epoch: Callable[[Record], None] | None = None,
) -> None:
    """Trains until `epochs` epochs are done, including those done before.

    Args:
        runner: changed in place.
        epochs: total number of epochs.
        patience: stop after this many validations without a better score; 0 never stops.
        after_step: see `EpochRunner.train_epoch`.
        after_epoch: called with the record of each epoch, which it may extend.
    """
    left = max(0, epochs - runner.epochs_done()) * runner.steps()
    with Progress("training", left, runner.unit, lines=True) as bar:
        while runner.epochs_done() < epochs:
            if patience and epochs_without_gain(runner.history, runner.metric) >= patience:
                break
            record = runner.train_epoch(bar, after_step)
            record |= runner.evaluate()
            if "valid" in record:
                best = best_record(runner.history, runner.metric)
                if best is None or runner.metric.is_better(record["valid"], best["valid"]):
                    runner.keep_best()
            record["beside"] = runner.take_beside()
            runner.history.append(record)
            if after_epoch is not None:
                after_epoch(record)
