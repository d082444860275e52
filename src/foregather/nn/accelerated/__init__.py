"""accelerated: a model on batches in order of hops computes only the rows that later layers need."""

from foregather.nn.accelerated import attention  # noqa: F401  (its rules)
from foregather.nn.accelerated.wrapper import Accelerated, accelerate

__all__ = ["Accelerated", "accelerate"]
