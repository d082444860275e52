"""schedule: what every rank does in a pass, and in which order, decided beforehand; values only.

One schedule serves all: the engine carries it out, the simulator prices it, and its messages add up
to the predicted bytes. All stages and layers of an epoch use one order of chunks; the backward pass
reverses it. It is a pure function of (seed, epoch, K), so that ranks agree without a message. If
chunks pass abreast, it is an order of ticks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from foregather import _core
from foregather.pipeline.partition.way_rows import own_chunks
from foregather.pipeline.passes.segments import Op, StageProgram, shared_layers
from foregather.pipeline.planning.chunk_order import chunk_order

__all__ = ["How", "Kind", "Schedule", "Task", "chunk_order", "draw_key", "exact_pass"]

_MASK = (1 << 64) - 1

How = Literal["chunkwise", "layerwise", "columns"]
Kind = Literal["receive", "run", "send", "again", "exchange", "free", "agree", "sum"]


@dataclass(frozen=True, slots=True)
class Task:
    """One thing a rank does.

    Attributes:
        kind: "receive" and "send" move the rows of one chunk between stages (forward), or their
            gradients (backward); "run" takes chunks through ops; "again" recomputes what a
            backward run needs; "exchange" moves rows of one aggregation between ways, or their
            gradients; "free" frees what a segment read, or what was in front of the next one;
            "agree" makes all ranks agree on the loss, or on the gradients; "sum" adds the gradients
            of weights along a chain of ranks.
        backward: whether it belongs to the backward pass.
        chunks: own chunks.
        ticks: those the chunks belong to; for an exchange, those whose rows cross.
        ops: what is run.
        segment: the segment of the stage, if chunks go segment by segment.
        layers: for "run" and "again", the aggregations in which ways exchange while it runs; for
            "exchange", the one whose messages cross; for "sum", those whose weights it is about.
        peers: the chain of ranks of "agree" and "sum"; the other rank of "receive" and "send".
    """

    kind: Kind
    backward: bool = False
    chunks: tuple[int, ...] = ()
    ticks: tuple[int, ...] = ()
    ops: tuple[Op, ...] = ()
    segment: int = 0
    layers: tuple[int, ...] = ()
    peers: tuple[int, ...] = ()

    @property
    def updates(self) -> list[int]:
        """The layers whose update is run."""
        return [op.layer for op in self.ops if op.kind == "update"]

    @property
    def layers_run(self) -> list[int]:
        """The layers that are run: those run again for a skip tensor, then the stage's own."""
        again = [n for op in self.ops if op.kind == "again" for n in range(op.layer + 1)]
        return [*again, *self.updates]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The tasks of all ranks in one pass: forward, and backward if gradients are needed.

    Attributes:
        how: "chunkwise": a tick goes through all layers of a stage, then the next tick.
            "layerwise": all chunks go through a segment, then through the next. "columns": dense
            parts by nodes and aggregations by columns.
        programs: what each stage does.
        ways: G; ranks are numbered stage by stage.
        chunks: K; chunk c belongs to tick c modulo the ticks.
        order: ticks, first to last.
        gradients: False for a forward pass alone.
        recompute: the backward pass recomputes what it needs.
    """

    how: How
    programs: tuple[StageProgram, ...]
    ways: int
    chunks: int
    order: tuple[int, ...]
    gradients: bool = True
    recompute: bool = False

    @property
    def ranks(self) -> int:
        """Stages times ways."""
        return len(self.programs) * self.ways

    @property
    def shared(self) -> tuple[int, ...]:
        """Layers whose weights several stages hold."""
        return shared_layers(self.programs)

    def tasks(self, rank: int) -> tuple[Task, ...]:
        """Returns what a rank does, in order; gradients begin with its first backward task."""
        stage, way = divmod(rank, self.ways)
        return tuple(_Rank(self, stage, way).tasks())

    def own_tick(self, way: int, tick: int) -> tuple[int, ...]:
        """Returns the chunks of a tick that a way has."""
        mine = own_chunks(self.chunks, way, self.ways)
        return tuple(c for c in range(tick, self.chunks, len(self.order)) if c in mine)

    def exchanging(self, stage: int) -> tuple[int, ...]:
        """Returns a stage's aggregations whose messages cross between ways; features never do."""
        program = self.programs[stage]
        if self.ways == 1:
            return ()
        read = (n for n in program.aggregating if n or not program.reads_features)
        return tuple(n for n in read if n not in program.apart)

    def segments(self, stage: int) -> tuple[tuple[Op, ...], ...]:
        """Returns the ops of a stage between aggregations.

        Features are read in place: nothing is run before they are aggregated.
        """
        program = self.programs[stage]
        return program.segments[1:] if program.reads_features else program.segments

    def show(self, most: int = 12) -> str:
        """Shows who runs which chunks when, one line per rank; long phases are shortened."""
        return "\n".join(self._show(rank, most) for rank in range(self.ranks))

    def _show(self, rank: int, most: int) -> str:
        stage, way = divmod(rank, self.ways)
        tasks, program = self.tasks(rank), self.programs[stage]
        phases = []
        for backward in (False, True):
            runs = [t for t in tasks if t.kind == "run" and t.backward is backward]
            names = ["+".join(map(str, task.chunks)) for task in runs]
            rest = [f"... {len(names)} in all"] if len(names) > most else []
            if names:
                word = "backward" if backward else "forward"
                phases.append(f"{word} {' '.join([*names[:most], *rest])}")
        where = f"stage {stage}" + (f" way {way}" if self.ways > 1 else "")
        layers = f"layers {program.first} to {program.last - 1}"
        return f"{where}, {layers}: chunks {'; '.join(phases)}"


