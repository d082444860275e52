"""way_rows: the rows one way holds: those of its own chunks, and those it reads from other ways.

Ways own ranges of chunks, so own rows are a range of new numbers; rows of other ways (`outside`)
follow in a buffer, ascending. Both ways know which rows cross between them, so no id is sent.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foregather.pipeline.partition.chunk_topology import ChunkTopology

__all__ = ["Reach", "own_chunks"]

Ids = npt.NDArray[np.int64]


def own_chunks(chunks: int, way: int, ways: int) -> range:
    """The chunks of a way."""
    return range(chunks * way // ways, chunks * (way + 1) // ways)


class Reach:
    """Positions in the buffers of one way.

    Args:
        topology: sources of all chunks.
        way: this way.
        ways: G.

    Attributes:
        mine: own chunks.
        own: how many rows are own.
        held: how many rows are own or read from other ways.
        gives: for each tick and way, positions of own rows that the other way reads.
        takes: for each tick and way, positions of the other way's rows that are read here.
        counts: rows [tick, giver, reader] that one way reads from another.
        crossing: rows that cross between ways, in total: alpha_G N.
    """

    def __init__(self, topology: ChunkTopology, way: int = 0, ways: int = 1) -> None:
        chunks = topology.chunks
        self.way, self.ways, self.device = way, ways, topology.device
        self.mine = own_chunks(len(chunks), way, ways)
        self.first = int(chunks.bounds[self.mine.start])
        self.own = int(chunks.bounds[self.mine.stop]) - self.first
        self._bounds = chunks.bounds
        self._chunks = chunks
        reads = [self._read_by(topology, w) for w in range(ways)]
        self._reads, self._outside = reads, reads[way]
        self.held = self.own + self._outside.size
        self.counts = self._count(reads)
        self.crossing = int(self.counts.sum())
        self._topology = topology
        self.gives = [self._of_tick(tick, reads, True) for tick in range(chunks.ticks)]
        self.takes = [self._of_tick(tick, reads, False) for tick in range(chunks.ticks)]

    @property
    def ids(self) -> Ids:
        """The graph's node ids of the rows that this way holds."""
        numbers = np.concatenate([np.arange(self.first, self.first + self.own), self._outside])
        found: Ids = self._chunks.order[numbers]
        return found

    def counts_of(self, kept: npt.NDArray[np.bool_]) -> Ids:
        """Counts rows as in `counts`, of those nodes alone that are kept (by id)."""
        order = self._chunks.order
        return self._count([numbers[kept[order[numbers]]] for numbers in self._reads])

    @cached_property
    def others(self) -> dict[int, Tensor]:
        """For each own chunk, positions of the rows it reads from other chunks."""
        return {c: self._others(self._topology.locals[c].others) for c in self.mine}

    def span(self, chunk: int) -> slice:
        """Positions of an own chunk."""
        return slice(
            int(self._bounds[chunk]) - self.first, int(self._bounds[chunk + 1]) - self.first
        )

    def position(self, numbers: Ids) -> Tensor:
        """Positions of new numbers that this way holds."""
        inside = (numbers >= self.first) & (numbers < self.first + self.own)
        outside = self.own + np.searchsorted(self._outside, numbers)
        return torch.from_numpy(np.where(inside, numbers - self.first, outside)).to(self.device)

    def _others(self, numbers: Tensor) -> Tensor:
        """Returns positions of what a chunk reads from others; one way holds all rows by number."""
        return numbers if self.ways == 1 else self.position(numbers.cpu().numpy())

    def _read_by(self, topology: ChunkTopology, way: int) -> Ids:
        """Returns what a way reads from the others."""
        chunks = own_chunks(len(topology.chunks), way, self.ways)
        first, last = self._bounds[chunks.start], self._bounds[chunks.stop]
        numbers: Ids = np.empty(0, np.int64)
        if self.ways > 1:
            sets = [topology.locals[c].others.cpu().numpy() for c in chunks]
            numbers = np.unique(np.concatenate(sets))
        outside: Ids = numbers[(numbers < first) | (numbers >= last)]
        return outside

    def _count(self, reads: Sequence[Ids]) -> Ids:
        found = np.zeros((self._chunks.ticks, self.ways, self.ways), np.int64)
        for reader, numbers in enumerate(reads):
            rows = np.diff(np.searchsorted(numbers, self._bounds))
            for chunk, count in enumerate(rows.tolist()):
                giver = chunk * self.ways // len(self._chunks)
                found[chunk % self._chunks.ticks, giver, reader] += count
        return found

    def _of_tick(self, tick: int, reads: Sequence[Ids], gives: bool) -> list[Tensor]:
        found = []
        for other in range(self.ways):
            giver, reader = (self.way, other) if gives else (other, self.way)
            parts: list[Ids] = [np.empty(0, np.int64)]
            if other != self.way:
                owned = own_chunks(len(self._chunks), giver, self.ways)
                for chunk in self._chunks.abreast_of(tick):
                    if chunk in owned:
                        bounds = np.searchsorted(reads[reader], self._bounds[chunk : chunk + 2])
                        parts.append(reads[reader][bounds[0] : bounds[1]])
            found.append(self.position(np.concatenate(parts)))
        return found
