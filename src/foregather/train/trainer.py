"""trainer: what a run needs of its training, however that is done, and the loop over epochs.

A run folder, its checkpoints, signals and metrics know only this `Trainer`; how epochs are made is
in `trainers`. All ranks make the same calls in the same order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from foregather.graph.graph import Graph
from foregather.observe.progress import Progress

__all__ = ["EpochRunner", "Record", "Trainer", "epochs_without_gain", "run_epochs"]

Record = dict[str, Any]


class EpochRunner(Protocol):
    """What the loop over epochs needs.

    Attributes:
        unit: what an epoch is made of, for the bar.
    """

    unit: str

    @property
    def history(self) -> list[Record]:
        """The record of each epoch; `run_epochs` adds to it."""

    def steps(self) -> int:
        """Steps of an epoch."""

    def epochs_done(self) -> int:
        """Epochs that are complete, whoever trained them."""

    def train_epoch(self, bar: Progress, after_step: Callable[[], None] | None) -> Record:
        """What is left of an epoch; the record has its number, loss, seconds and counters.

        Args:
            bar: advanced by each step.
            after_step: called after each step, where a checkpoint may be made; may raise to stop.
        """

    def evaluate(self) -> Record:
        """`valid`, the score of the present weights, and how it was found; empty: no validation."""

    def keep_best(self) -> None:
        """The present weights are those with the best validation so far."""

    def take_beside(self) -> Record:
        """What all ranks read and sent for anything but epochs since this was last asked."""


class Trainer(EpochRunner, Protocol):
    """What a run needs.

    Attributes:
        graph: what is trained on.
        shape: feature columns and classes that the model was made for.
        own: entries of the state that each rank has of its own; the others are alike on all.
    """

    graph: Graph
    shape: dict[str, int]
    own: tuple[str, ...]

    @property
    def model(self) -> nn.Module:
        """The weights of this rank, by name."""

    def facts(self) -> Record:
        """What the run's environment says of it beside graph, model and machine."""

    def begin(self) -> None:
        """Refuses, before the first epoch, what could not be done after it."""

    def position(self) -> tuple[int, int]:
        """Epochs that are done, and steps of the next."""

    def state_dict(self) -> dict[str, Any]:
        """Everything but random numbers, which belong to the process."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to a saved state."""

    def like(self, path: str) -> Tensor:
        """The weight that a sharded tensor at this path of a checkpoint belongs to."""

    def best_weights(self) -> dict[str, Tensor]:
        """The weights that a run delivers, whole and in host memory."""

    def final_scores(self) -> Record:
        """Scores by split of the best weights, how they were found, and what else sums a run up."""

    def explain(self, record: Record) -> str:
        """What was predicted of an epoch against what was measured, for people; may be empty."""

    def give_back(self) -> None:
        """Frees what is held for training, with its counters kept; a second call does nothing."""


def epochs_without_gain(history: Sequence[Record]) -> int:
    """Epochs since the best validation; 0 where nothing was validated."""
    scores = [record["valid"] for record in history if "valid" in record]
    return len(scores) - 1 - scores.index(max(scores)) if scores else 0


def run_epochs(
    runner: EpochRunner,
    epochs: int,
    *,
    patience: int = 0,
    after_step: Callable[[], None] | None = None,
    after_epoch: Callable[[Record], None] | None = None,
) -> None:
    """Trains until `epochs` epochs are done, counting those done before.

    Args:
        runner: changed in place.
        epochs: in all.
        patience: stop after so many validations without a better score; 0 never does.
        after_step: see `EpochRunner.train_epoch`.
        after_epoch: called with the record of each epoch, which it may add to.
    """
    left = max(0, epochs - runner.epochs_done()) * runner.steps()
    with Progress("training", left, runner.unit) as bar:
        while runner.epochs_done() < epochs:
            if patience and epochs_without_gain(runner.history) >= patience:
                break
            record = runner.train_epoch(bar, after_step)
            record |= runner.evaluate()
            if "valid" in record:
                seen = [old["valid"] for old in runner.history if "valid" in old]
                if not seen or record["valid"] > max(seen):
                    runner.keep_best()
            record["beside"] = runner.take_beside()
            runner.history.append(record)
            if after_epoch is not None:
                after_epoch(record)
