"""cut: runs a layer on one row of the topology in pieces, as if it saw the row at once.

Inside `with cut:`, every aggregation of the module adds the messages of a piece to those of earlier
pieces, in the order of the pieces, in float64; after the last piece its value is that of the whole
row. A softmax over the neighbours (attention) is carried along with its largest exponent and its
sum, so what was summed before is scaled to the new sum. Whether this is right for a module cannot
be seen from its code: `exact.probe` compares before anything is cut.
"""

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from foregather.nn import SAGEConv

__all__ = ["CannotCut", "Cut"]


class CannotCut(Exception):
    """An aggregation in a form that cannot be summed in pieces."""


class Cut:
    """Lets a module see one target's row piece by piece; the target is row 0 of each piece.

    One object per row; its state from earlier pieces is kept when the `with` block is left.

    Args:
        module: a convolution, or a model that holds some.

    Attributes:
        strips: self-loops are to be left out of the pieces: the module adds its own, in the last.
    """

    def __init__(self, module: nn.Module) -> None:
        self._modules = list(module.modules())
        self._loops = [
            part
            for part in self._modules
            if getattr(part, "add_self_loops", None) is True and not hasattr(part, "normalize")
        ]
        self.strips = bool(self._loops)
        self._changed: list[tuple[nn.Module, str]] = []
        self._states: dict[tuple[Any, int], Any] = {}
        self._calls: dict[Any, int] = {}
        self._scale: dict[int, Tensor] = {}

    def __enter__(self) -> "Cut":
        for module in self._modules:
            if isinstance(module, SAGEConv):
                self._set(module, "mean", self._own_mean(module))
            kind = type(module).__name__
            if kind in _RULES and type(module).__module__.startswith("torch_geometric.nn.aggr"):
                self._set(module, "forward", self._forward(module, _RULES[kind]))
            for name in ("edge_update", "message"):
                self._catch_softmax(module, name)
        return self

    def __exit__(self, *_: object) -> None:
        for module, name in self._changed:
            module.__dict__.pop(name, None)
        for module in self._loops:
            module.add_self_loops = True  # type: ignore[assignment]
        self._changed.clear()

    def begin_piece(self, last: bool) -> None:
        """Starts the next piece of the row."""
        self._calls.clear()
        self._scale.clear()
        for module in self._loops:
            module.add_self_loops = last  # type: ignore[assignment]

    # ---- replacements for a module's own methods -------------------------------------------

    def _set(self, module: nn.Module, name: str, value: Any) -> None:
        module.__dict__[name] = value
        self._changed.append((module, name))

    def _state(self, key: Any, make: Callable[[], Any]) -> Any:
        """The state that a module's n-th call keeps from piece to piece."""
        number = self._calls[key] = self._calls.get(key, -1) + 1
        return self._states.setdefault((key, number), make())

    def _own_mean(self, module: SAGEConv) -> Callable[..., Tensor]:
        def mean(messages: Tensor, edge_index: Tensor, count: int) -> Tensor:
            state = self._state(id(module), _Mean)
            return _put(state, messages.index_select(0, edge_index[0]), edge_index[1], count)

        return mean

    def _forward(self, module: nn.Module, rule: "type[_Sum]") -> Callable[..., Tensor]:
        def forward(
            x: Tensor,
            index: Tensor | None = None,
            ptr: Tensor | None = None,
            dim_size: int | None = None,
            dim: int = -2,
            **_: Any,
        ) -> Tensor:
            if index is None or dim_size is None or dim % x.ndim != 0:
                raise CannotCut(f"{type(module).__name__} without an index of targets")
            state = self._state(id(module), lambda: rule(module))
            scale = self._scale.pop(id(module), None)
            if scale is not None:
                state.rescale(scale)
            return _put(state, x, index, dim_size)

        return forward

    def _catch_softmax(self, module: nn.Module, name: str) -> None:
        """Gives a method another `softmax`, in a copy of its globals that only this object sees."""
        function: Any = getattr(type(module), name, None)
        names = getattr(function, "__globals__", {})
        if getattr(names.get("softmax"), "__module__", "") != "torch_geometric.utils._softmax":
            return
        if "softmax" not in function.__code__.co_names or not hasattr(module, "aggr_module"):
            return
        other = types.FunctionType(
            function.__code__,
            {**names, "softmax": self._softmax(module)},
            name,
            function.__defaults__,
            function.__closure__,
        )
        other.__kwdefaults__ = function.__kwdefaults__
        self._set(module, name, types.MethodType(other, module))

    def _softmax(self, module: Any) -> Callable[..., Tensor]:
        def softmax(src: Tensor, index: Tensor, *_: Any, **__: Any) -> Tensor:
            state = self._state((id(module), "softmax"), _Exponents)
            chosen = index == 0
            weights, scale = state.add(src[chosen])
            self._scale[id(module.aggr_module)] = scale
            out = torch.zeros_like(src)
            out[chosen] = weights.to(src.dtype)
            return out

        return softmax


