"""aggregation: one autograd Function in push form, and what a layer sees through it (`Near`).

Forward: a chunk's messages are kept in its buffer, and rows of in-neighbours are read: fresh ones,
or history. Backward: gradients of fresh rows are pushed to their owners; history is a constant and
gets none. No transposed graph is needed, so any convolution can stand behind it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from foregather.pipeline.local import Matrix, Topology

__all__ = ["ChunkNear", "Exchange", "Rows", "near_rows"]

# autograd.Function is untyped in torch
_Function: Any = torch.autograd.Function


@dataclass(slots=True)
class Rows:
    """Rows [N, width] of one aggregation on one stage.

    Attributes:
        fresh: messages of this epoch.
        history: messages as they were; None where nothing is ever stale.
        adjoint: gradients pushed to the rows' owners; None where no gradient is asked for.
    """

    fresh: Tensor
    history: Tensor | None = None
    adjoint: Tensor | None = None


@dataclass(slots=True)
class Exchange:
    """What one chunk reads and pushes in one aggregation.

    Attributes:
        rows: the buffers; None where `table` is given.
        span: the chunk's own rows.
        others: the rows it reads of other chunks.
        fresh: which of `others` are read fresh; None is all of them.
        factor: weight of gradients pushed to this chunk by others; None: the caller adds them
            itself when all have been pushed.
        keep: write the chunk's messages into the buffer.
        table: reads rows that never change (the graph's features) in place of buffers.
    """

    rows: Rows | None
    span: slice
    others: Tensor
    fresh: Tensor | None
    factor: float | None
    keep: bool = True
    table: Callable[[Tensor], Tensor] | None = None

    def read(self, own: Tensor) -> Tensor:
        """Own rows, then the rows of others."""
        rows, count = self.rows, own.shape[0]
        near = own.new_empty(count + self.others.shape[0], own.shape[1])
        near[:count] = own
        if rows is None:
            assert self.table is not None
            near[count:] = self.table(self.others)
            return near
        if self.keep:
            rows.fresh[self.span] = own
        if self.fresh is None:
            torch.index_select(rows.fresh, 0, self.others, out=near[count:])
        else:
            assert rows.history is not None
            near[count:][self.fresh] = rows.fresh[self.others[self.fresh]]
            near[count:][~self.fresh] = rows.history[self.others[~self.fresh]]
        return near

    def push(self, gradient: Tensor) -> Tensor:
        """Gives others what is theirs; returns the gradient of the own rows."""
        assert self.rows is not None and self.rows.adjoint is not None
        adjoint, count = self.rows.adjoint, self.span.stop - self.span.start
        theirs, others = gradient[count:], self.others
        if self.fresh is not None:
            theirs, others = theirs[self.fresh], others[self.fresh]
        adjoint.index_add_(0, others, theirs)
        own = gradient[:count]
        return own if self.factor is None else own + self.factor * adjoint[self.span]


class _Pull(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, own: Tensor, exchange: Exchange) -> Tensor:
        ctx.exchange = exchange
        return exchange.read(own)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.exchange.push(gradient), None


class _Product(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Matrix) -> Tensor:
        ctx.matrix = matrix  # constant weights: the dense factor need not be saved
        return matrix.forward @ rows

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.backward @ gradient, None


def near_rows(own: Tensor, exchange: Exchange) -> Tensor:
    """Rows [own + others, width] of one aggregation, with the push rule for gradients."""
    rows: Tensor = _Pull.apply(own, exchange)
    return rows


class ChunkNear:
    """`Near` of one chunk: see `foregather.nn.layer.Near`.

    Args:
        topology: edges of all chunks.
        chunk: which one.
        rows: own messages, then those of others.
        recompute: recompute dense parts in the backward pass.
    """

    def __init__(
        self, topology: Topology, chunk: int, rows: Tensor, recompute: bool = False
    ) -> None:
        self.rows = rows
        self.count = topology.locals[chunk].count
        self._topology = topology
        self._chunk = chunk
        self._recompute = recompute

    def aggregate(self, norm: str = "mean") -> Tensor:
        """Weighted sums over in-neighbours [own, width]."""
        out: Tensor = _Product.apply(self.rows, self._topology.matrix(self._chunk, norm))
        return out

    def edges(self, norm: str | None = None) -> tuple[Tensor, Tensor | None]:
        """`edge_index` into `rows`, and weights."""
        return self._topology.edges(self._chunk, norm)

    def edge_attr(self) -> Tensor | None:
        """Edge feature rows."""
        return self._topology.edge_attr(self._chunk)

    def dense(self, part: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """`part(*values)`; only aggregation outputs are kept where dense parts are recomputed."""
        if not (self._recompute and torch.is_grad_enabled()):
            return part(*values)
        out: Tensor = checkpoint(part, *values, use_reentrant=False)
        return out
