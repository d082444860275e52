"""chunkwise: GNNPipe's pass: each chunk goes through all layers of a stage, then the next chunk.

A chunk reads fresh messages of chunks that passed before it and history of those that come after.
Backward in the reverse order: when a chunk's turn comes, all that read it fresh have pushed their
gradients to it. History is a constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foregather.pipeline.aggregation import Exchange, Rows
from foregather.pipeline.stage import Stage, Values

__all__ = ["ChunkPass", "History", "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a forward pass found on this stage.

    Attributes:
        loss: the loss, on the last stage; else 0.
        fault: the first chunk whose rows were not finite, or None.
    """

    loss: float
    fault: int | None


class History:
    """Messages of all aggregations of a stage: this epoch's, and those kept from before.

    Two buffers each, so that a row read as history can be read again when it is recomputed.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.rows: dict[int, Rows] = {}
        self.epoch: int | None = None  # whose random numbers are in it; None: it is zero

    def of(self, layer: int) -> Rows:
        """The buffers of a layer, zero at first."""
        if layer not in self.rows:
            place, width = self._stage.topology, self._stage.widths.message[layer]
            shape = (place.graph.num_nodes, width)
            parts = [torch.zeros(shape, dtype=place.dtype, device=place.device) for _ in range(3)]
            self.rows[layer] = Rows(*parts)
        return self.rows[layer]

    def commit(self, epoch: int) -> None:
        """This epoch's messages become history."""
        self.epoch = epoch
        for rows in self.rows.values():
            assert rows.history is not None
            rows.fresh, rows.history = rows.history, rows.fresh

    def clear_adjoints(self) -> None:
        """No gradients of last epoch are used."""
        for rows in self.rows.values():
            assert rows.adjoint is not None
            rows.adjoint.zero_()


class ChunkPass:
    """One forward pass, and the backward pass that belongs to it.

    Args:
        stage: the stage.
        history: its buffers.
        order: chunks, first to last.
        epoch: for random numbers.
        factor: weight of gradients from other chunks.
        gradients: False for a sweep.
    """

    def __init__(
        self,
        stage: Stage,
        history: History,
        order: Sequence[int],
        epoch: int,
        factor: float = 1.0,
        gradients: bool = True,
    ) -> None:
        self._stage, self._history, self._order = stage, history, list(order)
        self._epoch, self._factor, self._gradients = epoch, factor, gradients
        self._keep = gradients and stage.runtime.recompute != "all"
        place = torch.empty(len(order), dtype=torch.int64, device=stage.topology.device)
        place[torch.tensor(self._order, device=place.device)] = torch.arange(
            len(order), device=place.device
        )
        self._fresh = [
            place[local.owner] < place[chunk] for chunk, local in enumerate(stage.topology.locals)
        ]
        self._ops = [op for segment in stage.program.segments for op in segment]
        self._kept: dict[int, tuple[Values, Values | None, Tensor | None]] = {}

    def forward(self) -> Outcome:
        """Runs all chunks; what the backward pass needs is kept."""
        stage, total, fault = self._stage, 0.0, None
        take = stage.inlet(self._order)
        for chunk in self._order:
            given = take(chunk)
            if self._gradients and stage.program.stage:
                given = given.leaves()
            with torch.set_grad_enabled(self._keep):
                out = self._run(given, chunk)
                loss = stage.targets.of(chunk, out.x) if stage.last else None
            if not stage.last:
                stage.send_on(chunk, out)
            if self._gradients:
                self._kept[chunk] = (given, out, loss) if self._keep else (given, None, None)
            total += 0.0 if loss is None else float(loss.detach())
            if fault is None and not bool(torch.isfinite(out.x).all()):
                fault = chunk
        stage.link.flush()
        return Outcome(total, fault)

    def backward(self) -> None:
        """Runs all chunks in the reverse order; gradients of weights are added to theirs."""
        stage, back = self._stage, self._order[::-1]
        self._history.clear_adjoints()
        take = None if stage.last else stage.gradients(back)
        for chunk in back:
            given, out, loss = self._kept.pop(chunk)
            if out is None:
                out = self._run(given, chunk)
                loss = stage.targets.of(chunk, out.x) if stage.last else None
            roots: list[Tensor | None] = [loss]
            gradients: list[Tensor | None] = [None]
            if take is not None:
                roots = [out.x, *(out.skips[name] for name in stage.program.skips_out)]
                gradients = list(take(chunk))
            run_backward(roots, gradients)
            if stage.program.stage:
                leaves = [given.x, *(given.skips[name] for name in stage.program.skips_in)]
                stage.send_back(chunk, [gradient_of(leaf) for leaf in leaves])
        stage.link.flush()

    def _run(self, given: Values, chunk: int) -> Values:
        return self._stage.run(self._ops, given, chunk, self._exchange, self._epoch)

    def _exchange(self, layer: int, chunk: int) -> Exchange:
        stage = self._stage
        span, others = stage.chunks.span(chunk), stage.topology.locals[chunk].others
        if stage.reads_features(layer):
            return Exchange(None, span, others, None, None, table=stage.features.rows)
        return Exchange(self._history.of(layer), span, others, self._fresh[chunk], self._factor)


def run_backward(roots: Sequence[Tensor | None], gradients: Sequence[Tensor | None]) -> None:
    """Back from those roots that depend on a weight or a leaf."""
    pairs = [
        (root, gradient)
        for root, gradient in zip(roots, gradients, strict=True)
        if root is not None and root.requires_grad
    ]
    if pairs:
        torch.autograd.backward([p[0] for p in pairs], [p[1] for p in pairs])


def gradient_of(leaf: Tensor) -> Tensor:
    """The gradient a leaf collected; zeros where none came."""
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
