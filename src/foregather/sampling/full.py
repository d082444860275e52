"""full: takes every in-neighbour of every frontier node; no randomness.

For small graphs, for evaluation, and as the reference for the other samplers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foregather.errors import InputError
from foregather.sampling.bulk import Expand
from foregather.sampling.matrix import MatrixSampler
from foregather.sampling.rows import Picks, Rows

__all__ = ["Full"]


@dataclass(frozen=True, slots=True)
class Full(MatrixSampler):
    """All in-neighbours, `num_layers` layers deep.

    Attributes:
        num_layers: layers of a minibatch.
        expand: "once" lists each node's edges once, "per-layer" in every layer after it was found.
    """

    num_layers: int
    expand: Expand = "once"

    def __post_init__(self) -> None:
        if self.num_layers < 1:
            raise InputError(f"num_layers is {self.num_layers}, expected at least 1")
        if self.expand not in ("once", "per-layer"):
            raise InputError(f'expand is {self.expand!r}, expected "once" or "per-layer"')

    @property
    def layer_sizes(self) -> Sequence[int]:
        """All in-neighbours in every layer."""
        return (-1,) * self.num_layers

    def sample(self, p: Rows) -> Picks:
        """Every entry of P."""
        return Picks(np.arange(len(p.columns)))
