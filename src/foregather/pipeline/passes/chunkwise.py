"""chunkwise: GNNPipe's pass: tick by tick, chunks go through all layers of a stage.

A chunk reads fresh messages of chunks that passed before it or pass with it, and history of those
that come later. The backward pass goes in reverse order: when a chunk's turn comes, all chunks that
read its fresh messages have pushed their gradients to it. History is a constant. With one tick,
nothing is stale: that is graph-parallel training.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from foregather.nn.layer import Near
from foregather.pipeline.passes.aggregation import Exchange, Gate, RowBuffers, gated
from foregather.pipeline.passes.executor import Executor, gradient_of, run_backward
from foregather.pipeline.passes.stage import Stage, Values
from foregather.pipeline.passes.way_exchange import Across
from foregather.pipeline.planning.schedule import Schedule, Task

__all__ = ["ChunkPass", "History"]


class History:
    """Messages of all aggregations of a stage: this epoch's, and those of an earlier epoch.

    Each has its own buffer, so that history can be read again when a chunk is recomputed.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.rows: dict[int, RowBuffers] = {}
        self.epoch: int | None = None  # whose random numbers it has; None: it is zero

    def of(self, layer: int) -> RowBuffers:
        """Returns the buffers of a layer, initially zero."""
        if layer not in self.rows:
            place, width = self._stage.topology, self._stage.widths.message[layer]
            shape = (self._stage.reach.held, width)
            fresh, history, adjoint = (
                torch.zeros(shape, dtype=place.dtype, device=place.device) for _ in range(3)
            )
            self.rows[layer] = RowBuffers(fresh, history, adjoint, self._stage.moments())
            if place.chunks.ticks == 1:
                self.rows[layer].history = None  # nothing is stale
        return self.rows[layer]

    def commit(self, epoch: int) -> None:
        """Turns this epoch's messages into history."""
        self.epoch = epoch
        for rows in self.rows.values():
            if rows.history is not None:
                rows.fresh, rows.history = rows.history, rows.fresh
                self.changed(rows)

    def changed(self, rows: RowBuffers) -> None:
        """Forgets what was found of history that is no longer there."""
        if rows.moments is not None:
            rows.moments.clear()

    def clear_adjoints(self) -> None:
        """Clears the gradients of the last epoch."""
        for rows in self.rows.values():
            assert rows.adjoint is not None
            rows.adjoint.zero_()


class ChunkPass(Executor):
    """One forward pass and its backward pass.

    Args:
        stage: the stage.
        history: its buffers.
        schedule: a chunkwise schedule.
        epoch: for random numbers.
        factor: weight of gradients from other chunks.
    """

    def __init__(
        self, stage: Stage, history: History, schedule: Schedule, epoch: int, factor: float = 1.0
    ) -> None:
        super().__init__(stage, schedule, epoch)
        self._history, self._factor = history, factor
        self._sample = stage.boundary_sample(epoch)
        self._keep = schedule.gradients and not schedule.recompute
        place = torch.empty(schedule.chunks, dtype=torch.int64)
        for position, tick in enumerate(schedule.order):
            place[tick :: len(schedule.order)] = position
        self._place = place.to(stage.topology.device)
        self._masks = {c: self._masks_of(c) for c in stage.reach.mine}
        self._kept: list[tuple[list[Values], list[Values], list[Tensor]]] = []

    def _masks_of(self, chunk: int) -> tuple[Tensor | None, Tensor | None]:
        """Returns which sources in other chunks are fresh, and which of those passed earlier."""
        if self._stage.chunks.ticks == 1:
            return None, torch.zeros_like(self._stage.reach.others[chunk], dtype=torch.bool)
        place, now = self._place[self._stage.topology.locals[chunk].owner], self._place[chunk]
        fresh = place <= now
        return fresh, None if self._stage.chunks.abreast == 1 else (place < now)[fresh]

    def _run_on(self, task: Task) -> None:
        """Runs a tick's chunks through all layers, and keeps what the backward pass needs."""
        stage, gradients = self._stage, self._schedule.gradients
        given = [self._start(chunk) for chunk in task.chunks]
        if gradients and stage.program.stage:
            given = [one.leaves() for one in given]
        with torch.set_grad_enabled(self._keep):
            out = self._through(given, task)
            losses = self._losses(task.chunks, out)
        for chunk, one in zip(task.chunks, out, strict=True):
            self._check(chunk, one.x)
            if not stage.last:
                self._leaving[chunk] = one
        if gradients:
            self._kept.append((given, out, losses) if self._keep else (given, [], []))
        self._loss += sum(float(loss.detach()) for loss in losses)

    def _begin(self, backward: bool) -> None:
        if backward:
            self._history.clear_adjoints()
        super()._begin(backward)

    def _again(self, task: Task) -> None:
        given, _, _ = self._kept.pop()
        out = self._through(given, task)
        self._kept.append((given, out, self._losses(task.chunks, out)))

    def _run_back(self, task: Task) -> None:
        """Goes back through all layers, and adds to the gradients of the weights."""
        stage = self._stage
        given, out, losses = self._kept.pop()
        roots: list[Tensor | None] = [*losses]
        gradients: list[Tensor | None] = [None] * len(losses)
        if not stage.last:
            for chunk, one in zip(task.chunks, out, strict=True):
                roots += [one.x, *(one.skips[name] for name in stage.program.skips_out)]
                gradients += self._gradients_in.pop(chunk)
        run_backward(roots, gradients)
        if stage.program.stage:
            for chunk, one in zip(task.chunks, given, strict=True):
                leaves = [one.x, *(one.skips[name] for name in stage.program.skips_in)]
                self._gradients_out[chunk] = [gradient_of(leaf) for leaf in leaves]

    def _losses(self, chunks: Sequence[int], out: Sequence[Values]) -> list[Tensor]:
        if not self._stage.last:
            return []
        return [self._stage.targets.of(c, one.x) for c, one in zip(chunks, out, strict=True)]

    def _through(self, given: Sequence[Values], task: Task) -> list[Values]:
        def nears(layer: int, chunks: Sequence[int], owns: Sequence[Tensor]) -> list[Near]:
            return self._nears(layer, task, owns)

        return self._stage.run(task.ops, given, task.chunks, nears, self._epoch)

    def _nears(self, layer: int, task: Task, owns: Sequence[Tensor]) -> list[Near]:
        stage = self._stage
        if stage.reads_features(layer):
            return stage.feature_nears(task.chunks, owns)
        rows, reach = self._history.of(layer), stage.reach
        across = None
        if layer in task.layers:
            across = Across(stage.link, reach, task.ticks, self._sample)
        if reach.ways > 1 and torch.is_grad_enabled():  # so that all ways exchange gradients
            owns = [own if own.requires_grad else own.detach().requires_grad_() for own in owns]
        spans = [reach.span(chunk) for chunk in task.chunks]
        gate = Gate(rows, spans, across, again=task.kind == "again")
        found: list[Near] = []
        for chunk, own in zip(task.chunks, gated(owns, gate), strict=True):
            fresh, earlier = self._masks[chunk]
            exchange = Exchange(rows, reach.others[chunk], fresh, self._factor, earlier, gate)
            found.append(stage.near(chunk, own, exchange))
        return found
