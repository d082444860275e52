"""peers: what other systems' ways of reading cost on a trace, counted in bytes and requests.

These do not gather the same rows in the same order as the policies of `policies`, so they have no
plan: packing reads a copy of the rows that was written beforehand, a buffer of partitions leaves
out rows that it does not hold, and a cache of neighbour lists is about topology. Only their
policies are counted, as kindly as the trace allows; none of their code is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.plan.baselines.policies import Trace
from foregather.plan.planner import PAGE, Rows

__all__ = [
    "Buffered",
    "Packed",
    "degree_score",
    "held_lists",
    "pack_and_replay",
    "partition_buffer",
]

Array = npt.NDArray[np.int64]


def _batches(trace: Trace) -> list[Rows]:
    return [batch for bulk in trace for batch in bulk]


def _counts(trace: Trace, num_rows: int) -> Array:
    counts = np.zeros(num_rows, np.int64)
    for batch in _batches(trace):
        counts[batch] += 1
    return counts


@dataclass(frozen=True)
class Packed:
    """Packing and replay (DiskGNN's way): bytes and requests.

    Attributes:
        rows: rows asked for in an epoch.
        hits: of those in memory.
        bytes: read in an epoch.
        requests: of an epoch.
        scanned: read once, to pack.
        written: packed once; what the disk holds in addition.
        hot_bytes: read once into memory.
    """

    rows: int
    hits: int
    bytes: int
    requests: int
    scanned: int
    written: int
    hot_bytes: int

    def moved(self, epochs: int) -> float:
        """Bytes of an epoch, with those of packing shared among this many epochs."""
        return self.bytes + (self.scanned + self.written + self.hot_bytes) / epochs


def pack_and_replay(trace: Trace, geometry: _core.Geometry, num_slots: int) -> Packed:
    """Holds the rows that the trace uses most, and packs the rest of each batch as one run.

    The trace is an epoch that is replayed: later epochs see the same batches, which is where
    packing pays, and what other systems do not do. Runs are of whole pages.
    """
    counts = _counts(trace, geometry.num_rows)
    order = np.argsort(-counts, kind="stable")[:num_slots]
    hot = np.zeros(geometry.num_rows, bool)
    hot[order[counts[order] > 0]] = True
    rows = hits = read = requests = 0
    for batch in _batches(trace):
        inside = int(hot[batch].sum())
        run = (len(batch) - inside) * geometry.row_bytes
        rows, hits = rows + len(batch), hits + inside
        read += -(-run // PAGE) * PAGE
        requests += run > 0
    held = int(hot.sum()) * geometry.row_bytes
    return Packed(rows, hits, read, requests, geometry.file_bytes if read else 0, read, held)


@dataclass(frozen=True)
class Buffered:
    """A buffer of partitions (MariusGNN's way): bytes and requests of an epoch, and what is kept.

    Attributes:
        rows: rows asked for.
        kept: of those in the buffer when their batch is trained; the others are left out.
        bytes: read.
        requests: partitions read.
        states: contents that the buffer has in turn.
    """

    rows: int
    kept: int
    bytes: int
    requests: int
    states: int


def partition_buffer(
    trace: Trace, geometry: _core.Geometry, num_slots: int, partitions: int, seed: int = 0
) -> Buffered:
    """Reads every partition once in an epoch, as many at a time as the memory holds.

    Partitions are equal ranges of rows in the order of the file, dealt at random to the states of
    the buffer. Each batch is trained in the state that holds most of its rows, which is kinder
    than any order that is fixed before.

    Raises:
        InputError: the memory does not hold one partition.
    """
    size = -(-geometry.num_rows // partitions)
    used = -(-geometry.num_rows // size)
    held = num_slots // size
    if held < 1:
        raise InputError(
            f"{num_slots} rows of memory and {partitions} partitions of {size} rows were given; "
            f"use at least {-(-geometry.num_rows // max(num_slots, 1))} partitions"
        )
    state = np.empty(used, np.int64)
    state[np.random.default_rng(seed).permutation(used)] = np.arange(used) // held
    states = int(state.max()) + 1
    rows = kept = 0
    for batch in _batches(trace):
        found = np.bincount(state[batch // size], minlength=states)
        rows, kept = rows + len(batch), kept + int(found.max(initial=0))
    return Buffered(rows, kept, geometry.num_rows * geometry.row_bytes, used, states)


def degree_score(named: Array, degree: Array) -> npt.NDArray[np.float64]:
    """Ginex's score of a neighbour list: how many lists name the node / length of its own."""
    return np.asarray((named + 1e-8) / (degree + 1e-8), np.float64)


def held_lists(
    score: npt.NDArray[np.float64], degree: Sequence[int] | Array, memory: int, id_bytes: int = 8
) -> npt.NDArray[np.bool_]:
    """Which nodes have their list in memory: those with the best scores, as long as they fit.

    A list takes its ids and one number for its length, as in Ginex's file.
    """
    order = np.argsort(-score, kind="stable")
    ends = np.cumsum((np.asarray(degree, np.int64)[order] + 1) * id_bytes)
    held = np.zeros(len(order), bool)
    held[order[ends <= memory]] = True
    return held
