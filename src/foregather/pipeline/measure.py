"""measure: the line between two ranks: latency of a small message, rate of a large one."""

import time
from typing import Any

import torch
import torch.distributed as dist

from foregather.errors import InputError
from foregather.pipeline.simulate import Line

__all__ = ["measure_line"]

_SMALL, _LARGE, _REPEATS = 1, 1 << 20, 5  # float32 values


def measure_line(group: Any = None) -> Line:
    """Messages to and fro between the first two ranks; all ranks call it and get the same.

    Raises:
        InputError: torch.distributed is not in use, or has one rank.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size(group) < 2:
        raise InputError("a line is measured between two ranks; start more with torchrun")
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    place = ranks.index(dist.get_rank())
    found = torch.zeros(2, dtype=torch.float64)
    if place < 2:
        small = _to_and_fro(place, ranks[1 - place], _SMALL, group)
        large = _to_and_fro(place, ranks[1 - place], _LARGE, group)
        found += torch.tensor([small, large], dtype=torch.float64)
    dist.broadcast(found, ranks[0], group=group)
    small, large = found.tolist()
    rate = 4 * (_LARGE - _SMALL) / max(large - small, 1e-9)
    return Line(small, rate)


def _to_and_fro(place: int, other: int, count: int, group: Any) -> float:
    """Seconds of one message: half the fastest of several round trips."""
    rows, best = torch.zeros(count), float("inf")
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        for turn in (0, 1):
            if turn == place:
                dist.send(rows, other, group=group)
            else:
                dist.recv(rows, other, group=group)
        best = min(best, time.perf_counter() - begin)
    return best / 2
