"""measured_line: what ranks measure together: the line between two of them, and what layers cost.

Layers are profiled by all ranks at once, because ranks of one machine share its caches, its memory
and, if two of them are threads of one core, its units.
"""

import os
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
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
_BESIDE = 0.004  # seconds of computing while messages are on their way
_EXCHANGES = 40
_LARGE = 1 << 18  # float32 values of an exchange beside computing


def measure_line(group: Any = None) -> Line:
    """Times messages between the first two ranks; all ranks must call it, and get the same.

    Raises:
        InputError: torch.distributed is not in use, or has one rank.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size(group) < 2:
        raise InputError("a line is measured between two ranks; start more with torchrun")
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    place, cores = ranks.index(dist.get_rank()), shared_cores(group)
    spare = cores is None and len(os.sched_getaffinity(0)) > torch.get_num_threads()
    found = torch.zeros(2 + len(_SIZES), dtype=torch.float64)
    if place < 2:
        took = [_to_and_fro(place, ranks[1 - place], size, group) for size in _SIZES]
        found[2:] = torch.tensor(took, dtype=found.dtype)
        if not spare:
            rate = 4 * _SIZES[-1] / took[-1]
            found[:2] = torch.tensor(_work(ranks[1 - place], took[0], rate, cores, group))
    dist.broadcast(found, ranks[0], group=group)
    work, call, *took = found.tolist()
    line = fit_line([4 * size for size in _SIZES], took, work, cores)
    return replace(line, call=call)


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


def _work(
    other: int, latency: float, rate: float, cores: int | None, group: Any
) -> tuple[float, float]:
    """Seconds that messages take from computing on a core that they share: by byte, and by message.

    Messages of an idle rank say too little: here the transport has to wait for the core, too. What
    an exchange beside computing takes longer than computing alone is shared by one message that is
    sent and one that is received. For bytes only processor time tells where they pass too slowly to
    be there by then, and where ranks share cores, for which simulations have them wait.
    """
    few, many = (_beside(other, count, 4 * latency, group) for count in (1, _LARGE))
    wall, worked = ((b - a) / (2 * 4 * _LARGE) for a, b in zip(few, many, strict=True))
    if cores is not None or 4 * _LARGE / rate + latency > _BESIDE:
        wall = 0.0
    return max(0.0, wall, worked), max(0.0, few[0]) / 2


def _beside(other: int, count: int, least: float, group: Any) -> tuple[float, float]:
    """Mean seconds, and seconds of the processor, of an exchange beyond those of computing."""
    out, into, sign = torch.zeros(count), torch.empty(count), torch.zeros(1)
    rows, weights = torch.ones(2000, 64), torch.ones(64, 64)

    def compute(times: int) -> tuple[float, float]:
        begin, worked = time.perf_counter(), time.process_time()
        for _ in range(times):
            rows @ weights
        return time.perf_counter() - begin, time.process_time() - worked

    one = statistics.median(compute(1)[0] for _ in range(20))
    times = max(1, int(max(_BESIDE, least) / max(one, 1e-7)))
    alone = _means([compute(times) for _ in range(9)])
    took: list[tuple[float, float]] = []
    for _ in range(_EXCHANGES):
        ready: Any = dist.isend(sign, other, group=group)
        dist.recv(torch.empty(1), other, group=group)
        ready.wait()
        begin, worked = time.perf_counter(), time.process_time()
        coming: Any = dist.irecv(into, other, group=group)
        going: Any = dist.isend(out, other, group=group)
        compute(times)
        coming.wait()
        going.wait()
        took.append((time.perf_counter() - begin, time.process_time() - worked))
    both = _means(took)
    return both[0] - alone[0], both[1] - alone[1]


def _means(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Means without the slowest tenth: waits for a core vary, and an epoch has the sum of many."""
    some = sorted(pairs)[: len(pairs) - len(pairs) // 10]
    return statistics.fmean(a for a, _ in some), statistics.fmean(b for _, b in some)


def _to_and_fro(place: int, other: int, count: int, group: Any) -> float:
    """Returns seconds per message: half the fastest of several round trips."""
    rows, best = torch.zeros(count), float("inf")
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
    return best / 2
