"""chunk_order: the order in which an epoch takes its chunks; a pure function of seed and epoch."""

import numpy as np

from foregather import _core

__all__ = ["chunk_order"]


def chunk_order(chunks: int, seed: int, epoch: int, reshuffle: bool = True) -> list[int]:
    """Returns the order of an epoch; without `reshuffle`, always that of epoch 0."""
    order = np.empty(chunks, np.int64)
    _core.shuffled(chunks, seed, epoch if reshuffle else 0, 0, order)
    return [int(c) for c in order]
