"""run: chooses pieces and stretches of a run on one rank, and runs its exact epochs."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from foregather.errors import BudgetError, InputError
from foregather.nn import list_kernels as kernels
from foregather.pipeline.infer import check_finite, evaluating
from foregather.pipeline.passes.stage import Stage
from foregather.pipeline.whole.adjacency import Adjacency
from foregather.pipeline.whole.budget import Choice, choose, file_bytes, scratch_folder
from foregather.pipeline.whole.draws import MixedDraws
from foregather.pipeline.whole.pieces import Pieces
from foregather.pipeline.whole.score_pass import ScorePass
from foregather.pipeline.whole.scratch import Scratch
from foregather.pipeline.whole.whole_pass import WholePass
from foregather.units import format_number

__all__ = ["WholeRun", "whole_run"]


@dataclass(slots=True)
class WholeRun:
    """What the exact epochs of one rank share.

    Attributes:
        stage: the only stage.
        adjacency: all edges.
        choice: what is kept, run again and written to a file.
        pieces: how the nodes are cut.
        scratch: the file, if there is one.
    """

    stage: Stage
    adjacency: Adjacency
    choice: Choice
    pieces: Pieces
    scratch: Scratch | None = None
    _watch_dropout: bool = False

    def run(self, carry_out: Callable[[WholePass], float], epoch: int) -> float:
        """Runs an exact epoch; returns the loss."""
        while True:
            whole = self._pass(epoch)
            try:
                return carry_out(whole)
            except MixedDraws:
                for layer in self.stage.layers:  # some pieces may have gone back already
                    layer.zero_grad()
                if self._watch_dropout:  # chunk by chunk, then, from now on
                    self.pieces = Pieces(self.stage, len(self.stage.chunks))
                    self._open()
                self._watch_dropout = True
            finally:
                whole.close()

    def _pass(self, epoch: int) -> WholePass:
        if self.scratch is not None:
            self.scratch.reset()
        return WholePass(
            self.stage,
            self.adjacency,
            self.pieces,
            self.choice.stretches,
            epoch,
            self._watch_dropout,
            self.scratch,
            self.choice.spill_adjoints,
        )

    def scores(self) -> Tensor:
        """Exact scores [N, columns] by node id, within what an epoch may hold.

        Raises:
            NumericError: rows became NaN or infinite.
        """
        if self.scratch is not None:
            self.scratch.reset()
        costs, watch = self.choice.costs, self._watch_dropout
        given = (self.stage, self.adjacency, self.pieces, costs, watch, self.scratch)
        whole = ScorePass(*given)
        with evaluating(self.stage):
            try:
                scores = whole.scores()
            finally:
                whole.close()
        check_finite(whole.outcome.fault, self.stage)
        return scores

    def _open(self) -> None:
        """Reserves the file, if one is needed."""
        size = file_bytes(self.choice, self.pieces)
        if self.scratch is not None:
            self.scratch.close()
        self.scratch = Scratch(scratch_folder(self.stage.runtime), size) if size else None

    def explain(self) -> str:
        """What is kept, run again and written, in one line."""
        return self.choice.explain(
            len(self.pieces), 0 if self.scratch is None else self.scratch.size
        )


def whole_run(stage: Stage) -> WholeRun | None:
    """Returns how exact epochs are run on one rank; None where they are run layer by layer.

    That is so for several ranks, and not on a CPU.

    Raises:
        BudgetError: the memory is too little for one chunk of one layer.
        InputError: what is asked for is only there for one rank on a CPU.
        StorageError: the file cannot be made.
    """
    place, runtime = stage.topology, stage.runtime
    alone = stage.link.peers == 1 and stage.whole is None
    if not alone or place.device.type != "cpu" or place.dtype not in kernels.NUMBERS:
        if runtime.memory is not None or runtime.recompute in ("segments", "disk"):
            asked = f"recompute is {runtime.recompute!r}"
            if runtime.memory is not None:
                asked = f"memory is {runtime.memory!r}"
            raise InputError(
                f"{asked} with {format_number(stage.link.peers, 'rank')} on {place.device.type}, "
                "expected one rank on a CPU; leave it out, or set recompute to 'all'"
            )
        return None
    adjacency = Adjacency(place.graph, stage.chunks, place.dtype)
    try:
        choice, pieces = choose(stage, adjacency)
    except BudgetError:
        adjacency.forget()  # whoever keeps the error keeps this frame, which the next plan counts
        raise
    watch = any(getattr(layer, "draws", False) for layer in stage.layers)
    made = WholeRun(stage, adjacency, choice, pieces, _watch_dropout=watch)
    made._open()
    return made
