"""budget: chooses what is kept, run again and written to a file, so that memory suffices.

Without a budget this is what `Runtime(recompute=...)` says. With one, what costs the least time is
chosen: everything kept; some stretches run again; inputs of layers in a file; gradients of rows
there too. A budget is for the whole process: what it has already counts.

`loader/memory/division` is not used here. It divides what is free between a cache, staging and
bulks, by fixed parts and reserves, and more memory makes each of them larger. An epoch on the full
graph has no cache that takes the rest: its tensors are measured, it either fits or does not, and
the fastest way that fits is looked for among those that keep, run again and write different parts.
"""

import ctypes
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from foregather.errors import BudgetError, InputError
from foregather.observe.disk import MEMORY_FILESYSTEMS
from foregather.observe.machine import describe_place
from foregather.observe.usable_memory import trim_memory
from foregather.pipeline.options import Runtime
from foregather.pipeline.passes.stage import Stage
from foregather.pipeline.whole.adjacency import Adjacency
from foregather.pipeline.whole.costs import Measured, measure
from foregather.pipeline.whole.pieces import Pieces, usual_pieces
from foregather.pipeline.whole.scratch import padded_bytes
from foregather.pipeline.whole.stretches import (
    SegmentCost,
    Stretch,
    cheapest,
    shortest_of,
    stretch_bytes,
)
from foregather.units import format_bytes, parse_size

__all__ = ["Choice", "choose", "file_bytes", "scratch_folder", "run_again"]

_MALLOC_MMAP_THRESHOLD = -3  # of mallopt
_BLOCK = 4 << 20  # blocks from here on are given back at once, so that no holes stay
_SPARE = 48 << 20  # what torch and Python allocate beside rows


@dataclass(frozen=True, slots=True)
class Choice:
    """What an epoch keeps.

    Attributes:
        stretches: of all segments.
        spill_adjoints: whether gradients of rows wait in the file.
        costs: of the segments, if they were measured.
        most: bytes held at most beside the graph and what the process had, in an epoch or an
            evaluation, gradients and Adam's moments of weights among them; 0 if not measured.
        had: bytes that count beside them in a budget: what the process had, and some to spare.
    """

    stretches: tuple[Stretch, ...]
    spill_adjoints: bool = False
    costs: tuple[SegmentCost, ...] = ()
    most: int = 0
    had: int = 0

    def explain(self, pieces: int, size: int) -> str:
        """What is kept, run again and written, in one line."""
        count = self.stretches[-1].last
        again = len(run_again(self.stretches))
        told = f"{count - again} of {count} segments kept, {again} run again, {pieces} pieces"
        if size:
            told += f", {format_bytes(size)} in a file"
        return f"{told}; {format_bytes(self.most)} at most" if self.most else told


def choose(
    stage: Stage, adjacency: Adjacency, found: Measured | None = None
) -> tuple[Choice, Pieces]:
    """Chooses what is kept, and how the nodes are cut.

    Args:
        stage: the only stage.
        adjacency: its edges.
        found: costs of its segments; None measures them where they matter.

    Raises:
        BudgetError: the memory is too little for one chunk of one layer.
    """
    runtime, program = stage.runtime, stage.program
    count = len(program.segments) - program.reads_features
    everything = (Stretch(0, count, True),)
    if runtime.memory is None and runtime.recompute in ("none", "dense"):
        return Choice(everything), Pieces(stage, 1)
    chunks = len(stage.chunks)
    shape = stage.chunks.order.size, max(stage.widths.x[1:]), chunks
    usual = usual_pieces(*shape, budget=runtime.memory is not None)
    if runtime.memory is None and runtime.recompute == "all":
        return Choice(_single(count, False)), Pieces(stage, usual)
    found = found or measure(stage)
    if runtime.memory is None:
        pieces = Pieces(stage, usual)
        need = _Need(found, pieces)
        if runtime.recompute == "disk":
            most = need.spilled(False) + _weights(stage)
            return Choice(_single(count, True), False, found.segments, most), pieces
        _, stretches = shortest_of(found.segments, need.parts)
        most = _most(found.segments, tuple(stretches), need)
        made = _at_once(found.segments, stretches, need, most)
        return Choice(made, False, found.segments, most + _weights(stage)), pieces
    for norm in found.norms:
        adjacency.lists(norm)
    return _within(stage, found, parse_size(runtime.memory), usual)


