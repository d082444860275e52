"""parallel_model: wraps a model for several ranks: a copy on each (DDP) or a part on each (FSDP).

Both are torch's own and average the gradients. On one rank a model is not wrapped.
"""

import hashlib
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from foregather.train.checkpoints.checkpoint import is_sharded
from foregather.train.rank_agreement import Together

__all__ = ["model_facts", "spread", "whole_weights"]


def model_facts(model: nn.Module) -> dict[str, str]:
    """The facts that must be equal on all ranks before training.

    Model class, shapes and weights.
    """
    shapes, values = hashlib.sha256(), hashlib.sha256()
    for name, value in model.state_dict().items():
        shapes.update(f"{name} {value.dtype} {list(value.shape)};".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        if flat.numel():
            values.update(flat.view(torch.uint8).numpy())
    count = sum(value.numel() for value in model.parameters())
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    return {
        "model": f"{kind}, {count} weights, shapes {shapes.hexdigest()[:16]}",
        "initial weights (their digest)": values.hexdigest()[:16],
    }


def spread(
    model: nn.Module,
    weights: Literal["replicated", "sharded"],
    together: Together,
    partly: bool = False,
) -> nn.Module | None:
    """Prepares a model for training over ranks; a collective call.

    Args:
        model: the model, equal on all ranks.
        weights: complete on each rank, or a part on each.
        together: the ranks.
        partly: a batch may leave weights without a gradient: those of a relation that it has not.

    Returns:
        What is called in training instead of the model; None if that is the model itself.
    """
    if together.grid is None:
        return None
    with together.step("spreading the model"):
        if weights == "replicated":
            from torch.nn.parallel import DistributedDataParallel

            return DistributedDataParallel(model, find_unused_parameters=partly)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        kind = next(model.parameters()).device.type
        fully_shard(model, mesh=init_device_mesh(kind, (together.size,)))
    return None


def whole_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies the weights to host memory, gathering sharded ones; a collective call."""
    found = {}
    for name, value in weights.items():
        whole = value.full_tensor() if is_sharded(value) else value  # type: ignore[attr-defined]
        found[name] = whole.detach().cpu().clone().contiguous()
    return found
