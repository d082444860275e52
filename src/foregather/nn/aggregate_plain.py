"""aggregate_plain: aggregation in torch's own operators, for tensors that are not on the CPU.

The same results as the kernels up to rounding; sums of half-precision rows are formed in float32
here too.
"""

import torch
from torch import Tensor

from foregather.nn.list_kernels import sum_dtype
from foregather.nn.neighborhoods import Neighborhoods

__all__ = ["plain_aggregate", "plain_edge_softmax", "targets_of"]


def targets_of(neighborhoods: Neighborhoods) -> Tensor:
    """The target of each edge."""
    indptr = neighborhoods.indptr
    rows = torch.arange(neighborhoods.num_targets, device=indptr.device)
    return rows.repeat_interleave(indptr.diff(), output_size=neighborhoods.num_edges)


def plain_aggregate(
    x: Tensor, neighborhoods: Neighborhoods, reduce: str, weight: Tensor | None
) -> Tensor:
    """`aggregate` and `aggregate_heads`."""
    wide = sum_dtype(x.dtype)
    messages = x.index_select(0, neighborhoods.source.long()).to(wide)
    if weight is not None:
        messages = messages * weight.to(wide).unsqueeze(-1)
    target = targets_of(neighborhoods)
    out = messages.new_zeros(neighborhoods.num_targets, *x.shape[1:])
    if reduce == "max":
        index = target.unsqueeze(1).expand_as(messages)
        return out.scatter_reduce(0, index, messages, "amax", include_self=False).to(x.dtype)
    out = out.index_add(0, target, messages)
    if reduce == "mean":
        sizes = neighborhoods.indptr.diff().clamp(min=1).to(wide)
        out = out / sizes.view(-1, *[1] * (x.dim() - 1))
    return out.to(x.dtype)


def plain_edge_softmax(logits: Tensor, neighborhoods: Neighborhoods) -> Tensor:
    """`edge_softmax`."""
    target = targets_of(neighborhoods)
    values = logits.to(sum_dtype(logits.dtype))
    empty = values.new_zeros(neighborhoods.num_targets, *values.shape[1:])
    index = target.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    most = empty.scatter_reduce(0, index, values.detach(), "amax", include_self=False)
    powers = (values - most.index_select(0, target)).exp()
    sums = empty.index_add(0, target, powers)
    return (powers / sums.index_select(0, target)).to(logits.dtype)
