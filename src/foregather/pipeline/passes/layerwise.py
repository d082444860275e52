"""layerwise: the exact pass: all chunks go through one segment, then through the next.

Every message is computed before it is read, so nothing is stale, forward or backward: results are
those of the whole graph at once. Memory holds the rows of all nodes between segments, and the work
of one chunk. Stages take turns: they divide memory, not time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foregather.nn.layer import Near
from foregather.pipeline.passes.aggregation import Exchange, RowBuffers
from foregather.pipeline.passes.executor import Executor, gradient_of, run_backward
from foregather.pipeline.passes.stage import NearOf, Stage, Values
from foregather.pipeline.passes.way_exchange import Across
from foregather.pipeline.planning.schedule import Schedule, Task

__all__ = ["LayerPass"]


@dataclass(slots=True)
class _Level:
    """Rows of all nodes between two segments, with their gradients.

    Attributes:
        x: rows.
        message: messages, if they are not the rows themselves.
    """

    x: RowBuffers | None = None
    message: RowBuffers | None = None

    @property
    def read(self) -> RowBuffers:
        """What an aggregation reads, and where it pushes gradients."""
        rows = self.x if self.message is None else self.message
        assert rows is not None
        return rows

    def want_adjoints(self) -> None:
        """Makes room for gradients, if there is none yet."""
        for rows in (self.x, self.message):
            if rows is not None and rows.adjoint is None:
                rows.adjoint = torch.zeros_like(rows.fresh)


class LayerPass(Executor):
    """One exact forward pass and its backward pass.

    Args:
        stage: the stage.
        schedule: a layerwise schedule; its order changes the result only by rounding. Without
            gradients, only what the next segment reads is kept.
        epoch: for random numbers; None for evaluation.
        keep_messages: keep messages of all aggregations in `messages`.
    """

    def __init__(
        self, stage: Stage, schedule: Schedule, epoch: int | None, keep_messages: bool = False
    ) -> None:
        super().__init__(stage, schedule, epoch)
        self._gradients, self._keep_messages = schedule.gradients, keep_messages
        self._keep = schedule.gradients and not schedule.recompute
        self._segments = schedule.segments(stage.program.stage)
        self._levels = [_Level() for _ in self._segments]  # level j is the input of segment j
        self._skips: dict[str, Tensor] = {}
        self._skip_adjoints: dict[str, Tensor] = {}
        self._kept: dict[tuple[int, int], tuple[Values, Values]] = {}
        self.messages: dict[int, Tensor] = {}
        self.scores: Tensor | None = None  # of evaluation, by new number, on the last stage

    # ---- forward ---------------------------------------------------------------------------

    def _run_on(self, task: Task) -> None:
        """Runs a chunk through a segment, and keeps what the backward pass needs."""
        (chunk,), number = task.chunks, task.segment
        given = self._given(number, chunk, self._start(chunk) if number == 0 else None)
        with torch.set_grad_enabled(self._keep):
            out = self._through(task, given)
        self._store(number, chunk, out)
        if self._keep:
            self._kept[number, chunk] = (given, out)
        if number + 1 == len(self._segments):
            self._deliver(chunk, out)
        self._check(chunk, out.x)

    def _given(self, number: int, chunk: int, arrived: Values | None) -> Values:
        """Returns the input of a chunk in a segment, as leaves if gradients are needed."""
        span = self._stage.reach.span(chunk)
        if arrived is not None:
            self._put_skips(span, arrived.skips)
            if self._gradients and self._stage.program.stage:
                self._put(self._levels[0], "x", span, arrived.x)
            given = arrived
        else:
            level = self._levels[number]
            assert level.x is not None
            message = None if level.message is None else level.message.fresh[span]
            given = Values(level.x.fresh[span], message)
        given.skips = {name: rows[span] for name, rows in self._skips.items()}
        if not self._gradients:
            return given
        leaves = given.leaves()
        if number == 0 and self._stage.program.stage == 0:
            leaves.x.requires_grad_(False)  # the graph's features
        return leaves

    def _store(self, number: int, chunk: int, out: Values) -> None:
        span = self._stage.reach.span(chunk)
        new = {name: rows for name, rows in out.skips.items() if self._gives(number, name)}
        self._put_skips(span, new)
        if number + 1 == len(self._segments):
            return
        following = self._levels[number + 1]
        self._put(following, "x", span, out.x)
        if out.message is not None:
            self._put(following, "message", span, out.message)

    def _gives(self, number: int, name: str) -> bool:
        return any(
            op.kind != "message" and name in self._stage.layers[op.layer].given
            for op in self._segments[number]
        )

    def _deliver(self, chunk: int, out: Values) -> None:
        stage = self._stage
        if not stage.last:
            span = stage.reach.span(chunk)
            skips = {name: self._skips[name][span] for name in stage.program.skips_out}
            self._leaving[chunk] = Values(out.x, None, skips)
        elif self._epoch is None:
            if self.scores is None:
                self.scores = self._empty(out.x.shape[1])[: stage.reach.own]
            self.scores[stage.reach.span(chunk)] = out.x
        else:
            self._loss += float(stage.targets.of(chunk, out.x.detach()))

    def _free(self, task: Task) -> None:
        """Frees rows that are no longer needed.

        Backward, these are rows and gradients in front of the next segment; forward, if there are
        no gradients, the input of a finished segment.
        """
        number = task.segment
        if task.backward:
            if number + 1 < len(self._segments):
                self._levels[number + 1] = _Level()
            if self._levels[number].x is not None:  # all chunks have come back through here
                self._levels[number].read.push_moments()
            return
        if self._keep_messages and number:
            self.messages[self._segments[number][0].layer] = self._levels[number].read.fresh
        if not self._gradients:
            self._levels[number] = _Level()

    # ---- backward --------------------------------------------------------------------------

    def _begin(self, backward: bool) -> None:
        if backward:
            self._skip_adjoints = {n: torch.zeros_like(rows) for n, rows in self._skips.items()}
        super()._begin(backward)

    def _run_back(self, task: Task) -> None:
        """Runs a chunk back through a segment, and adds to the gradients of the weights."""
        (chunk,), number, stage = task.chunks, task.segment, self._stage
        self._levels[number].want_adjoints()
        given, out = self._kept.pop((number, chunk))
        roots, gradients = self._given_skips(number, chunk, out)
        if number + 1 < len(self._segments):
            self._add_inner(roots, gradients, number + 1, chunk, out)
        elif stage.last:
            roots.append(stage.targets.of(chunk, out.x))
            gradients.append(None)
        else:
            self._add_received(roots, gradients, chunk, out, self._gradients_in.pop(chunk))
        run_backward(roots, gradients)
        self._collect(number, chunk, given)

    def _again(self, task: Task) -> None:
        (chunk,), number = task.chunks, task.segment
        if number == 0 and self._stage.program.stage == 0:
            given = Values(self._stage.features.chunk(chunk))
        else:
            given = self._given(number, chunk, None)
        self._kept[number, chunk] = (given, self._through(task, given))

    def _given_skips(
        self, number: int, chunk: int, out: Values
    ) -> tuple[list[Tensor | None], list[Tensor | None]]:
        """Returns the skip tensors that this segment gives, with their gradients so far."""
        span = self._stage.reach.span(chunk)
        # gradients of those that this segment sends on arrive with the gradients of the rows
        final = number + 1 == len(self._segments)
        sent = self._stage.program.skips_out if final else ()
        names = [n for n in self._skips if self._gives(number, n) and n not in sent]
        return [out.skips[n] for n in names], [self._skip_adjoints[n][span] for n in names]

    def _add_inner(
        self,
        roots: list[Tensor | None],
        gradients: list[Tensor | None],
        number: int,
        chunk: int,
        out: Values,
    ) -> None:
        span, level = self._stage.reach.span(chunk), self._levels[number]
        for root, rows in ((out.x, level.x), (out.message, level.message)):
            if rows is not None:
                assert rows.adjoint is not None
                roots.append(root)
                gradients.append(rows.adjoint[span])

    def _add_received(
        self,
        roots: list[Tensor | None],
        gradients: list[Tensor | None],
        chunk: int,
        out: Values,
        received: list[Tensor],
    ) -> None:
        span = self._stage.reach.span(chunk)
        final = len(self._segments) - 1
        roots.append(out.x)
        gradients.append(received[0])
        for name, gradient in zip(self._stage.program.skips_out, received[1:], strict=True):
            if self._gives(final, name):
                roots.append(out.skips[name])
                gradients.append(gradient)
            else:
                self._skip_adjoints[name][span] += gradient

    def _collect(self, number: int, chunk: int, given: Values) -> None:
        """Adds the gradients of a segment's input to what others pushed there."""
        stage, span, level = self._stage, self._stage.reach.span(chunk), self._levels[number]
        for name, skip in given.skips.items():
            if skip.grad is not None:
                self._skip_adjoints[name][span] += skip.grad
        pairs: list[tuple[Tensor | None, RowBuffers | None]]
        pairs = [(given.x, level.x), (given.message, level.message)]
        for leaf, rows in pairs:
            if rows is not None and leaf is not None:
                assert rows.adjoint is not None
                rows.adjoint[span] += gradient_of(leaf)
        if number == 0 and level.x is not None and level.x.adjoint is not None:
            skips = [self._skip_adjoints[name][span] for name in stage.program.skips_in]
            self._gradients_out[chunk] = [level.x.adjoint[span], *skips]

    # ---- helpers -----------------------------------------------------------------------------

    def _through(self, task: Task, given: Values) -> Values:
        nears = self._nears(task.segment)
        return self._stage.run(task.ops, [given], task.chunks, nears, self._epoch)[0]

    def _nears(self, number: int) -> NearOf:
        stage = self._stage

        def nears(layer: int, chunks: Sequence[int], owns: Sequence[Tensor]) -> list[Near]:
            if stage.reads_features(layer):
                return stage.feature_nears(chunks, owns)
            rows = self._levels[number].read
            return [
                stage.near(chunk, own, Exchange(rows, stage.reach.others[chunk]))
                for chunk, own in zip(chunks, owns, strict=True)
            ]

        return nears

    def _exchange(self, task: Task) -> None:
        """Exchanges rows in front of a segment that other ways read, or their gradients."""
        rows = self._levels[task.segment].read
        across = Across(self._stage.link, self._stage.reach, task.ticks)
        if not task.backward:
            across.start(rows.fresh)
            across.finish(rows.fresh)
            return
        assert rows.adjoint is not None
        across.start_back(rows.adjoint)
        across.finish_back(rows.adjoint)

    def _empty(self, width: int) -> Tensor:
        place = self._stage.topology
        return torch.empty(self._stage.reach.held, width, dtype=place.dtype, device=place.device)

    def _put(self, level: _Level, name: str, span: slice, rows: Tensor) -> None:
        if getattr(level, name) is None:
            made = RowBuffers(self._empty(rows.shape[1]), moments=self._stage.moments())
            setattr(level, name, made)
        getattr(level, name).fresh[span] = rows.detach()

    def _put_skips(self, span: slice, skips: dict[str, Tensor]) -> None:
        for name, rows in skips.items():
            if name not in self._skips:
                self._skips[name] = self._empty(rows.shape[1])
            self._skips[name][span] = rows.detach()
