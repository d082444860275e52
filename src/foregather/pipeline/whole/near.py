"""near: what a layer sees of a piece: sums over in-neighbours straight from the rows of all nodes.

The gradient of a sum is kept until all pieces have theirs; then each piece collects what its rows
were given to. A layer that looks at edges itself gets rows of other pieces copied behind its own.
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.passes.aggregation import Exchange, pull, run_dense
from foregather.pipeline.passes.moments import own_moments
from foregather.pipeline.whole.adjacency import Adjacency, Lists
from foregather.pipeline.whole.draws import Draws
from foregather.pipeline.whole.levels import Held, Level
from foregather.pipeline.whole.pieces import Pieces

__all__ = ["PieceNear"]

_Function: Any = torch.autograd.Function  # untyped in torch


class _Sums(_Function):  # type: ignore[misc]
    """Sums over in-neighbours; their gradient is noted, or for one piece carried on at once."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, near: "PieceNear", key: Hashable, lists: Lists) -> Tensor:
        ctx.near, ctx.key, ctx.lists = near, key, lists
        return near.sum_rows(key, lists)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None, None]:
        near: PieceNear = ctx.near
        if near.pieces.one:
            return ctx.lists.gradient(gradient, near.span), None, None, None
        near.note_sum(ctx.key, ctx.lists, gradient)
        return None, None, None, None


class PieceNear:
    """`Near` of one piece: see `foregather.nn.layer.Near`.

    Args:
        adjacency: all edges.
        pieces: how the nodes are cut.
        piece: its number.
        level: rows of all nodes.
        own: messages of the piece.
        draws: the random numbers of its chunks, or None.
        recompute: recompute dense parts in the backward pass.
    """

    def __init__(
        self,
        adjacency: Adjacency,
        pieces: Pieces,
        piece: int,
        level: Level,
        own: Tensor,
        draws: Draws | None,
        recompute: bool,
    ) -> None:
        self.own, self.level, self.pieces = own, level, pieces
        self.span = pieces.spans[piece]
        self.count = self.span.stop - self.span.start
        self._adjacency, self._piece = adjacency, piece
        self._draws, self._recompute = draws, recompute
        self._rows: Tensor | None = None
        self._noted: set[Hashable] = set()
        self._asked: set[Hashable] = set()

    @property
    def rows(self) -> Tensor:
        """Own messages, then those of others."""
        if self._draws is not None:
            self._draws.others = True
        self.pieces.reads_rows = True
        if self.pieces.one:
            return self.own
        if self._rows is None:
            others = self.pieces.place.locals[self._piece].others
            self._rows = pull(self.own, Exchange(self.level.by_edges(), others))
        return self._rows

    def aggregate(self, norm: str = "mean") -> Tensor:
        """Weighted sums over in-neighbours [own, width]."""
        return self.sum_along(norm, lambda: self._adjacency.lists(norm))

    def sum_along(self, key: Hashable, make: Callable[[], Lists]) -> Tensor:
        """Sums of messages over given lists of edges."""
        out: Tensor = _Sums.apply(self.own, self, key, make())
        return out

    def sum_rows(self, key: Hashable, lists: Lists) -> Tensor:
        """Sums for the piece; where those of all pieces are made at once, it takes its own."""
        read, summed = self.level.read, self.level.summed
        self._asked.add(key)
        self.pieces.sums = max(self.pieces.sums, len(self._asked))
        if summed is None:
            return lists.sums(read, self.span)
        if key not in summed:
            summed[key] = {n: lists.sums(read, span) for n, span in enumerate(self.pieces.spans)}
        own = summed[key].pop(self._piece, None)  # taken once: who took it may have changed it
        return lists.sums(read, self.span) if own is None else own

    def note_sum(self, key: Hashable, lists: Lists, gradient: Tensor) -> None:
        """Keeps the gradient of a sum, in addition to that of an earlier call."""
        if key in self._noted:
            self.level.sums[key][1].add(self._piece, gradient)
            return
        self._noted.add(key)
        if key not in self.level.sums:
            self.level.sums[key] = (lists, Held(self.pieces))
        self.level.sums[key][1].put(self._piece, gradient)

    def moments(self, columns: slice) -> tuple[Tensor, Tensor]:
        """Mean and variance of columns of all nodes' messages."""
        self.pieces.reads_moments = True
        return own_moments(self.own, self.level.by_edges(), columns)

    def passing(self, ptr: Tensor | None) -> AbstractContextManager[None]:
        """Inside, random numbers are those of edges."""
        return nullcontext() if self._draws is None else self._draws.passing(ptr)

    @property
    def place(self) -> tuple[ChunkTopology, int]:
        """The graph in pieces, and the number of this one."""
        return self.pieces.place, self._piece

    def edges(self, norm: str | None = None) -> tuple[Tensor, Tensor | None]:
        """`edge_index` into `rows`, and weights."""
        return self.pieces.place.edges(self._piece, norm)

    def edge_attr(self) -> Tensor | None:
        """Edge feature rows."""
        return self.pieces.place.edge_attr(self._piece)

    def dense(self, part: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """`part(*values)`; if dense parts are recomputed, only its arguments are kept."""
        if self._recompute and self._draws is not None:
            part = self._draws.resumable(part)
        return run_dense(part, values, self._recompute)
