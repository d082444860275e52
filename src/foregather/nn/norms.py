"""norms: normalisations with statistics over nodes, so that fewer rows change their results."""

from typing import Any

from torch import nn

__all__ = ["is_collective", "mixing_norms", "neutralize"]

_PYG = (
    *("BatchNorm", "InstanceNorm", "LayerNorm", "GraphNorm", "GraphSizeNorm", "PairNorm"),
    *("MeanSubtractionNorm", "DiffGroupNorm"),
)


def _mixes(module: nn.Module) -> bool:
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return True
    kind = type(module)
    return kind.__module__.startswith("torch_geometric.nn.norm") and kind.__name__ in _PYG


def is_collective(module: nn.Module) -> bool:
    """Whether a module exchanges statistics with other ranks, so that it cannot be tried alone."""
    return isinstance(module, nn.SyncBatchNorm) and module.training


def mixing_norms(model: nn.Module) -> dict[str, nn.Module]:
    """Norms that may mix nodes, by name, without those that are part of another."""
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        if _mixes(module) and not any(name.startswith(f"{outer}.") for outer in found):
            found[name] = module
    return found


def neutralize(model: nn.Module, names: tuple[str, ...]) -> None:
    """Makes norms of a copy the identity."""
    for name in names:
        model.get_submodule(name).__dict__["forward"] = _first


def _first(x: Any, *_: Any, **__: Any) -> Any:
    return x