def run_again(stretches: Sequence[Stretch]) -> list[int]:
    """Segments that are run again: all but those that are kept, and the last stretch."""
    again = [one for one in stretches[:-1] if not one.kept]
    return [number for one in again for number in range(one.first, one.last)]


def _single(count: int, spilled: bool) -> tuple[Stretch, ...]:
    """Every segment for itself."""
    return tuple(Stretch(n, n + 1, False, spilled) for n in range(count))


@dataclass(frozen=True, slots=True)
class _Need:
    """Bytes that are needed, from measured costs, for a cut into pieces."""

    found: Measured
    pieces: Pieces

    @property
    def parts(self) -> float:
        """How many pieces there would be, if all were as large as the largest."""
        return self.pieces.nodes / max(1, self.pieces.largest)

    @property
    def _x(self) -> int:
        return max(cost.x for cost in self.found.segments)

    @property
    def _message(self) -> int:
        return max(cost.message for cost in self.found.segments)

    @property
    def _read(self) -> int:
        return max((cost.message or cost.x) for cost in self.found.segments)

    @property
    def sums(self) -> int:
        """Sums of all pieces, of all norms that a layer asks for."""
        return self._read * self.found.sums

    @property
    def _always(self) -> int:
        """Skip tensors with their gradients, features that are summed, and the work of a piece."""
        rows = max(self._x, self._message, self.found.scores)
        widest = max(cost.saved for cost in self.found.segments) + 6 * rows
        work = int(1.5 * widest / self.parts)
        edges = 0
        if self.found.reads_edges:  # rows of others, their gradients, and a row for each edge
            edges = 2 * self._read + int(3 * self._read * self.found.degree / self.parts)
        if self.found.reads_moments:  # gradients of all rows, and a part of them to add
            edges += 2 * self._read
        return 2 * self.found.skips + self.found.features + work + edges

    @property
    def forward(self) -> int:
        """Beside inputs that are held: rows in front of a segment, and of the next."""
        return self._always + 2 * (self._x + self._message)

    @property
    def scoring(self) -> int:
        """Of evaluation beside rows: scores of all nodes, those of a split, and their classes."""
        return 3 * self.found.scores

    @property
    def base(self) -> int:
        """Beside what stretches hold while they go back: gradients."""
        return self._always + self._gradients + self._read

    @property
    def _gradients(self) -> int:
        """Of the rows in front of a segment and behind it; room of equal width is used again."""
        most, behind = 0, list[int]()
        for cost in reversed(self.found.segments):
            free, own = list(behind), [cost.x, cost.message]
            for size in own:
                if size in free:
                    free.remove(size)
            most, behind = max(most, sum(own) + sum(free)), own
        return most

    def spilled(self, adjoints: bool) -> int:
        """With the inputs of layers in a file, and gradients of rows too."""
        buffers = int(6 * max(self._x, self._message) / self.parts)
        gradients = 0 if adjoints else self._gradients
        rows = 2 * self._read + buffers
        return self._always + rows + max(gradients, self.scoring)


