"""measured_line: what ranks measure together: the line between two of them, and what layers cost.

Layers are profiled by all ranks at once, because ranks of one machine share its caches, its memory
and, if two of them are threads of one core, its units.
"""

import os
import socket
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from foregather.errors import ForegatherError, InputError
from foregather.graph.graph import Graph
from foregather.pipeline.options import Runtime
from foregather.pipeline.planning.profile import LayerCost, mean_cost
from foregather.pipeline.planning.workload import workload_of
from foregather.plan.line import Line

__all__ = ["fit_line", "measure_costs", "measure_line"]

_SIZES = (1, 1 << 14, 1 << 19, 1 << 20)  # float32 values; a burst is seen up to the third
_REPEATS = 5
_PAUSE = 0.02  # seconds before large messages, in which a shaped link saves up its burst


def measure_line(group: Any = None) -> Line:
    """Times messages between the first two ranks; all ranks must call it, and get the same.

    Raises:
        InputError: torch.distributed is not in use, or has one rank.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size(group) < 2:
        raise InputError("a line is measured between two ranks; start more with torchrun")
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    place, cores = ranks.index(dist.get_rank()), shared_cores(group)
    found = torch.zeros(1 + len(_SIZES), dtype=torch.float64)
    if place < 2:
        both = [_to_and_fro(place, ranks[1 - place], size, group) for size in _SIZES]
        spare = cores is None and len(os.sched_getaffinity(0)) > torch.get_num_threads()
        work = 0.0 if spare else both[-1][1] / (4 * _SIZES[-1])
        found += torch.tensor([work, *(took for took, _ in both)], dtype=torch.float64)
    dist.broadcast(found, ranks[0], group=group)
    work, *took = found.tolist()
    return fit_line([4 * size for size in _SIZES], took, work, cores)


def fit_line(
    sizes: Sequence[int], took: Sequence[float], work: float = 0.0, cores: int | None = None
) -> Line:
    """The line on which messages take these seconds, each after a pause.

    The rate is that between the two largest. If small ones pass faster, a burst does: it is what
    the largest would have needed longer without it.

    Args:
        sizes: bytes of four messages, ascending.
        took: their seconds.
        work: of the line.
        cores: of the line.
    """
    latency, (few, many) = took[0], (sizes[2], sizes[3])
    whole = (many - sizes[0]) / max(took[3] - latency, 1e-9)
    peak = (sizes[1] - sizes[0]) / max(took[1] - latency, 1e-9)
    rate = (many - few) / max(took[3] - took[2], 1e-9)
    burst = many - rate * (took[3] - latency)
    ordered = all(a < b for a, b in pairwise(took))  # else the machine was busy
    if not ordered or burst <= 0 or burst * peak > few * (peak - rate):  # it would last longer
        return Line(latency, whole, work, cores=cores)
    return Line(latency, rate, work, cores=cores, burst=burst, peak=peak)


def shared_cores(group: Any = None) -> int | None:
    """Returns how many ranks can compute at once, if one machine has too few cores for all.

    All ranks must call it, and get the same; None if they are on several machines, or have enough.
    """
    threads = torch.get_num_threads()
    own = (socket.gethostname(), sorted(os.sched_getaffinity(0)), threads)
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, own, group)
    if len({host for host, _, _ in found}) > 1:
        return None
    cores = len({core for _, some, _ in found for core in some})
    at_once = max(1, cores // max(count for _, _, count in found))
    return at_once if at_once < len(found) else None


def measure_costs(graph: Graph, layers: Sequence[nn.Module], group: Any = None) -> list[LayerCost]:
    """Measures the mean cost of each layer while all ranks compute; all ranks get the same.

    Where there are fewer cores than ranks, as many ranks as there are cores measure at a time.

    Raises:
        ForegatherError: the error of one rank, on all of them.
    """
    own: list[LayerCost] | ForegatherError = []
    size, place = dist.get_world_size(group), dist.get_rank(group)
    at_once = shared_cores(group) or size
    for first in range(0, size, at_once):
        dist.barrier(group)
        if first <= place < first + at_once:
            try:
                own = list(workload_of(graph, layers, Runtime()).costs)
            except ForegatherError as error:
                own = error
    found: list[Any] = [None] * size
    dist.all_gather_object(found, own, group)
    for one in found:
        if isinstance(one, ForegatherError):
            raise one
    return [mean_cost(costs) for costs in zip(*found, strict=True)]


def _to_and_fro(place: int, other: int, count: int, group: Any) -> tuple[float, float]:
    """Returns seconds per message (half the fastest of several round trips), and of its work."""
    rows, best = torch.zeros(count), float("inf")
    worked = time.process_time()
    for _ in range(_REPEATS):
        if count > _SIZES[0]:
            time.sleep(_PAUSE)
        begin = time.perf_counter()
        for turn in (0, 1):
            if turn == place:
                dist.send(rows, other, group=group)
            else:
                dist.recv(rows, other, group=group)
        best = min(best, time.perf_counter() - begin)
    return best / 2, (time.process_time() - worked) / (2 * _REPEATS)
