"""heads: attention over edges whose logits are a sum of what both ends have, as in GAT.

Such a logit is a product of the end's row with one vector a head, W' a, so it needs no mapped rows.
Sums weighted by attention may be of the rows themselves, and mapped afterwards, head by head: that
is fewer products where there are fewer targets than sources. All on the CPU.
"""

from typing import Any

import torch
from torch import Tensor

from foregather.nn import list_kernels as kernels
from foregather.nn.accelerated.products import with_lists
from foregather.nn.aggregate import Neighborhoods, refuse_second
from foregather.nn.dense import multiply

__all__ = ["edge_attention", "head_products", "mapped_twice", "shared_sums", "sums_come_first"]


# What a number costs, in numbers multiplied and added by a product of many rows and columns, as
# measured with two threads and 4 heads of 32 columns on rows of 128.
_BY_HEAD = 1.8  # one of a product of a single head
_ALONG_EDGE, _SHARED_ALONG_EDGE = 17, 11  # one of a row that an edge reads
_TO_ROWS = 40  # one of the gradient of rows, which is formed for each head and then added up


def sums_come_first(
    counts: tuple[int, int, int], heads: int, widths: tuple[int, int], grads: tuple[bool, bool]
) -> bool:
    """Whether rows are summed by attention and then mapped, because that costs less.

    Args:
        counts: sources, targets and edges.
        heads: of the attention.
        widths: columns of a row, and of a head of a mapped one.
        grads: whether there is a backward pass, and whether rows get a gradient in it.
    """
    sources, targets, edges = counts
    wide, narrow = widths
    backward, to_rows = grads
    product = heads * wide * narrow
    mapped_first = (1 + backward + to_rows) * sources * product
    mapped_first += (1 + 2 * backward) * _ALONG_EDGE * edges * heads * narrow
    summed_first = (1 + 2 * backward) * _BY_HEAD * targets * product
    summed_first += (1 + backward) * _SHARED_ALONG_EDGE * edges * heads * wide
    summed_first += to_rows * _TO_ROWS * sources * heads * wide
    return summed_first < mapped_first


def edge_attention(given: Tensor, taken: Tensor, slope: float, near: Neighborhoods) -> Tensor:
    """Softmax [edges, heads] of leaky sums of `given` [sources, heads] and `taken` [targets, …]."""
    lists: tuple[Tensor | None, ...] = (None, None)
    if given.requires_grad and torch.is_grad_enabled():
        lists = near.by_source.ptr, near.by_source.edge
    out: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
        given, taken, near.indptr, near.source, *lists, slope
    )
    return out


class _Attention(torch.autograd.Function):
    """The gradient of `given` is a sum over the edges of each source, that of `taken` by target."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        given, taken, indptr, source, ptr, edge, slope = inputs
        given, taken = given.contiguous(), taken.contiguous()
        out: Tensor = kernels.edge_attention(given, taken, indptr, source, slope)
        ctx.slope = slope
        ctx.save_for_backward(given, taken, indptr, source, ptr, edge, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second()
        given, taken, indptr, source, ptr, edge, y = ctx.saved_tensors
        to_sum, to_taken = kernels.edge_attention_gradient(
            given, taken, indptr, source, ctx.slope, y, grad
        )
        to_given = None
        if ctx.needs_input_grad[0]:
            count = source.shape[0]
            to_given = kernels.sum_lists(to_sum, ptr, edge, None, count, None, None, False)
        return to_given, to_taken, None, None, None, None, None


def shared_sums(x: Tensor, weight: Tensor, near: Neighborhoods) -> Tensor:
    """Sums [targets, heads, columns] of x [sources, columns] by `weight` [edges, heads]."""
    given = with_lists(near, x, x, weight)
    out: Tensor = _SharedSums.apply(*given)  # type: ignore[no-untyped-call]
    return out


class _SharedSums(torch.autograd.Function):
    """The gradient of a weight is a product of rows at both ends of its edge."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        x, weight, indptr, source, *_ = given
        ctx.save_for_backward(*given)
        out: Tensor = kernels.sum_lists(x, indptr, source, None, x.shape[0], weight, None, False)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second()
        x, weight, indptr, source, ptr, edge, target = ctx.saved_tensors
        to_x = to_weight = None
        if ctx.needs_input_grad[0]:
            count = indptr.shape[0] - 1
            heads = kernels.sum_lists(grad, ptr, target, edge, count, weight, None, False)
            to_x = heads.sum(dim=1)
        if ctx.needs_input_grad[1]:
            to_weight = kernels.edge_dots(x, grad, indptr, source, False, None)
        return to_x, to_weight, None, None, None, None, None


def head_products(x: Tensor, weight: Tensor) -> Tensor:
    """X [rows, heads, columns] mapped by `weight` [heads, channels, columns], head by head."""
    out: Tensor = _HeadProducts.apply(x, weight)  # type: ignore[no-untyped-call]
    return out


class _HeadProducts(torch.autograd.Function):
    """Products are written where they belong, so that heads are not copied together."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = x.new_empty(x.shape[0], weight.shape[0], weight.shape[1])
        for head, part in enumerate(weight):
            multiply(x[:, head], part.t(), out[:, head])
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        refuse_second()
        x, weight = ctx.saved_tensors
        to_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        to_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        for head, part in enumerate(weight):
            if to_x is not None:
                multiply(grad[:, head], part, to_x[:, head])
            if to_weight is not None:
                multiply(grad[:, head].t(), x[:, head], to_weight[head])
        return to_x, to_weight


def mapped_twice(x: Tensor, weight: Tensor, few: Tensor) -> tuple[Tensor, Tensor]:
    """X mapped by a weight and by another of few rows, whose gradients of x are one sum."""
    out: tuple[Tensor, Tensor] = _MappedTwice.apply(x, weight, few)  # type: ignore[no-untyped-call]
    return out


class _MappedTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, few: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, weight, few)
        return multiply(x, weight.t()), x @ few.t()

    @staticmethod
    def backward(ctx: Any, grad: Tensor, by_few: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second()
        x, weight, few = ctx.saved_tensors
        to_x = None
        if ctx.needs_input_grad[0]:
            to_x = multiply(by_few, few, multiply(grad, weight), add=True)
        to_weight = multiply(grad.t(), x) if ctx.needs_input_grad[1] else None
        return to_x, to_weight, by_few.t() @ x if ctx.needs_input_grad[2] else None