def _within(stage: Stage, found: Measured, memory: int, usual: int) -> tuple[Choice, Pieces]:
    """The fastest choice that fits."""
    set_block()
    weights = _weights(stage)
    trim_memory()  # what nobody holds any more is not the process's own: a failed plan, an old run
    present = resident() + _SPARE
    had = present + weights
    room, costs = memory - had, found.segments
    count, chunks = len(costs), len(stage.chunks)
    whole = (Stretch(0, count, True),)
    single = Pieces(stage, 1)
    need = _Need(found, single)
    most = max(sum(cost.held for cost in costs) + need.base, need.forward + need.scoring)
    if most <= room:
        return Choice(whole, False, costs, most + weights, present), single
    counts = sorted({usual, *(min(chunks, usual << n) for n in range(1, 8)), chunks})
    tries = [Pieces(stage, pieces) for pieces in counts if pieces >= min(usual, chunks)]
    for pieces in tries:
        need = _Need(found, pieces)
        fitting = cheapest(costs, room - need.base, need.parts)
        if fitting is None:
            continue
        stretches = tuple(fitting[1])
        most = _most(costs, stretches, need)
        if most <= room:
            stretches = _at_once(costs, stretches, need, most)
            return Choice(stretches, False, costs, most + weights, present), pieces
    least = 0
    for adjoints in (False, True):
        for pieces in tries:
            least = _Need(found, pieces).spilled(adjoints)
            if least <= room:
                made = _single(count, True)
                return Choice(made, adjoints, costs, least + weights, present), pieces
    error = BudgetError(
        f"memory is {format_bytes(memory)}, expected at least {format_bytes(had + least)}: "
        f"{format_bytes(had)} for the process with all it holds now, the graph and the weights, "
        f"and {format_bytes(least)} for one of {chunks} chunks of one layer; give more memory, let "
        "go of other runs, or use more chunks"
    )
    error.least = had + least
    raise error


def _weights(stage: Stage) -> int:
    """Bytes that weights add: their gradients, Adam's two moments, and those of the best epoch."""
    found = {id(p): p.nbytes for layer in stage.layers for p in layer.parameters()}
    return 4 * sum(found.values())


def _most(costs: tuple[SegmentCost, ...], stretches: tuple[Stretch, ...], need: _Need) -> int:
    """Bytes held at most, for stretches in memory."""
    held = most = 0
    for stretch in stretches:
        now = stretch_bytes(costs, stretch, need.parts)
        most = max(most, held + now)
        held += now if stretch.kept else costs[stretch.first].x
    return max(most + need.base, held + need.forward, need.forward + need.scoring)


def _at_once(
    costs: Sequence[SegmentCost], stretches: Sequence[Stretch], need: _Need, most: int
) -> tuple[Stretch, ...]:
    """Marks where a forward pass that makes all sums at once holds no more than `most`."""
    held, made = 0, []
    for one in stretches:
        held += sum(c.held for c in costs[one.first : one.last]) if one.kept else costs[one.first].x
        room = most - held - need.forward
        made.append(replace(one, at_once=not one.kept and need.sums <= room))
    return tuple(made)


def file_bytes(choice: Choice, pieces: Pieces) -> int:
    """Bytes of the file that a choice needs."""
    spilled = [choice.costs[one.first] for one in choice.stretches if one.spilled]
    nodes = pieces.nodes
    total = sum(padded_bytes(pieces, cost.x // nodes) for cost in spilled)
    if choice.spill_adjoints:
        widest = max(cost.x // nodes for cost in choice.costs)
        message = max(cost.message // nodes for cost in choice.costs)
        total += 2 * (padded_bytes(pieces, widest) + padded_bytes(pieces, message))
    return total


def scratch_folder(runtime: Runtime) -> Path:
    """The folder of the file.

    Raises:
        InputError: it is in memory, where a file would save nothing.
    """
    folder = Path(runtime.scratch or tempfile.gettempdir())
    kind = describe_place(folder)["filesystem"]
    if kind in MEMORY_FILESYSTEMS:
        raise InputError(
            f"scratch is {folder}, which is held in memory ({kind}), expected a folder on a disk; "
            "name one with Runtime(scratch=...)"
        )
    return folder


def resident() -> int:
    """Resident bytes of this process that no file could give back."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return sum(1024 * int(fields[name][0]) for name in ("RssAnon", "RssShmem") if name in fields)


def set_block() -> None:
    """Has large blocks given back to the system when they are freed: holes count as used."""
    try:
        ctypes.CDLL(None).mallopt(_MALLOC_MMAP_THRESHOLD, _BLOCK)
    except (OSError, AttributeError):  # another libc, which has no such setting
        return
