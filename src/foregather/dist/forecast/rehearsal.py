"""rehearsal: computes in one process what the ranks of a grid would send for a bulk.

The messages of the default mode are made by the same code that ranks run, with all owners at hand;
those of the paper's mode follow from the rows of the frontiers and their degrees. So bytes are
those of a run, exactly, for the ranks that are rehearsed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.dist.sampling.expand import layer_expander
from foregather.dist.sampling.layers import run
from foregather.dist.sampling.partition import Partition
from foregather.dist.transport.phase_clock import PhaseClock
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk, Sample
from foregather.sampling.matrix import MatrixSampler
from foregather.sampling.neighbor import Neighbor
from foregather.sampling.seeds import distinct_seeds

__all__ = ["Messages", "PaperRow", "blocks_of", "rehearse", "rehearse_paper"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]


@dataclass
class Messages:
    """One collective of one rank: bytes it sends to each place, and bytes it gets from each."""

    sent: Int
    got: Int


@dataclass
class _OwnersHere:
    """Replaces the wire of a column: every owner's answer is computed here."""

    blocks: list[Partition]
    place: int
    layers: list[Messages] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.blocks)

    def ask(
        self, requests: list[Array], answer: Callable[[Partition, Array], Array], held: Partition
    ) -> list[Array]:
        """As `Wire.ask`, with the blocks of all ranks instead of what this one holds."""
        replies = [
            answer(block, request) if len(request) else request
            for block, request in zip(self.blocks, requests, strict=True)
        ]
        sent, got = (
            np.array([len(part) for part in parts], np.int64) for parts in (requests, replies)
        )
        self.layers.append(Messages(sent, got))
        return replies


def blocks_of(graph: Graph, blocks: int) -> list[Partition]:
    """All blocks of a graph, as views."""
    return [Partition.of(graph, blocks, block) for block in range(blocks)]


def rehearse(
    blocks: list[Partition],
    sampler: MatrixSampler,
    place: int,
    seeds: Sequence[Array],
    batches: Sequence[int],
    seed: int,
    epoch: int,
    threads: int = 1,
) -> tuple[Bulk, list[Messages]]:
    """The minibatches of one rank in the default mode, and its request and reply of each layer.

    For samplers that only request rows; `FastGCN` also chooses columns together.
    """
    block: Any = blocks[place]
    wire = _OwnersHere(blocks, place)
    channel: Any = SimpleNamespace(column=wire, clock=PhaseClock())
    layer = layer_expander(channel, block, sampler, threads)
    nodes, positions = distinct_seeds(block, list(seeds))
    dtype = block.indices.dtype
    made = run(sampler, layer, dtype, nodes, positions, list(batches), seed, epoch)
    return made, wire.layers


# ---- the paper's -------------------------------------------------------------------------------


@dataclass
class PaperRow:
    """What one grid row moves in the paper's mode for a bulk.

    Attributes:
        needed: by layer: int64 [blocks], bytes of the ids that a stage requests from its block.
        rows: by layer: int64 [blocks], bytes of the rows it gets.
        share: int64 [c]: bytes that each rank sends to each other rank of the row, all layers.
        shares: messages of that, to one other rank.
    """

    needed: list[Int]
    rows: list[Int]
    share: Int
    shares: int


def frontier(sampler: Neighbor, sample: Sample, layer: int) -> Array:
    """Nodes that a layer expands."""
    begin = sample.num_nodes[layer - 1] if sampler.expand == "once" and layer else 0
    return sample.node[begin : sample.num_nodes[layer]]


def rehearse_paper(
    graph: Graph, sampler: Neighbor, bulks: Sequence[Bulk], starts: Int, row: int
) -> PaperRow:
    """Computes what the c ranks of a grid row, with these minibatches, exchange with other rows."""
    c, blocks = len(bulks), len(starts) - 1
    each = graph.indices.dtype.itemsize
    entry = each + (0 if graph.edge_weight is None else 4)
    made = PaperRow([], [], np.zeros(c, np.int64), 0)
    if c > 1:
        made.shares += 1
        made.share += [
            24 + 16 * len(bulk) + each * sum(sample.num_seeds for sample in bulk) for bulk in bulks
        ]
    samples = [sample for bulk in bulks for sample in bulk]
    degree = np.diff(graph.indptr)
    turns = [range(j * (blocks // c), (j + 1) * (blocks // c)) for j in range(c)]
    for layer in range(sampler.num_layers):
        fronts = [frontier(sampler, sample, layer) for sample in samples]
        stacked = np.sort(np.concatenate([np.empty(0, graph.indices.dtype), *fronts]))
        distinct = np.unique(stacked)
        cut = np.searchsorted(distinct, starts)
        spans = [distinct[a:b] for a, b in pairwise(cut)]
        edges = np.array([int(degree[span].sum()) for span in spans])
        needed = 8 + each * np.diff(cut)
        rows = 32 + 12 * np.diff(cut) + entry * edges
        needed[row] = rows[row] = 0
        made.needed.append(needed.astype(np.int64))
        made.rows.append(rows.astype(np.int64))
        if c > 1 and samples:
            made.shares += 1
            ends = np.searchsorted(stacked, starts)
            for j, turn in enumerate(turns):
                own = stacked[ends[turn.start] : ends[turn.stop]]
                made.share[j] += 32 + 12 * len(own) + entry * int(degree[own].sum())
    return made
