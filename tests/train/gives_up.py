"""A model whose accelerated pass gives up in one training step, on some ranks or on all."""

import os

import torch
from torch import Tensor

from foregather.nn import SAGE

STEP = 4


class Died(Exception):
    """The end of a run that nobody waits for."""


class GivesUp(SAGE):
    """Two layers, which step `STEP` calls twice; in step TEST_DIES the run ends.

    The steps are in its state. TEST_GIVES_UP names the ranks that call them twice.
    """

    steps: Tensor

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__([in_channels, 16, out_channels], dropout=0.2)
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
        self.steps += int(self.training)
        step = int(self.steps) if self.training else 0
        if step and step == int(os.environ.get("TEST_DIES", "0")):
            raise Died
        found = super().forward(x, edge_index)
        if step == STEP and os.environ.get("RANK", "0") in os.environ["TEST_GIVES_UP"].split():
            found = 0.5 * (found + super().forward(x, edge_index))
        return found
