"""linears: linear maps of a model by the core's products, while an accelerated pass runs.

`forward` of each is replaced on the instance, as that of convolutions is; the replacement does what
the module does unless a pass runs in its own thread. So maps outside convolutions, in the network
of a GIN or after the last layer, gain as those inside do.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from foregather.nn.dense import is_linear, linear, linear_sum, pays_here

__all__ = ["fast_linears", "is_plain_linear", "linears_of", "sum_of_maps"]

_lock = threading.Lock()
_local = threading.local()


class _LinearForward:
    """Stands for `forward` of one linear map."""

    def __init__(self, module: Any) -> None:
        self.module, self.users = module, 0
        self.own: Callable[[Tensor], Tensor] = module.forward

    def __call__(self, x: Tensor) -> Tensor:
        if getattr(_local, "passes", 0) == 0:
            return self.own(x)
        return linear(x, self.module.weight, self.module.bias)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of a model made in another thread meanwhile gets the module's own forward."""
        copied = memo[id(self.module)]
        return type(self.module).forward.__get__(copied)


def is_plain_linear(module: Any) -> bool:
    """Whether a module is a linear map that may be applied after a sum: its forward is its own."""
    own = module.__dict__.get("forward")
    return is_linear(module) and (own is None or isinstance(own, _LinearForward))


# private to torch; without it two maps are called one by one
_global_hooks = getattr(nn.modules.module, "_has_any_global_hook", lambda: True)


def _unhooked(module: Any) -> bool:
    if _global_hooks():
        return False
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    return not any(hooks) and not module._backward_pre_hooks


def sum_of_maps(one: Any, x: Tensor, other: Any, y: Tensor) -> Tensor:
    """The sum of what two modules give, the second perhaps None; formed in one place if linear."""
    if other is None:
        out: Tensor = one(x)
        return out
    fused = pays_here() and all(is_plain_linear(map_) and _unhooked(map_) for map_ in (one, other))
    if fused and (one.bias is None or other.bias is None):
        bias = other.bias if one.bias is None else one.bias
        return linear_sum(x, one.weight, y, other.weight, bias)
    return torch.add(one(x), other(y))


def linears_of(parts: Sequence[nn.Module]) -> list[nn.Module]:
    """Those of the modules that gain here: none where torch's own products are as fast."""
    return [part for part in parts if is_linear(part)] if pays_here() else []


@contextmanager
def fast_linears(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Forms the products of these linear maps by the core, in this thread."""
    if not modules:
        yield
        return
    taken = []
    with _lock:
        for module in modules:
            if is_plain_linear(module):
                forward = module.__dict__.get("forward")
                if forward is None:
                    forward = module.__dict__["forward"] = _LinearForward(module)
                forward.users += 1
                taken.append(module)
    _local.passes = getattr(_local, "passes", 0) + 1
    try:
        yield
    finally:
        _local.passes -= 1
        with _lock:
            for module in taken:
                module.__dict__["forward"].users -= 1
                if module.__dict__["forward"].users == 0:
                    del module.__dict__["forward"]
