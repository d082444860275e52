"""saved: what autograd holds of a piece: its ends without their rows, and rows that are shared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from foregather.pipeline.passes.stage import Values
from foregather.pipeline.whole.levels import Adjoint, Held, Store

__all__ = ["Kept", "Saved", "Sink", "apart", "share"]

_Function: Any = torch.autograd.Function  # untyped in torch


class Sink(_Function):  # type: ignore[misc]
    """Where a segment's result leaves it: its gradient is fetched, and the rows are not held."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, fetch: Callable[[], Tensor]) -> Tensor:
        """Returns a number that stands for the rows."""
        ctx.fetch = fetch
        return rows.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        """Fetches the gradient of the rows."""
        return ctx.fetch(), None


@dataclass(slots=True)
class Kept:
    """What the backward pass of a piece in a segment starts from: its input, and its ends."""

    given: Values
    ends: list[Tensor] = field(default_factory=list)


@dataclass(slots=True)
class Saved:
    """A tensor that autograd saved; what is held elsewhere too is replaced by a view of that."""

    value: Tensor


def share(saved: Sequence[Saved], rows: Tensor, stored: Tensor) -> None:
    """Lets autograd's copies of rows be those that are stored."""
    for one in saved:
        value = one.value
        if (value.data_ptr(), value.dtype) != (rows.data_ptr(), stored.dtype):
            continue
        if (value.shape, value.stride()) == (stored.shape, stored.stride()):
            one.value = stored


def apart(gradient: Tensor, room: Adjoint, held: Store, piece: int) -> Tensor:
    """A gradient, copied if it lies in room that is about to be written by another."""
    if not isinstance(held, Held):
        return gradient
    rooms = [one.rows for one in (room.x, room.message) if isinstance(one, Held)]
    start = gradient.untyped_storage().data_ptr()
    if all(rows is None or rows.untyped_storage().data_ptr() != start for rows in rooms):
        return gradient
    if held.rows is not None and held.get(piece).data_ptr() == gradient.data_ptr():
        return gradient
    return gradient.clone()
