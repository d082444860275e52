"""weighted: sums of in-neighbours by the weights that a sampler gives edges."""

from torch import Tensor

__all__ = ["weighted_sum"]


def weighted_sum(x: Tensor, edges: Tensor, weight: Tensor, count: int) -> Tensor:
    """The sum of weight times row over the edges into each of the first `count` targets."""
    sent = x.index_select(0, edges[0]) * weight.to(x.dtype)[:, None]
    return x.new_zeros(count, x.shape[1]).index_add_(0, edges[1], sent)
