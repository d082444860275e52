"""pieces: consecutive node chunks that are computed in one call, and what they start and end with.

A piece is a range of new numbers. One piece is the whole graph; the most pieces are the chunks.
Fewer pieces cost less time, more pieces less memory; results differ by rounding only.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.chunks import Chunks
from foregather.pipeline.passes.stage import Stage, Targets

__all__ = ["Pieces", "usual_pieces"]

_VALUES = 600_000  # of a row tensor in a piece: with fewer, calls cost more than their work
_MOST = 16  # more save little: what is held for all nodes is more than a piece's work


def usual_pieces(nodes: int, width: int, chunks: int, budget: bool = False) -> int:
    """How many pieces cost little time, for rows of this width.

    Twice as many within a budget: the smaller their blocks, the smaller the holes between them.
    """
    values = nodes * width * (2 if budget else 1)
    return max(1, min(chunks, _MOST, values // _VALUES))


class Pieces:
    """The nodes in `count` pieces.

    Args:
        stage: the only stage.
        count: from 1 to the chunks.

    Attributes:
        spans: new numbers of each piece.
        inner: for each piece, its chunks with their rows in the piece.
        reads_rows: whether a layer read rows of others itself, beside sums.
        sums: different sums over in-neighbours that a layer asked for, at most.
        reads_moments: whether a layer read mean and variance of all rows.
    """

    def __init__(self, stage: Stage, count: int) -> None:
        self._stage, chunks = stage, stage.chunks
        self.reads_rows = self.reads_moments = False
        self.sums = 0
        ends = np.searchsorted(chunks.bounds, chunks.bounds[-1] * np.arange(1, count) / count)
        cuts = np.unique(np.concatenate([[0], ends, [len(chunks)]]))  # in chunks
        if count >= len(chunks):  # one by one, however uneven they are
            cuts = np.arange(len(chunks) + 1)
        self.bounds = chunks.bounds[cuts]
        self.spans = [slice(int(a), int(b)) for a, b in pairwise(self.bounds)]
        self.inner = [
            [(c, _shifted(chunks.span(c), chunks.bounds[a])) for c in range(a, b)]
            for a, b in pairwise(cuts.tolist())
        ]

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def one(self) -> bool:
        """Whether the only piece is the whole graph."""
        return len(self.spans) == 1

    @property
    def nodes(self) -> int:
        """N."""
        return int(self.bounds[-1])

    @property
    def largest(self) -> int:
        """Nodes of the largest piece."""
        return int(np.diff(self.bounds).max())

    @cached_property
    def place(self) -> ChunkTopology:
        """The edges of the pieces, for layers that look at edges themselves."""
        place, chunks = self._stage.topology, self._stage.chunks
        if len(self) == len(chunks):
            return place
        cut = Chunks(chunks.order, chunks.number, self.bounds, chunks.method)
        return ChunkTopology(place.graph, cut, place.dtype, place.device)

    @cached_property
    def targets(self) -> Targets:
        """Training rows and labels by piece."""
        given = self._stage.targets
        rows, labels = [], []
        for inner in self.inner:
            rows.append(torch.cat([given.rows[c] + span.start for c, span in inner]))
            labels.append(torch.cat([given.labels[c] for c, _ in inner]))
        return Targets(rows, labels, given.total, given.loss)

    def features(self, piece: int) -> Tensor:
        """Feature rows of a piece."""
        return self._stage.features.span(self.spans[piece])

    def all_features(self) -> Tensor:
        """Feature rows of all nodes."""
        return self._stage.features.span(slice(0, self.nodes))


def _shifted(span: slice, by: int) -> slice:
    return slice(span.start - int(by), span.stop - int(by))
