"""accelerated: a model computes only the rows that later layers need, on batches in hop order."""

from foregather.nn.accelerated import attention  # noqa: F401  (its rules)
from foregather.nn.accelerated.wrapper import Accelerated, accelerate

__all__ = ["Accelerated", "accelerate"]
