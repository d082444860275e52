"""norms: BatchNorm over all nodes, whose statistics are a reading of all rows like any other.

In an exact pass mean and variance are those of all nodes of this epoch, and gradients go through
them; in a fast pass they are those of the last epoch's rows, and constants. Running statistics are
moved once per epoch.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from foregather.pipeline.split.program import ByMode, Program
from foregather.pipeline.split.tape import Call, Ref

__all__ = ["Running", "is_norm", "normalised"]

_NAMES = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")


def _arguments(call: Call) -> dict[str, Any]:
    return {**dict(zip(_NAMES, call.args, strict=False)), **call.kwargs}


def is_norm(program: Program, call: Call) -> bool:
    """Whether a call normalises rows of nodes by statistics over all of them."""
    if call.name != "batch_norm" or program.values[call.outs[0]].kind != "node":
        return False
    training = _arguments(call)["training"]
    return bool(training.train if isinstance(training, ByMode) else training)


def norm_input(call: Call) -> int:
    """The value that is normalised."""
    given: Ref = _arguments(call)["input"]
    return given.value


def always(call: Call) -> bool:
    """Whether evaluation takes statistics of all nodes, too (no running ones are kept)."""
    return not isinstance(_arguments(call)["training"], ByMode)


def normalised(call: Call, rows: Tensor, mean: Tensor, var: Tensor, resolve: Any) -> Tensor:
    """The rows with mean 0 and variance 1, scaled and moved as the module asks for."""
    given = {name: resolve(leaf) for name, leaf in _arguments(call).items() if name != "input"}
    out = (rows - mean) * torch.rsqrt(var + given.get("eps", 1e-5))
    if given.get("weight") is not None:
        out = out * given["weight"]
    return out if given.get("bias") is None else out + given["bias"]


@dataclass(slots=True)
class Running:
    """The running statistics of one module, and what the last pass found.

    Attributes:
        module: the BatchNorm of the user's model.
        found: mean, variance and rows of the last pass; None before it.
    """

    module: nn.Module
    found: tuple[Tensor, Tensor, int] | None = None

    def end_epoch(self) -> None:
        """Moves the running statistics by those of this epoch."""
        module: Any = self.module
        if self.found is None or getattr(module, "running_mean", None) is None:
            return
        mean, var, rows = self.found
        with torch.no_grad():
            module.num_batches_tracked.add_(1)
            share = module.momentum
            if share is None:
                share = 1.0 / float(module.num_batches_tracked)
            module.running_mean.mul_(1 - share).add_(mean, alpha=share)
            module.running_var.mul_(1 - share).add_(var * (rows / max(1, rows - 1)), alpha=share)
        self.found = None
