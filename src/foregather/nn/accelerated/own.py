"""own: sums over edges together with the targets' own rows, whose gradients are one sum.

Where both are taken of the same rows, torch would make the gradient of the first rows as large as
that of all of them, and add the two.
"""

from typing import Any

import torch
from torch import Tensor

from foregather.nn import list_kernels as kernels
from foregather.nn.aggregate import Neighborhoods, aggregate, refuse_second

__all__ = ["aggregate_and_own"]


def aggregate_and_own(
    x: Tensor, near: Neighborhoods, reduce: str, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Sums or means of the rows of x over the edges of each target, and the rows of the targets."""
    plain = x.device.type != "cpu" or (weight is not None and weight.requires_grad)
    if plain or not (x.requires_grad and torch.is_grad_enabled()):
        return aggregate(x, near, reduce, weight), x[: near.num_targets]
    if weight is not None:
        weight = weight.to(kernels.sum_dtype(x.dtype))
    lists = near.by_source
    given = (x, weight, near.indptr, near.source, lists.ptr, lists.edge, lists.target)
    out: tuple[Tensor, Tensor] = _Both.apply(*given, reduce == "mean")  # type: ignore[no-untyped-call]
    return out


class _Both(torch.autograd.Function):
    """The gradient of x is a sum by source, to which that of the targets' rows is added."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor]:
        x, weight, indptr, source, *lists, mean = given
        ctx.set_materialize_grads(False)
        ctx.mean = mean
        ctx.save_for_backward(weight, indptr, *lists)
        total = kernels.sum_lists(x, indptr, source, None, x.shape[0], weight, None, mean)
        return total, x[: indptr.shape[0] - 1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, to_own: Tensor | None) -> tuple[Any, ...]:
        refuse_second()
        weight, indptr, ptr, edge, target = ctx.saved_tensors
        count, sizes = indptr.shape[0] - 1, indptr if ctx.mean else None
        if grad is None:
            assert to_own is not None
            to_x = to_own.new_zeros(ptr.shape[0] - 1, *to_own.shape[1:])
        else:
            to_x = kernels.sum_lists(grad, ptr, target, edge, count, weight, sizes, False)
        if to_own is not None:
            to_x[:count] += to_own
        return to_x, None, None, None, None, None, None, None
