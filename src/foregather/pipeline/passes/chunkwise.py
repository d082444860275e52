"""chunkwise: GNNPipe's pass: the chunks of a tick go through all layers of a stage, then the next.

A chunk reads fresh messages of chunks that passed before it or pass with it, and history of those
that come after. Backward in the reverse order: when a chunk's turn comes, all that read it fresh
have pushed their gradients to it. History is a constant. With one tick nothing is stale: that is
graph-parallel training.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foregather.nn.layer import Near
from foregather.pipeline.passes.aggregation import Exchange, Gate, Rows, gated
from foregather.pipeline.passes.stage import Stage, Values
from foregather.pipeline.passes.way_exchange import Across

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
            shape = (self._stage.reach.held, width)
            parts = [torch.zeros(shape, dtype=place.dtype, device=place.device) for _ in range(3)]
            self.rows[layer] = Rows(*parts)
            if place.chunks.ticks == 1:
                self.rows[layer].history = None  # nothing is stale
        return self.rows[layer]

    def commit(self, epoch: int) -> None:
        """This epoch's messages become history."""
        self.epoch = epoch
        for rows in self.rows.values():
            if rows.history is not None:
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
        order: ticks, first to last.
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
        chunks = stage.chunks
        self._ticks = [
            [c for c in chunks.abreast_of(tick) if c in stage.reach.mine] for tick in self._order
        ]
        place = torch.empty(len(chunks), dtype=torch.int64)
        for position, tick in enumerate(self._order):
            place[chunks.abreast_of(tick)] = position
        self._place = place.to(stage.topology.device)
        self._masks = {c: self._masks_of(c) for c in stage.reach.mine}
        self._ops = [op for segment in stage.program.segments for op in segment]
        self._kept: list[tuple[list[Values], list[Values], list[Tensor]]] = []

    def _masks_of(self, chunk: int) -> tuple[Tensor | None, Tensor | None]:
        """Which sources in other chunks are fresh; which of those are of earlier ticks."""
        if self._stage.chunks.ticks == 1:
            return None, torch.zeros_like(self._stage.reach.others[chunk], dtype=torch.bool)
        place, now = self._place[self._stage.topology.locals[chunk].owner], self._place[chunk]
        fresh = place <= now
        return fresh, None if self._stage.chunks.abreast == 1 else (place < now)[fresh]

    def forward(self) -> Outcome:
        """Runs all ticks; what the backward pass needs is kept."""
        stage, total, fault = self._stage, 0.0, None
        take = stage.inlet([chunk for tick in self._ticks for chunk in tick])
        for tick, chunks in zip(self._order, self._ticks, strict=True):
            given = [take(chunk) for chunk in chunks]
            if self._gradients and stage.program.stage:
                given = [one.leaves() for one in given]
            with torch.set_grad_enabled(self._keep):
                out = self._run(given, tick, chunks)
                losses = self._losses(chunks, out)
            for chunk, one in zip(chunks, out, strict=True):
                if not stage.last:
                    stage.send_on(chunk, one)
                if fault is None and not bool(torch.isfinite(one.x).all()):
                    fault = chunk
            if self._gradients:
                self._kept.append((given, out, losses) if self._keep else (given, [], []))
            total += sum(float(loss.detach()) for loss in losses)
        stage.link.flush()
        return Outcome(total, fault)

    def backward(self) -> None:
        """Runs all ticks in the reverse order; gradients of weights are added to theirs."""
        stage = self._stage
        self._history.clear_adjoints()
        back = [chunk for tick in reversed(self._ticks) for chunk in tick]
        take = None if stage.last else stage.gradients(back)
        for tick, chunks in zip(reversed(self._order), reversed(self._ticks), strict=True):
            given, out, losses = self._kept.pop()
            if not out:
                out = self._run(given, tick, chunks, again=True)
                losses = self._losses(chunks, out)
            roots: list[Tensor | None] = [*losses]
            gradients: list[Tensor | None] = [None] * len(losses)
            if take is not None:
                for chunk, one in zip(chunks, out, strict=True):
                    roots += [one.x, *(one.skips[name] for name in stage.program.skips_out)]
                    gradients += take(chunk)
            run_backward(roots, gradients)
            if stage.program.stage:
                for chunk, one in zip(chunks, given, strict=True):
                    leaves = [one.x, *(one.skips[name] for name in stage.program.skips_in)]
                    stage.send_back(chunk, [gradient_of(leaf) for leaf in leaves])
        stage.link.flush()

    def _losses(self, chunks: Sequence[int], out: Sequence[Values]) -> list[Tensor]:
        if not self._stage.last:
            return []
        return [self._stage.targets.of(c, one.x) for c, one in zip(chunks, out, strict=True)]

    def _run(
        self, given: Sequence[Values], tick: int, chunks: Sequence[int], again: bool = False
    ) -> list[Values]:
        def nears(layer: int, chunks: Sequence[int], owns: Sequence[Tensor]) -> list[Near]:
            return self._nears(layer, tick, chunks, owns, again)

        return self._stage.run(self._ops, given, chunks, nears, self._epoch)

    def _nears(
        self, layer: int, tick: int, chunks: Sequence[int], owns: Sequence[Tensor], again: bool
    ) -> list[Near]:
        stage = self._stage
        if stage.reads_features(layer):
            return stage.feature_nears(chunks, owns)
        rows, reach = self._history.of(layer), stage.reach
        across = Across(stage.link, reach, [tick]) if reach.ways > 1 else None
        if across is not None and torch.is_grad_enabled():  # so that all ways exchange gradients
            owns = [own if own.requires_grad else own.detach().requires_grad_() for own in owns]
        gate = Gate(rows, [reach.span(chunk) for chunk in chunks], across, again)
        found: list[Near] = []
        for chunk, own in zip(chunks, gated(owns, gate), strict=True):
            fresh, earlier = self._masks[chunk]
            exchange = Exchange(rows, reach.others[chunk], fresh, self._factor, earlier, gate)
            found.append(stage.near(chunk, own, exchange))
        return found


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