def _put(state: "_Sum", x: Tensor, index: Tensor, count: int) -> Tensor:
    """Adds the messages to row 0, and gives it among `count` rows."""
    chosen = index == 0
    state.add(x if bool(chosen.all()) else x[chosen])
    out = x.new_zeros((count, *x.shape[1:]))
    value = state.value()
    if value is not None:
        out[0] = value.to(x.dtype)
    return out


# ---- the rules: the state kept for the messages seen so far ------------------------------------


class _Sum:
    """Also the base of the others."""

    def __init__(self, module: Any = None) -> None:
        self.module, self.count = module, 0
        self.total: Tensor | None = None

    def add(self, x: Tensor) -> None:
        """The messages of a piece."""
        if len(x):
            self.count += len(x)
            self.join(x)

    def join(self, x: Tensor) -> None:
        """At least one message."""
        part = x.sum(dim=0).double()  # torch sums in a tree; only pieces are added here
        self.total = part if self.total is None else self.total + part

    def rescale(self, scale: Tensor) -> None:
        """What was summed counts by this share from now on."""
        if type(self) not in (_Sum, _Mean):
            raise CannotCut("a softmax under an aggregation that is not a sum")
        if self.total is not None:
            self.total = self.total * scale.reshape(
                *scale.shape, *[1] * (self.total.ndim - scale.ndim)
            )

    def value(self) -> Tensor | None:
        """The aggregation of all messages so far; None if there were none."""
        return self.total


class _Mean(_Sum):
    def value(self) -> Tensor | None:
        return None if self.total is None else self.total / self.count


class _Max(_Sum):
    def join(self, x: Tensor) -> None:
        part = x.amax(dim=0).double()
        self.total = part if self.total is None else torch.maximum(self.total, part)


class _Min(_Sum):
    def join(self, x: Tensor) -> None:
        part = x.amin(dim=0).double()
        self.total = part if self.total is None else torch.minimum(self.total, part)


class _Var(_Sum):
    """By the sums of differences from the first message, which are small where values are near."""

    first: Tensor | None = None
    squares: Tensor | None = None

    def join(self, x: Tensor) -> None:
        if self.first is None:
            self.first = x[0].double()
            self.total, self.squares = torch.zeros_like(self.first), torch.zeros_like(self.first)
        assert self.total is not None and self.squares is not None
        apart = x.double() - self.first
        self.total = self.total + apart.sum(dim=0)
        self.squares = self.squares + (apart * apart).sum(dim=0)

    def value(self) -> Tensor | None:
        if self.total is None or self.squares is None:
            return None
        mean = self.total / self.count
        return self.squares / self.count - mean * mean


class _Softmax(_Sum):
    """Messages weighted by a softmax of themselves."""

    def __init__(self, module: Any = None) -> None:
        super().__init__(module)
        self.exponents = _Exponents()

    def join(self, x: Tensor) -> None:
        t = self.module.t
        weights, scale = self.exponents.add(x * t)
        part = (x * weights).sum(dim=0)
        self.total = part if self.total is None else self.total * scale + part


class _Exponents:
    """The largest exponent so far, and the sum of exponentials relative to it."""

    def __init__(self) -> None:
        self.largest: Tensor | None = None
        self.total: Tensor | None = None

    def add(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Weights of these within all so far, and by how much those of earlier ones shrink."""
        alpha = alpha.double()
        if self.largest is None or self.total is None:
            self.largest = alpha.new_full(alpha.shape[1:], -torch.inf)
            self.total = alpha.new_zeros(alpha.shape[1:])
        if not len(alpha):
            return alpha, torch.ones_like(self.total)
        largest = torch.maximum(self.largest, alpha.amax(dim=0))
        before = self.total * torch.exp(self.largest - largest)
        now = torch.exp(alpha - largest)
        total = before + now.sum(dim=0)
        self.largest, self.total = largest, total
        return now / total, before / total


_RULES: dict[str, type[_Sum]] = {
    "SumAggregation": _Sum,
    "MeanAggregation": _Mean,
    "MaxAggregation": _Max,
    "MinAggregation": _Min,
    "VarAggregation": _Var,
    "SoftmaxAggregation": _Softmax,
}
