"""aggregation: autograd Functions in push form, and what a layer sees through them (`Near`).

Forward: messages are kept in buffers, and rows of in-neighbours are read: fresh ones, or history.
Backward: gradients of fresh rows are pushed to their owners; history is a constant and gets none.
No transposed graph is needed, so it works for any convolution. The chunks of a tick meet at a gate:
behind it, their messages are available to all, including other ways; in front of it, all gradients
pushed to them have arrived.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from foregather.pipeline.partition.chunk_topology import ChunkTopology, Matrix
from foregather.pipeline.passes.moments import Moments, shared_moments
from foregather.pipeline.passes.way_exchange import Across

__all__ = [
    "ChunkNear",
    "Exchange",
    "Gate",
    "RowBuffers",
    "gated",
    "product",
    "pull",
    "run_dense",
]

_Function: Any = torch.autograd.Function  # untyped in torch


@dataclass(slots=True)
class RowBuffers:
    """Rows [held, width] of one aggregation on one rank.

    Attributes:
        fresh: messages of this epoch.
        history: messages as they were; None if nothing is ever stale.
        adjoint: gradients pushed to the rows' owners; None if no gradient is needed.
        moments: their mean and variance, for layers that ask: of history, or else of fresh rows.
    """

    fresh: Tensor
    history: Tensor | None = None
    adjoint: Tensor | None = None
    moments: Moments | None = None

    def push_moments(self) -> None:
        """Adds the gradients of mean and variance to those of the own rows."""
        if self.moments is not None:
            assert self.adjoint is not None
            self.moments.push(self.fresh, self.adjoint)


@dataclass(slots=True)
class Gate:
    """Where the chunks of one tick meet in one aggregation.

    Attributes:
        rows: the buffers.
        spans: positions of the chunks of this rank.
        across: messages to and from other ways; None for one way.
        again: the rows are recomputed, so they are already in the buffers.
    """

    rows: RowBuffers
    spans: Sequence[slice]
    across: Across | None = None
    again: bool = False
    _pushed: int = field(default=0, init=False)
    _sent: bool = field(default=False, init=False)

    def enter(self, own: Tensor) -> None:
        """Stores the messages and starts sending them."""
        self.rows.fresh[self._span] = own
        if self.rows.moments is not None and self.rows.history is None and not self.again:
            self.rows.moments.clear()
        if self.across is not None and not self.again:
            self.across.start(self.rows.fresh)

    def wait(self) -> None:
        """Waits for the messages of other ways."""
        if self.across is not None:
            self.across.finish(self.rows.fresh)

    def pushed(self) -> None:
        """Notes that a chunk has pushed its gradients; after the last one they are sent."""
        self._pushed += 1
        if self._pushed == len(self.spans):
            self._send_back()

    def leave(self, gradient: Tensor) -> Tensor:
        """Adds what all others pushed to these chunks."""
        adjoint = self.rows.adjoint
        assert adjoint is not None
        if self.across is not None:
            self._send_back()
            self.across.finish_back(adjoint)
        self.rows.push_moments()
        return gradient + adjoint[self._span]

    @property
    def _span(self) -> slice | Tensor:
        if len(self.spans) == 1:
            return self.spans[0]
        return torch.cat([torch.arange(s.start, s.stop) for s in self.spans]).to(
            self.rows.fresh.device
        )

    def _send_back(self) -> None:
        if self.across is not None and not self._sent:
            assert self.rows.adjoint is not None
            self._sent = True
            self.across.start_back(self.rows.adjoint)


@dataclass(slots=True)
class Exchange:
    """What one chunk reads and pushes in one aggregation.

    Attributes:
        rows: the buffers; None if `table` is given.
        others: the rows it reads from other chunks: positions, or numbers for `table`.
        fresh: which of `others` are read fresh; None means all of them.
        factor: weight of gradients it pushes to chunks of earlier ticks.
        earlier: which of the fresh ones belong to earlier ticks; None means all of them.
        gate: where the chunks of its tick meet; None if all rows are already there.
        table: reads rows that never change (the graph's features) instead of buffers.
    """

    rows: RowBuffers | None
    others: Tensor
    fresh: Tensor | None = None
    factor: float = 1.0
    earlier: Tensor | None = None
    gate: Gate | None = None
    table: Callable[[Tensor], Tensor] | None = None

    def read(self, own: Tensor) -> Tensor:
        """Returns own rows, then the rows of others."""
        near = own.new_empty(own.shape[0] + self.others.shape[0], own.shape[1])
        near[: own.shape[0]] = own
        self._read_into(near[own.shape[0] :])
        return near

    def read_others(self, own: Tensor) -> Tensor:
        """Returns the rows of others."""
        near = own.new_empty(self.others.shape[0], own.shape[1])
        self._read_into(near)
        return near

    def _read_into(self, near: Tensor) -> None:
        rows = self.rows
        if not self.others.numel():
            return
        if rows is None:
            assert self.table is not None
            near[:] = self.table(self.others)
            return
        if self.gate is not None:
            self.gate.wait()
        if self.fresh is None:
            torch.index_select(rows.fresh, 0, self.others, out=near)
        else:
            assert rows.history is not None
            near[self.fresh] = rows.fresh[self.others[self.fresh]]
            near[~self.fresh] = rows.history[self.others[~self.fresh]]

    def push(self, theirs: Tensor) -> None:
        """Adds gradients to the rows of others."""
        if self.rows is None:
            return
        assert self.rows.adjoint is not None
        others = self.others
        if self.fresh is not None:
            theirs, others = theirs[self.fresh], others[self.fresh]
        if self.factor != 1:
            theirs = theirs * self._factors(theirs)
        self.rows.adjoint.index_add_(0, others, theirs)
        if self.gate is not None:
            self.gate.pushed()

    def _factors(self, theirs: Tensor) -> Tensor | float:
        if self.earlier is None:
            return self.factor
        return torch.where(self.earlier, self.factor, 1.0).to(theirs.dtype)[:, None]


class _Gated(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, own: Tensor, gate: Gate) -> Tensor:
        ctx.gate = gate
        gate.enter(own)
        return own.view_as(own)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.gate.leave(gradient), None


class _Pull(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, own: Tensor, exchange: Exchange) -> Tensor:
        ctx.exchange, ctx.count = exchange, own.shape[0]
        return exchange.read(own)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.exchange.push(gradient[ctx.count :])
        return gradient[: ctx.count], None


class _PullOthers(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, own: Tensor, exchange: Exchange) -> Tensor:
        ctx.exchange = exchange
        return exchange.read_others(own)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None]:
        ctx.exchange.push(gradient)
        return None, None  # what others push back is added at the gate


class _Product(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Matrix) -> Tensor:
        ctx.matrix = matrix  # constant weights: the dense factor need not be saved
        return matrix.forward @ rows

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.backward @ gradient, None


def product(rows: Tensor, matrix: Matrix) -> Tensor:
    """Multiplies rows by a constant sparse matrix."""
    out: Tensor = _Product.apply(rows, matrix)
    return out


def pull(own: Tensor, exchange: Exchange) -> Tensor:
    """Returns own rows, then the rows of others; gradients of those are pushed to their owners."""
    rows: Tensor = _Pull.apply(own, exchange)
    return rows


def gated(messages: Sequence[Tensor], gate: Gate) -> list[Tensor]:
    """Passes the messages of a tick's chunks through their gate."""
    own: Tensor = _Gated.apply(messages[0] if len(messages) == 1 else torch.cat([*messages]), gate)
    if len(messages) == 1:
        return [own]
    return list(torch.split(own, [m.shape[0] for m in messages]))


class ChunkNear:
    """`Near` of one chunk: see `foregather.nn.layer.Near`.

    It waits for rows of others when they are first needed; a weighted sum over own rows is computed
    before that.

    Args:
        topology: edges of all chunks.
        chunk: its number.
        own: its messages.
        exchange: where the messages of others come from.
        recompute: recompute dense parts in the backward pass.
    """

    def __init__(
        self,
        topology: ChunkTopology,
        chunk: int,
        own: Tensor,
        exchange: Exchange,
        recompute: bool = False,
    ) -> None:
        self.own = own
        self.count = topology.locals[chunk].count
        self._topology = topology
        self._chunk = chunk
        self._exchange = exchange
        self._recompute = recompute
        self._rows: Tensor | None = None
        self._others: Tensor | None = None

    @property
    def rows(self) -> Tensor:
        """Own messages, then those of others."""
        if self._rows is None:
            if self._others is not None:
                self._rows = torch.cat([self.own, self._others])
            else:
                self._rows = _Pull.apply(self.own, self._exchange)
        rows: Tensor = self._rows
        return rows

    def aggregate(self, norm: str = "mean") -> Tensor:
        """Weighted sums over in-neighbours [own, width]."""
        gate = self._exchange.gate
        if gate is None or gate.across is None or self._rows is not None:
            return product(self.rows, self._topology.matrix(self._chunk, norm))
        inner, outer = self._topology.halves(self._chunk, norm)
        out = product(self.own, inner)
        if not self._exchange.others.numel():
            return out
        # made after the product of own rows: its gradient is sent before that one's is computed
        if self._others is None:
            self._others = _PullOthers.apply(self.own, self._exchange)
        return out + product(self._others, outer)

    def edges(self, norm: str | None = None) -> tuple[Tensor, Tensor | None]:
        """`edge_index` into `rows`, and weights."""
        return self._topology.edges(self._chunk, norm)

    def edge_attr(self) -> Tensor | None:
        """Edge feature rows."""
        return self._topology.edge_attr(self._chunk)

    def moments(self, columns: slice) -> tuple[Tensor, Tensor]:
        """Mean and variance of columns of all nodes' messages."""
        rows, exchange = self._exchange.rows, self._exchange
        if rows is None:
            every = self.own  # where layers are only timed, one chunk is all there is
            if exchange.table is not None:  # every way reads the features themselves
                every = exchange.table(torch.arange(self._topology.graph.num_nodes))
            every = every[:, columns]
            return every.mean(0), every.var(0, unbiased=False)
        assert rows.moments is not None
        if rows.history is None:
            return shared_moments(self.own, rows.moments, rows.fresh, columns)
        mean, var = rows.moments.of(rows.history, columns)
        if not bool(mean.any() or var.any()):  # before the first epoch there is no history
            mean, var = self.own[:, columns].mean(0), self.own[:, columns].var(0, unbiased=False)
        return mean, var

    def sum_along(self, key: Hashable, make: Callable[[], Any]) -> Tensor | None:
        """None: rows of other ranks and of history are read from where they are."""
        return None

    def passing(self, ptr: Tensor | None) -> AbstractContextManager[None]:
        """Nothing: a chunk draws its own numbers whatever they are for."""
        return nullcontext()

    @property
    def place(self) -> tuple[ChunkTopology, int]:
        """All chunks, and the number of this one."""
        return self._topology, self._chunk

    def dense(self, part: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """`part(*values)`; if dense parts are recomputed, only aggregation outputs are kept."""
        return run_dense(part, values, self._recompute)


def run_dense(part: Callable[..., Tensor], values: Sequence[Tensor], recompute: bool) -> Tensor:
    """`part(*values)`; if it is recomputed, only its arguments are kept."""
    if not (recompute and torch.is_grad_enabled()):
        return part(*values)
    out: Tensor = checkpoint(part, *values, use_reentrant=False)
    return out
