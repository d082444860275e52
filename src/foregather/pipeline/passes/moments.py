"""moments: mean and variance of messages over all nodes, and where their gradients go.

Each way has the rows of its own nodes. What the ways found is combined along their chain, always in
the order of the ways, and what the last one has is sent back, so all of them normalise by the same
bits. A value that depends on all rows gives gradients to all of them: those of the chunks of a way
are added up first, and cross between ways once.
"""

from typing import Any

import torch
from torch import Tensor

from foregather.pipeline.passes.link import Link

__all__ = ["Moments", "add_gradient", "own_moments", "shared_moments"]

_VALUES = 1 << 18  # of rows that are computed at a time
_Function: Any = torch.autograd.Function  # untyped in torch


class Moments:
    """Mean and variance of the messages of one aggregation, found once for all chunks.

    Every way asks for the same columns in the same order, since all run the same layers.

    Args:
        link: to the other ways.
        own: how many of the rows are own; those of others follow.
        every: how many rows all ways have.
    """

    def __init__(self, link: Link, own: int, every: int) -> None:
        self._link, self._own, self._every = link, own, every
        self._found: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._gathered: dict[tuple[int, int], Tensor] = {}

    def of(self, rows: Tensor, columns: slice) -> tuple[Tensor, Tensor]:
        """Mean and variance of some columns of the rows of all ways."""
        key = (columns.start, columns.stop)
        if key not in self._found:
            self._found[key] = self._combined(rows[: self._own, columns])
        return self._found[key]

    def gather(self, columns: slice, of_mean: Tensor, of_var: Tensor) -> None:
        """Adds the gradients that one chunk has of mean and variance."""
        key, own = (columns.start, columns.stop), torch.stack([of_mean, of_var])
        self._gathered[key] = self._gathered[key] + own if key in self._gathered else own

    def push(self, rows: Tensor, adjoint: Tensor) -> None:
        """Adds what the chunks of all ways gathered to the gradients of the own rows."""
        for key, (mean, _) in self._found.items():
            own = self._gathered.pop(key, None)
            if own is None:  # other ways wait for this one's part
                own = torch.zeros(2, mean.shape[0], dtype=mean.dtype, device=mean.device)
            total = self._link.around(own, torch.add, "control", self._link.way_chain)
            mine = (slice(self._own), slice(*key))
            add_gradient(adjoint[mine], rows[mine], mean, total, self._every)

    def clear(self) -> None:
        """Forgets what was found: the rows will be others."""
        self._found.clear()
        self._gathered.clear()

    def _combined(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Combines means and variances as if all rows had been in one place."""
        own = rows.new_zeros(3, rows.shape[1])
        if rows.shape[0]:
            own[0], own[1], own[2] = rows.shape[0], rows.mean(0), rows.var(0, unbiased=False)
        total = self._link.around(own, _both, "control", self._link.way_chain)
        return total[1], total[2]


def _both(first: Tensor, second: Tensor) -> Tensor:
    """Rows, mean and variance of two sets of rows together; no difference of large sums."""
    rows = first[0] + second[0]
    share = second[0] / rows.clamp(min=1)
    apart = second[1] - first[1]
    mean = first[1] + apart * share
    var = (1 - share) * first[2] + share * second[2] + apart * apart * share * (1 - share)
    return torch.stack([rows, mean, var])


def add_gradient(adjoint: Tensor, rows: Tensor, mean: Tensor, gradient: Tensor, count: int) -> None:
    """Adds to the gradients of rows what those of mean and variance over `count` rows give."""
    of_mean, of_var = gradient
    step = max(1, _VALUES // max(1, rows.shape[1]))
    for first in range(0, rows.shape[0], step):  # rows of all nodes are not made once more
        part = rows[first : first + step] - mean
        part.mul_(2 * of_var / count).add_(of_mean / count)
        adjoint[first : first + step] += part


class _Own(_Function):  # type: ignore[misc]
    """Mean and variance of all fresh rows of one rank; gradients go to all of them at once."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, rows: Any, columns: slice) -> tuple[Tensor, Tensor]:
        every = rows.fresh[:, columns]
        mean, var = every.mean(0), every.var(0, unbiased=False)
        # the mean itself would refer to what made it: a circle that keeps all rows
        ctx.rows, ctx.columns, ctx.mean = rows, columns, mean.detach().clone()
        return mean, var

    @staticmethod
    def backward(ctx: Any, of_mean: Tensor, of_var: Tensor) -> tuple[None, None, None]:
        adjoint, every = ctx.rows.adjoint, ctx.rows.fresh[:, ctx.columns]
        assert adjoint is not None
        gradient = torch.stack([of_mean, of_var])
        add_gradient(adjoint[:, ctx.columns], every, ctx.mean, gradient, every.shape[0])
        return None, None, None


class _Shared(_Function):  # type: ignore[misc]
    """What `Moments` found; gradients are gathered there."""

    @staticmethod
    def forward(
        ctx: Any, own: Tensor, held: Moments, rows: Tensor, columns: slice
    ) -> tuple[Tensor, Tensor]:
        ctx.held, ctx.columns = held, columns
        mean, var = held.of(rows, columns)
        return mean.clone(), var.clone()

    @staticmethod
    def backward(ctx: Any, of_mean: Tensor, of_var: Tensor) -> tuple[None, None, None, None]:
        ctx.held.gather(ctx.columns, of_mean, of_var)
        return None, None, None, None


def own_moments(own: Tensor, rows: Any, columns: slice) -> tuple[Tensor, Tensor]:
    """Mean and variance of some columns of all fresh rows (`RowBuffers`) of one rank."""
    mean, var = _Own.apply(own, rows, columns)
    return mean, var


def shared_moments(
    own: Tensor, held: Moments, rows: Tensor, columns: slice
) -> tuple[Tensor, Tensor]:
    """The same over all ways; their gradients reach the rows when they are pushed."""
    mean, var = _Shared.apply(own, held, rows, columns)
    return mean, var
