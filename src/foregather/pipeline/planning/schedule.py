"""schedule: which chunk passes when, decided before an epoch; pure functions.

One order of chunks serves all stages and layers of an epoch, forward; the backward pass has the
reverse. It is a pure function of (seed, epoch, K), so that ranks agree without a message. Where
chunks pass abreast it is an order of ticks.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from foregather import _core

__all__ = ["Task", "chunk_order", "draw_key", "schedule"]

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Task:
    """One chunk in one stage.

    Attributes:
        tick: when it runs if all tasks take one tick.
        stage: where.
        chunk: what.
        phase: forward or backward.
    """

    tick: int
    stage: int
    chunk: int
    phase: Literal["forward", "backward"]


def chunk_order(chunks: int, seed: int, epoch: int, reshuffle: bool = True) -> list[int]:
    """The order of an epoch; without `reshuffle` the order of epoch 0 is kept."""
    order = np.empty(chunks, np.int64)
    _core.shuffled(chunks, seed, epoch if reshuffle else 0, 0, order)
    return [int(c) for c in order]


def schedule(stages: int, order: list[int]) -> list[Task]:
    """All tasks of an epoch by tick: forward in order, then backward in reverse.

    A phase takes K + S - 1 ticks, of which a stage works K.
    """
    count, tasks = len(order), []
    for place, chunk in enumerate(order):
        for stage in range(stages):
            tasks.append(Task(place + stage, stage, chunk, "forward"))
            back = (count + stages - 1) + (count - 1 - place) + (stages - 1 - stage)
            tasks.append(Task(back, stage, chunk, "backward"))
    return sorted(tasks, key=lambda task: (task.tick, task.stage))


def draw_key(*names: int) -> int:
    """A 63-bit key for the random numbers of (seed, epoch, layer, chunk): SplitMix64, folded.

    So dropout does not depend on how many stages there are, or on what is recomputed.
    """
    state = 0
    for name in names:
        state = (state ^ (name & _MASK)) + 0x9E3779B97F4A7C15 & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state >> 1
