"""score_pass: exact scores of all nodes on one rank, in the pieces of the exact epochs.

Rows are held in front of a segment and behind it, and nothing for a backward pass; where inputs of
layers wait in a file, so do rows that no other node reads. So a budget covers evaluation as well.
"""

import torch
from torch import Tensor

from foregather.pipeline.passes.stage import Stage
from foregather.pipeline.whole.adjacency import Adjacency
from foregather.pipeline.whole.pieces import Pieces
from foregather.pipeline.whole.scratch import Scratch
from foregather.pipeline.whole.stretches import SegmentCost, Stretch
from foregather.pipeline.whole.whole_pass import WholePass

__all__ = ["ScorePass"]


class ScorePass(WholePass):
    """One forward pass in evaluation.

    Args:
        stage: the only stage, with its layers in evaluation.
        adjacency: all edges.
        pieces: how the nodes are cut.
        costs: of the segments; those with messages have rows that no other node reads.
        watch_dropout: whether layers may call dropout of torch.
        scratch: the file of such rows; None holds them.
    """

    def __init__(
        self,
        stage: Stage,
        adjacency: Adjacency,
        pieces: Pieces,
        costs: tuple[SegmentCost, ...],
        watch_dropout: bool = False,
        scratch: Scratch | None = None,
    ) -> None:
        every = [Stretch(0, len(costs), False)]
        super().__init__(stage, adjacency, pieces, every, 0, watch_dropout, scratch)
        if scratch is not None:
            self._spilled = {n for n, cost in enumerate(costs) if n and cost.message}
        self._scores: Tensor | None = None

    def scores(self) -> Tensor:
        """Runs all pieces; returns scores [N, columns] by node id."""
        with torch.no_grad():
            for stretch in self._stretches:
                self._go(stretch)
        assert self._scores is not None
        return self._scores

    def _finish(self, piece: int, rows: Tensor) -> None:
        if self._scores is None:
            self._scores = rows.new_empty(self._pieces.nodes, *rows.shape[1:])
        nodes = torch.from_numpy(self._stage.chunks.order[self._pieces.spans[piece]])
        self._scores[nodes] = rows
