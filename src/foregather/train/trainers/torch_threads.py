"""torch_threads: how many threads torch uses in a run, beside those that make batches, by trial.

Which number is fastest depends on the sizes of a model's products, on the cost of its batches and
on the machine, so steps are timed, each with the batches it waits for. Sums of torch may differ in
their last bits between numbers of threads. So one is chosen before a run has a folder, is written
there with all that was measured, and stays: a resumed run takes it from there and tries nothing.
"""

import copy
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch

from foregather.errors import InputError
from foregather.loader.source import MemorySource
from foregather.train.settings import Settings
from foregather.train.training import Training

__all__ = ["Trial", "candidates", "check_measured", "choose", "try_threads"]

_STEPS, _ROUNDS = 8, 3  # of each number of threads, by turns
_SECONDS = 10.0  # no further round after this
_GAIN = 0.05  # of the time of a step; for less, all threads are kept


@dataclass(frozen=True, slots=True)
class Trial:
    """What was measured, and what follows from it.

    Attributes:
        seconds: of a step and of the wait for its batch, by number of threads: the median round.
        waited: the part that was waited for the batch.
        chosen: the number to use.
    """

    seconds: Mapping[int, float]
    waited: Mapping[int, float]
    chosen: int

    def explain(self) -> str:
        """One line for people."""
        told = [
            f"{count}: {1e3 * took:.3g} ms, {100 * self.waited[count] / max(took, 1e-12):.0f} % of "
            "it waiting"
            for count, took in self.seconds.items()
        ]
        most = max(self.seconds)
        return f"torch uses {self.chosen} of {most} threads; a step by threads: {'; '.join(told)}"

    def facts(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "chosen": self.chosen,
            "seconds": {str(count): took for count, took in self.seconds.items()},
            "waited": {str(count): took for count, took in self.waited.items()},
        }


def check_measured(settings: Settings, ranks: int, typed: bool) -> None:
    """Raises InputError where torch's threads are to be measured, but this run cannot do it."""
    train = settings.train
    if train.torch_threads != "measured":
        return
    if ranks > 1:
        where = f"but there are {ranks} ranks"
    elif train.task == "link":
        where = "but the task is link"
    elif typed:
        where = "but the graph has node types"
    elif train.method != "sampled":
        where = f"but the method is {train.method}"
    else:
        return
    raise InputError(
        "train.torch_threads is 'measured', which is for sampled batches of a graph without types "
        f"on one rank, {where}; give a number, or all"
    )


def candidates(most: int) -> list[int]:
    """Numbers to try, the largest first: all, one fewer, half of them, and one."""
    return sorted({max(1, count) for count in (most, most - 1, most // 2, 1)}, reverse=True)


def choose(seconds: Mapping[int, float]) -> int:
    """The fastest number of threads; all of them if no other is faster by a twentieth."""
    most, best = max(seconds), min(seconds, key=lambda count: seconds[count])
    return best if seconds[best] < (1 - _GAIN) * seconds[most] else most


def try_threads(training: Training, most: int, clock: Callable[[], float] = perf_counter) -> Trial:
    """Times steps without the optimiser; weights, buffers and random numbers are as before.

    The loader is at the beginning of epoch 0 afterwards, and torch uses as many threads as before.

    Args:
        training: before its first epoch.
        most: threads at most.
        clock: seconds.
    """
    before, random, loader = torch.get_num_threads(), torch.get_rng_state(), training.loader
    model = training.model
    took: dict[int, list[tuple[float, float]]] = {count: [] for count in candidates(most)}
    kept, was_training = copy.deepcopy(model.state_dict()), model.training
    batches = _again_and_again(loader)
    try:
        model.train()
        for count in took:  # each has its first step, which starts threads, before any is timed
            _steps(training, batches, count, 1, clock)
        begun = clock()
        for _ in range(_ROUNDS):
            for count, rounds in took.items():
                rounds.append(_steps(training, batches, count, _STEPS, clock))
            if clock() - begun > _SECONDS:
                break
    finally:
        batches.close()
        torch.set_num_threads(before)
        model.load_state_dict(kept)
        model.train(was_training)
        training.optimizer.zero_grad()
        torch.set_rng_state(random)
        loader.set_epoch(0)
        if isinstance(loader._source, MemorySource):
            loader._source.pace = None  # what it saw were other steps
    seconds = {count: median(total for total, _ in rounds) for count, rounds in took.items()}
    waited = {count: median(wait for _, wait in rounds) for count, rounds in took.items()}
    return Trial(seconds, waited, choose(seconds))


def _again_and_again(loader: Any) -> Generator[Any, None, None]:
    """Batches of epoch after epoch."""
    while True:
        yield from loader


def _steps(
    training: Training, batches: Iterator[Any], threads: int, count: int, clock: Callable[[], float]
) -> tuple[float, float]:
    """Seconds of a step on average, and how many of them were waited for its batch."""
    torch.set_num_threads(threads)
    waited, begun = 0.0, clock()
    for _ in range(count):
        asked = clock()
        batch = next(batches)
        waited += clock() - asked
        training.optimizer.zero_grad()
        labels = training.labels(batch)
        torch.autograd.backward(training.loss(batch, training.scores(batch), labels))
    return (clock() - begun) / count, waited / count
