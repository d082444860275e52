"""boundary_sample: which boundary rows ways exchange in an epoch, if they exchange only some.

A row that another way reads crosses with probability p, and then counts 1 / p times: a sum over
in-neighbours is right on average. Whether a node's row crosses depends on (seed, epoch, node)
alone, so all ranks know it without a message, and its gradient comes back by the same rows. The
layers of an epoch use one sample.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foregather.pipeline.partition.way_rows import Reach
from foregather.pipeline.planning.schedule import draw_key

__all__ = ["BoundarySample", "kept_nodes"]

Ids = npt.NDArray[np.int64]

_STREAM = 0x626F756E64  # apart from the keys of orders and dropout


@dataclass(frozen=True, slots=True)
class BoundarySample:
    """The sample of one epoch, as one way sees it.

    Attributes:
        kept: for each row that this way holds, whether it crosses where another way reads it.
        scale: 1 / p.
    """

    kept: Tensor
    scale: float

    @staticmethod
    def of(reach: Reach, rate: float, seed: int, epoch: int) -> "BoundarySample":
        """Draws the sample of an epoch."""
        kept = torch.from_numpy(kept_nodes(reach.ids, rate, seed, epoch)).to(reach.device)
        return BoundarySample(kept, 1 / rate)


def kept_nodes(ids: Ids, rate: float, seed: int, epoch: int) -> npt.NDArray[np.bool_]:
    """Returns for each node whether its row crosses in an epoch."""
    with np.errstate(over="ignore"):
        x = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x += np.uint64(draw_key(_STREAM, seed, epoch))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        x ^= x >> np.uint64(31)
    found: npt.NDArray[np.bool_] = (x >> np.uint64(11)).astype(np.float64) * 2.0**-53 < rate
    return found
