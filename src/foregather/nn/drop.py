"""drop: dropout that draws 16 bits per value; torch's is far slower on a CPU."""

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["dropout"]

_STEPS = 1 << 16  # the share is a multiple of 1 / 65536
_LOWEST = -(1 << 63)


def dropout(x: Tensor, share: float, training: bool = True) -> Tensor:
    """Zeroes each value with probability `share`; the others are scaled up to keep the mean.

    Args:
        x: values.
        share: from 0 to 1, rounded to a multiple of 1 / 65536 on a CPU.
        training: False returns x unchanged.
    """
    dropped = round(share * _STEPS)
    if not training or x.device.type != "cpu" or dropped in (0, _STEPS):
        return functional.dropout(x, share, training)
    count = x.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(_LOWEST, None)
    kept = draws.view(torch.int16)[:count].view(x.shape) >= dropped - _STEPS // 2
    return x * kept.to(x.dtype).mul_(_STEPS / (_STEPS - dropped))
