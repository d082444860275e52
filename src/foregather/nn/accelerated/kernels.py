"""kernels: aggregation over the edges of a batch by target, in plain torch."""

from dataclasses import dataclass

import torch
from torch import Tensor

from foregather.errors import InputError

__all__ = ["Neighborhoods", "aggregate", "aggregate_heads", "edge_softmax"]


@dataclass(frozen=True, slots=True, eq=False)
class Neighborhoods:
    """The edges by target."""

    indptr: Tensor
    source: Tensor
    num_sources: int
    target: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_sources: int, num_targets: int) -> "Neighborhoods":
        """Checks and builds."""
        source, target = edge_index
        if target.numel() and bool((target[1:] < target[:-1]).any()):
            raise InputError("targets do not ascend")
        count = torch.bincount(target, minlength=num_targets)
        indptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
        return cls(indptr, source, num_sources, target)

    def first(self, targets: int, sources: int) -> "Neighborhoods":
        """A view of the first targets."""
        indptr = self.indptr[: targets + 1]
        end = int(indptr[-1])
        return Neighborhoods(indptr, self.source[:end], sources, self.target[:end])


def aggregate(
    x: Tensor, neighborhoods: Neighborhoods, reduce: str = "sum", weight: Tensor | None = None
) -> Tensor:
    """Sum, mean or max of the rows of each target's sources."""
    rows = x.index_select(0, neighborhoods.source)
    if weight is not None:
        rows = rows * weight[:, None]
    targets = neighborhoods.indptr.numel() - 1
    out = x.new_zeros(targets, x.shape[1])
    if reduce == "max":
        index = neighborhoods.target[:, None].expand_as(rows)
        return out.scatter_reduce(0, index, rows, "amax", include_self=False)
    out = out.index_add(0, neighborhoods.target, rows)
    if reduce == "mean":
        out = out / neighborhoods.indptr.diff().clamp(min=1)[:, None].to(x.dtype)
    return out


def aggregate_heads(x: Tensor, neighborhoods: Neighborhoods, weight: Tensor) -> Tensor:
    """Weighted sums for each head."""
    rows = x.index_select(0, neighborhoods.source) * weight[..., None]
    out = x.new_zeros(neighborhoods.indptr.numel() - 1, *x.shape[1:])
    return out.index_add(0, neighborhoods.target, rows)


def edge_softmax(logits: Tensor, neighborhoods: Neighborhoods) -> Tensor:
    """Softmax over the edges of each target."""
    targets = neighborhoods.indptr.numel() - 1
    index = neighborhoods.target
    wide = index.view(-1, *[1] * (logits.ndim - 1)).expand_as(logits)
    high = logits.new_full((targets, *logits.shape[1:]), -torch.inf)
    high = high.scatter_reduce(0, wide, logits.detach(), "amax")
    raised = (logits - high.index_select(0, index)).exp()
    total = torch.zeros_like(high).index_add(0, index, raised)
    return raised / total.index_select(0, index)
