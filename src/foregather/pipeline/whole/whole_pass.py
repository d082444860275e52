"""whole_pass: an exact epoch on one rank: segment by segment, each for all pieces of the nodes.

Stretches of segments are kept for the backward pass or run again in it. What a segment keeps are
its input and what autograd saves; rows between segments are held once. In the last segment of a
stretch that is run again, each piece goes back at once, so that only its own work is held. The last
stretch goes back as soon as it is reached, so it is never run again. Messages of a stretch are made
again from its rows, where those are held anyway.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foregather.nn.layer import GraphLayer
from foregather.pipeline.passes.executor import Outcome, gradient_of
from foregather.pipeline.passes.segments import Op
from foregather.pipeline.passes.stage import Stage, Values
from foregather.pipeline.planning.schedule import Task, draw_key
from foregather.pipeline.whole.adjacency import Adjacency
from foregather.pipeline.whole.draws import Draws
from foregather.pipeline.whole.levels import Adjoint, Held, Level, Store
from foregather.pipeline.whole.near import PieceNear
from foregather.pipeline.whole.pieces import Pieces
from foregather.pipeline.whole.saved import Kept, Saved, Sink, apart, share
from foregather.pipeline.whole.scratch import Scratch, Spilled
from foregather.pipeline.whole.stretches import Stretch

__all__ = ["WholePass"]


class WholePass:
    """One exact forward pass and its backward pass, on the only rank.

    Args:
        stage: the only stage.
        adjacency: all edges.
        pieces: how the nodes are cut.
        stretches: of all segments, in order.
        epoch: for random numbers.
        watch_dropout: whether layers may call dropout of torch.
        scratch: the file of stretches whose input waits there.
        spill_adjoints: whether gradients of rows wait there too.

    Attributes:
        tasks: what the engine has it do.
    """

    def __init__(
        self,
        stage: Stage,
        adjacency: Adjacency,
        pieces: Pieces,
        stretches: Sequence[Stretch],
        epoch: int,
        watch_dropout: bool = False,
        scratch: Scratch | None = None,
        spill_adjoints: bool = False,
    ) -> None:
        self._scratch, self._spill_adjoints = scratch, spill_adjoints
        self._spilled = {one.first for one in stretches if one.spilled and one.first}
        self._watch_dropout = watch_dropout
        self._stage, self._adjacency, self._pieces = stage, adjacency, pieces
        self._stretches, self._epoch = stretches, epoch
        program = stage.program
        first = 1 if program.reads_features else 0
        self._segments = program.segments[first:]
        self._levels = [Level() for _ in self._segments]
        self._adjoints: dict[int, Adjoint] = {}
        self._skips: dict[str, Held] = {}
        self._skip_adjoints: dict[str, Held] = {}
        self._kept: dict[tuple[int, int], Kept] = {}
        self._loss = 0.0
        self._fault: int | None = None
        self._watch = True  # the loss and whether rows are finite
        self.tasks = (Task("run"), Task("agree"), Task("run", True), Task("agree", True))

    @property
    def outcome(self) -> Outcome:
        """What the forward pass has found."""
        return Outcome(self._loss, self._fault)

    def do(self, task: Task) -> None:
        """Carries out the forward pass or the backward pass."""
        if task.backward:
            self._watch = False
            for stretch in reversed(self._stretches):
                if stretch.kept or stretch.last < len(self._segments):
                    self._back(stretch)
        else:
            for stretch in self._stretches:
                if stretch.kept or stretch.last < len(self._segments):
                    self._go(stretch)
                else:
                    self._back(stretch)

    def close(self) -> None:
        """Forgets everything; what is kept refers to this pass, in ways that Python cannot see."""
        self._kept.clear()
        self._levels.clear()
        self._adjoints.clear()

    # ---- forward ---------------------------------------------------------------------------

    def _go(self, stretch: Stretch) -> None:
        for number in range(stretch.first, stretch.last):
            self._run_all(number, stretch.kept, stretch.kept or stretch.at_once)
            level = self._levels[number]
            level.features = None
            if stretch.kept:
                continue
            level.edges = None  # it holds rows
            if level.message is not None:
                level.message.free()
            again = level.x is level.spilled or (number == stretch.first and not level.spilled)
            if level.x is not None and not again:
                level.x.free()

    def _run_all(self, number: int, grad: bool, at_once: bool) -> None:
        """Runs all pieces through a segment; with `grad`, what goes back is kept.

        Then the sums of all pieces are held anyway, so they may be made at once.
        """
        level = self._levels[number]
        level.summed = {} if at_once and not self._pieces.one else None
        for piece in range(len(self._pieces)):
            kept = self._run(number, piece, grad)
            if grad:
                self._kept[number, piece] = kept
        level.summed = None

    def _run(self, number: int, piece: int, grad: bool, store: bool = True) -> Kept:
        """Runs a piece through a segment; stores its rows in front of the next one."""
        given = self._given(number, piece, grad)
        kept, saved = Kept(given), list[Saved]()
        with torch.set_grad_enabled(grad), self._saving(saved, grad):
            out = self._steps(number, piece, given)
            if grad:
                self._end(kept, number, piece, out)
        if self._watch:
            self._look(number, piece, out.x, grad)
        if store:
            self._store(number, piece, out, saved)
        saved.clear()  # autograd has them, and has what holds this list: a circle it cannot see
        return kept

    def _given(self, number: int, piece: int, grad: bool) -> Values:
        """Returns what a piece starts with in a segment, as leaves if gradients are needed."""
        level = self._levels[number]
        needed = {n for op in self._segments[number] for n in self._stage.layers[op.layer].needs}
        skips = {n: held.get(piece) for n, held in self._skips.items() if n in needed}
        if number == 0:
            if self._stage.program.reads_features and level.features is None:
                level.features = self._pieces.all_features()
            rows = level.features
            x = self._pieces.features(piece) if rows is None else rows[self._pieces.spans[piece]]
            return Values(x, None, skips)
        assert level.x is not None
        message = None if level.message is None else level.message.get(piece)
        given = Values(level.x.get(piece), message, skips)
        return given.leaves() if grad else given

    def _saving(self, saved: list[Saved], grad: bool) -> AbstractContextManager[Any]:
        """Notes what autograd saves, where rows of pieces are copied to those of all nodes."""
        if not grad or self._pieces.one:
            return nullcontext()

        def pack(value: Tensor) -> Saved:
            saved.append(Saved(value.detach()))  # else a result would hold what made it
            return saved[-1]

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one.value)

    def _end(self, kept: Kept, number: int, piece: int, out: Values) -> None:
        """Ends the graph of a piece: in the loss, or where gradients will be fetched."""

        def end(rows: Tensor | None, fetch: Callable[[], Tensor]) -> None:
            if rows is not None and rows.requires_grad:
                kept.ends.append(Sink.apply(rows, fetch))

        for name in self._given_by(number):
            end(out.skips[name], partial(self._skip_gradient, name, piece))
        if number + 1 == len(self._segments):
            loss = self._pieces.targets.of(piece, out.x)
            self._loss += float(loss.detach()) if self._watch else 0.0
            if loss.requires_grad:
                kept.ends.append(loss)
            return
        end(out.x, lambda: self._adjoints[number + 1].x.take(piece))
        end(out.message, lambda: self._message_gradient(number + 1, piece))

    def _look(self, number: int, piece: int, rows: Tensor, grad: bool) -> None:
        """Remembers the first chunk whose rows are not finite, and the loss without gradients."""
        rows = rows.detach()
        if self._fault is None and not bool(torch.isfinite(rows.sum())):
            bad = ~torch.isfinite(rows).flatten(1).all(1)
            if bool(bad.any()):
                row = self._pieces.spans[piece].start + int(bad.int().argmax())
                self._fault = int(self._stage.chunks.chunk_of(np.array(row)))
        if number + 1 == len(self._segments) and not grad:
            self._finish(piece, rows)

    def _finish(self, piece: int, rows: Tensor) -> None:
        self._loss += float(self._pieces.targets.of(piece, rows))

    def _store(self, number: int, piece: int, out: Values, saved: list[Saved]) -> None:
        for name in self._given_by(number):
            if self._watch:
                self._skips.setdefault(name, Held(self._pieces)).put(piece, out.skips[name])
            share(saved, out.skips[name], self._skips[name].get(piece))
        if number + 1 == len(self._segments):
            return
        level = self._levels[number + 1]
        if number + 1 in self._spilled and self._watch:
            level.spilled = level.spilled or self._disk()
            level.spilled.put(piece, out.x)
            if out.message is not None:  # rows of others are not read
                level.x = level.spilled
        level.x = level.x or Held(self._pieces)
        if level.x is not level.spilled:
            share(saved, out.x, level.x.put(piece, out.x))
        if out.message is not None:
            level.message = level.message or Held(self._pieces)
            share(saved, out.message, level.message.put(piece, out.message))

    def _given_by(self, number: int) -> list[str]:
        """Skip tensors that a segment gives to later ones."""
        if number + 1 == len(self._segments):
            return []
        layers = (self._stage.layers[op.layer] for op in self._segments[number])
        return [name for layer in layers for name in layer.given]

    # ---- backward --------------------------------------------------------------------------

    def _back(self, stretch: Stretch) -> None:
        """Goes back through a stretch, which is run first unless it was kept."""
        if not stretch.kept:
            if stretch.last < len(self._segments):
                self._input_again(stretch.first)
            for number in range(stretch.first, stretch.last - 1):
                self._run_all(number, True, at_once=True)
                message = self._levels[number].message
                if message is not None:
                    message.drop()
        for number in reversed(range(stretch.first, stretch.last)):
            message = self._levels[number].message
            if message is not None and message.restore():
                self._messages_again(number)
            for piece in range(len(self._pieces)):
                kept = self._kept.pop((number, piece), None)
                if kept is None:
                    kept = self._run(number, piece, True, store=False)
                self._levels[number].want_pushes()
                if kept.ends:
                    torch.autograd.backward(kept.ends)
                self._collect(number, piece, kept.given)
                del kept
            self._settle(number)

    def _input_again(self, number: int) -> None:
        """Makes what a segment reads of other nodes again, from its rows or from the file."""
        level = self._levels[number]
        if level.message is not None:
            self._messages_again(number)
        elif level.spilled is not None and level.x is not None:
            for piece in range(len(self._pieces)):
                level.x.put(piece, level.spilled.get(piece))

    def _messages_again(self, number: int) -> None:
        """Makes the messages in front of a segment again, from its rows."""
        level = self._levels[number]
        assert level.x is not None
        assert level.message is not None
        op = self._segments[number - 1][-1]
        for piece in range(len(self._pieces)):
            with torch.no_grad(), self._draws(piece) as draws:
                values = Values(level.x.get(piece))
                self._step(op, piece, values, level, draws)
            assert values.message is not None
            level.message.put(piece, values.message)

    def _collect(self, number: int, piece: int, given: Values) -> None:
        """Keeps the gradients of what a piece started with."""
        for name, leaf in given.skips.items():
            if leaf.grad is not None:
                self._skip_adjoint(name).add(piece, leaf.grad)
        if number == 0:
            return
        before = self._adjoints.get(number + 1)
        if number not in self._adjoints:
            self._adjoints[number] = self._like(before, given)
        own = self._adjoints[number]
        found = [(own.x, apart(gradient_of(given.x), own, own.x, piece))]
        if given.message is not None:
            assert own.message is not None
            message = apart(gradient_of(given.message), own, own.message, piece)
            found.append((own.message, message))
        for held, gradient in found:
            held.put(piece, gradient)

    def _like(self, before: Adjoint | None, given: Values) -> Adjoint:
        """Room for gradients of a level: that of the next one, whose pieces are read in step."""
        free = [] if before is None else [h for h in (before.x, before.message) if h is not None]

        def room(like: Tensor | None) -> Store | None:
            if like is None:
                return None
            if self._spill_adjoints:
                return self._disk()
            for held in free:
                rows = held.rows if isinstance(held, Held) else None
                if rows is not None and rows.shape[1:] == like.shape[1:]:
                    free.remove(held)
                    return Held(self._pieces, None if self._pieces.one else rows)
            return Held(self._pieces)

        x = room(given.x)
        assert x is not None
        return Adjoint(x, room(given.message))

    def _settle(self, number: int) -> None:
        """Frees what is behind a segment, and adds what its sums and edges give to its rows."""
        behind = self._adjoints.pop(number + 1, None)
        if behind is not None and self._spill_adjoints:
            behind.free()
        if number + 1 < len(self._levels):
            self._levels[number + 1] = Level()
        level, adjoint = self._levels[number], self._adjoints.get(number)
        level.features = None
        if adjoint is None:
            return
        held = adjoint.x if adjoint.message is None else adjoint.message
        for lists, sums in level.sums.values():
            for piece, span in enumerate(self._pieces.spans):
                held.add(piece, lists.gradient(sums.full, span))
        level.sums = {}
        if level.edges is not None and level.edges.adjoint is not None:
            for piece, span in enumerate(self._pieces.spans):
                held.add(piece, level.edges.adjoint[span])
        level.edges = None
        for store in (level.x, level.spilled):
            if store is not None:
                store.free()
        if level.message is not None:
            level.message.free()

    def _disk(self) -> Spilled:
        assert self._scratch is not None
        return Spilled(self._scratch, self._pieces)

    def _message_gradient(self, number: int, piece: int) -> Tensor:
        message = self._adjoints[number].message
        assert message is not None
        return message.take(piece)

    def _skip_gradient(self, name: str, piece: int) -> Tensor:
        return self._skip_adjoint(name).get(piece)

    def _skip_adjoint(self, name: str) -> Held:
        if name not in self._skip_adjoints:
            zeros = torch.zeros_like(self._skips[name].full)
            self._skip_adjoints[name] = Held(self._pieces, zeros)
        return self._skip_adjoints[name]

    # ---- layers ----------------------------------------------------------------------------

    def _steps(self, number: int, piece: int, given: Values) -> Values:
        now = Values(given.x, given.message, dict(given.skips))
        with self._draws(piece) as draws:
            for op in self._segments[number]:
                self._step(op, piece, now, self._levels[number], draws)
        return now

    def _draws(self, piece: int) -> Draws:
        inner, seed = self._pieces.inner[piece], self._stage.seed

        def key(number: int, place: int) -> int:
            return draw_key(seed, self._epoch, number, inner[place][0])

        return Draws(key, [span for _, span in inner], self._watch_dropout)

    def _step(self, op: Op, piece: int, now: Values, level: Level, draws: Draws) -> None:
        layer: GraphLayer = self._stage.layers[op.layer]
        draws.turn(2 * op.layer + (op.kind == "message"))
        if op.kind == "message":
            now.message = layer.message(now.x)
            return
        near = None
        if layer.aggregates or layer.placed:
            own = now.x if now.message is None else now.message
            dense = self._stage.runtime.recompute == "dense"
            near = PieceNear(self._adjacency, self._pieces, piece, level, own, draws, dense)
        now.x, given = layer.run(now.x, near, now.skips)
        now.message = None
        now.skips |= given