class _Rank:
    """Writes the tasks of one rank."""

    def __init__(self, schedule: Schedule, stage: int, way: int) -> None:
        self._schedule, self._stage, self._way = schedule, stage, way
        self._program = schedule.programs[stage]
        self._first, self._last = stage == 0, stage + 1 == len(schedule.programs)
        self._exchanging = schedule.exchanging(stage)

    def tasks(self) -> Iterator[Task]:
        """Forward and agreement; then backward, sums and agreement."""
        schedule = self._schedule
        phase = {
            "chunkwise": self._chunkwise,
            "layerwise": self._layerwise,
            "columns": self._columns,
        }[schedule.how]
        everyone = tuple(range(schedule.ranks))
        yield from phase(False)
        yield Task("agree", peers=everyone)
        if schedule.gradients:
            yield from phase(True)
            yield from self._sums(everyone)
            yield Task("agree", True, peers=everyone)

    def _chunkwise(self, backward: bool) -> Iterator[Task]:
        """Tick by tick through all layers of the stage."""
        schedule = self._schedule
        ops = tuple(op for segment in self._program.segments for op in segment)
        for tick in reversed(schedule.order) if backward else schedule.order:
            chunks = schedule.own_tick(self._way, tick)
            run = Task("run", backward, chunks, (tick,), ops, layers=self._exchanging)
            if backward and schedule.recompute:
                yield Task("again", True, chunks, (tick,), ops, layers=self._exchanging)
            yield from self._receives(chunks, backward)
            yield run
            yield from self._sends(chunks, backward)

    def _layerwise(self, backward: bool) -> Iterator[Task]:
        """All chunks through a segment; then rows of all of them cross between ways."""
        segments = self._schedule.segments(self._stage)
        places = range(len(segments))
        for place in reversed(places) if backward else places:
            enters = place + 1 == len(segments) if backward else place == 0
            leaves = place == 0 if backward else place + 1 == len(segments)
            yield from self._segment(place, segments[place], backward, enters, leaves)
            read = place if backward else place + 1  # the segment that reads what crosses
            if 0 < read < len(segments) and segments[read][0].layer in self._exchanging:
                layer = segments[read][0].layer
                ticks = tuple(range(len(self._schedule.order)))
                yield Task("exchange", backward, ticks=ticks, segment=read, layers=(layer,))
            yield Task("free", backward, segment=place)

    def _segment(
        self, place: int, ops: tuple[Op, ...], backward: bool, enters: bool, leaves: bool
    ) -> Iterator[Task]:
        schedule = self._schedule
        mine = [(t, c) for t in schedule.order for c in schedule.own_tick(self._way, t)]
        for tick, chunk in reversed(mine) if backward else mine:
            run = Task("run", backward, (chunk,), (tick,), ops, place)
            if backward and schedule.recompute:
                yield Task("again", True, (chunk,), (tick,), ops, place)
            if enters:
                yield from self._receives((chunk,), backward)
            yield run
            if leaves:
                yield from self._sends((chunk,), backward)

    def _columns(self, backward: bool) -> Iterator[Task]:
        """All layers at once; sums of features have no gradient to trade."""
        ops = tuple(op for segment in self._program.segments for op in segment)
        layers = self._exchanging if backward else tuple(self._program.aggregating)
        chunks = tuple(own_chunks(self._schedule.chunks, self._way, self._schedule.ways))
        yield Task("run", backward, chunks, self._schedule.order, ops, layers=layers)

    def _receives(self, chunks: Sequence[int], backward: bool) -> Iterator[Task]:
        if not (self._last if backward else self._first):
            peer = self._peer(+1 if backward else -1)
            for chunk in chunks:
                yield Task("receive", backward, (chunk,), peers=(peer,))

    def _sends(self, chunks: Sequence[int], backward: bool) -> Iterator[Task]:
        if not (self._first if backward else self._last):
            peer = self._peer(-1 if backward else +1)
            for chunk in chunks:
                yield Task("send", backward, (chunk,), peers=(peer,))

    def _sums(self, everyone: tuple[int, ...]) -> Iterator[Task]:
        """Sums weights of a stage over its ways, and those that several stages hold over all."""
        schedule, shared = self._schedule, self._schedule.shared
        own = (n for n in range(self._program.first, self._program.last) if n not in shared)
        first = self._stage * schedule.ways
        if schedule.ways > 1:
            ways = tuple(range(first, first + schedule.ways))
            yield Task("sum", True, layers=tuple(own), peers=ways)
        if shared and schedule.ranks > 1:
            yield Task("sum", True, layers=shared, peers=everyone)

    def _peer(self, step: int) -> int:
        return (self._stage + step) * self._schedule.ways + self._way


def exact_pass(split: str, ways: int, ticks: int) -> How:
    """Returns how an exact epoch is run.

    With several ways and one tick, nothing is stale chunk by chunk either, and exchanges overlap.
    """
    if split == "columns":
        return "columns"
    return "chunkwise" if ways > 1 and ticks == 1 else "layerwise"


def draw_key(*names: int) -> int:
    """Makes a 63-bit key for the random numbers of (seed, epoch, layer, chunk).

    So dropout depends neither on the number of stages nor on what is recomputed.
    """
    return _core.fold_key(np.array([name & _MASK for name in names], np.uint64)) >> 1
