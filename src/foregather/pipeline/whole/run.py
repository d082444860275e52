"""run: chooses pieces and stretches of a run on one rank, and runs its exact epochs."""

from collections.abc import Callable, Sequence

from foregather.nn import list_kernels as kernels
from foregather.pipeline.passes.stage import Stage
from foregather.pipeline.whole.adjacency import Adjacency
from foregather.pipeline.whole.costs import measure
from foregather.pipeline.whole.draws import MixedDraws
from foregather.pipeline.whole.pieces import Pieces, usual_pieces
from foregather.pipeline.whole.stretches import Stretch, shortest_of
from foregather.pipeline.whole.whole_pass import WholePass

__all__ = ["WholeRun", "whole_run"]


class WholeRun:
    """What the exact epochs of one rank share.

    Args:
        stage: the only stage.

    Attributes:
        pieces: how the nodes are cut.
        stretches: of all segments.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        place = stage.topology
        self._adjacency = Adjacency(place.graph, stage.chunks, place.dtype)
        self.pieces = Pieces(stage, self._count())
        self.stretches = self._plan()

    def run(self, carry_out: Callable[[WholePass], float], epoch: int) -> float:
        """Runs an exact epoch; returns the loss."""
        try:
            return carry_out(self._pass(epoch))
        except MixedDraws:  # chunk by chunk, then, from now on
            self.pieces = Pieces(self._stage, len(self._stage.chunks))
            return carry_out(self._pass(epoch))

    def _pass(self, epoch: int) -> WholePass:
        return WholePass(self._stage, self._adjacency, self.pieces, self.stretches, epoch)

    def _count(self) -> int:
        stage = self._stage
        if stage.runtime.recompute in ("none", "dense"):
            return 1
        widths = stage.widths
        return usual_pieces(stage.chunks.order.size, max(widths.x[1:]), len(stage.chunks))

    def _plan(self) -> Sequence[Stretch]:
        program = self._stage.program
        count = len(program.segments) - program.reads_features
        if self._stage.runtime.recompute in ("none", "dense"):
            return [Stretch(0, count, True)]
        if self._stage.runtime.recompute == "segments":
            self.measured = measure(self._stage)
            return shortest_of(self.measured.segments, len(self.pieces))[1]
        return [Stretch(n, n + 1, n + 1 == count) for n in range(count)]


def whole_run(stage: Stage) -> WholeRun | None:
    """Returns how exact epochs are run on one rank; None for several ranks, or not on a CPU."""
    place = stage.topology
    alone = stage.link.peers == 1 and stage.whole is None
    if not alone or place.device.type != "cpu" or place.dtype not in kernels.NUMBERS:
        return None
    return WholeRun(stage)
