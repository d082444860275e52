"""products: the dot product of the rows at both ends of each edge, for attention over queries.

The rows of an edge are never copied together: forward and backward passes read them in place.
"""

from typing import Any

import torch
from torch import Tensor

from foregather.nn import list_kernels as kernels
from foregather.nn.aggregate import Neighborhoods, refuse_second

__all__ = ["edge_products", "with_lists"]


def edge_products(query: Tensor, key: Tensor, near: Neighborhoods) -> Tensor:
    """Products [edges, heads] of `query` [targets, heads, d] and `key` [sources, heads, d].

    Half-precision rows are multiplied in float32.
    """
    if key.device.type != "cpu" or key.dtype != query.dtype:
        source = near.source.long()
        target = torch.repeat_interleave(near.indptr.diff(), output_size=near.num_edges)
        return (query.index_select(0, target) * key.index_select(0, source)).sum(dim=-1)
    given = with_lists(near, key, query, key)
    out: Tensor = _Products.apply(*given)  # type: ignore[no-untyped-call]
    return out


def with_lists(near: Neighborhoods, x: Tensor, *rows: Tensor) -> tuple[Tensor | None, ...]:
    """The rows, the edges by target and, where `x` has a gradient, also the edges by source."""
    lists: tuple[Tensor | None, ...] = (None, None, None)
    if x.requires_grad and torch.is_grad_enabled():
        lists = near.by_source.ptr, near.by_source.edge, near.by_source.target
    return (*rows, near.indptr, near.source, *lists)


class _Products(torch.autograd.Function):
    """The gradient of queries is a weighted sum of keys by target, that of keys one by source."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        query, key, indptr, source, *_ = given
        ctx.save_for_backward(*given)
        out: Tensor = kernels.edge_dots(key, query, indptr, source, False, None)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second()
        query, key, indptr, source, ptr, edge, target = ctx.saved_tensors
        to_query = to_key = None
        if ctx.needs_input_grad[0]:
            count = key.shape[0]
            to_query = kernels.sum_lists(key, indptr, source, None, count, grad, None, False)
        if ctx.needs_input_grad[1]:
            count = indptr.shape[0] - 1
            to_key = kernels.sum_lists(query, ptr, target, edge, count, grad, None, False)
        return to_query, to_key, None, None, None, None, None
