"""rows: cuts rows of different layers to those they share, where they meet outside convolutions.

A residual adds the rows that a convolution read to the fewer rows that it gave; jumping knowledge
joins the rows of all layers. Only calls that torch would refuse are changed: the number of rows
differs, and both numbers are nodes within some hops of this batch's seeds.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from foregather.nn.accelerated.passing import AnyPass
from foregather.nn.accelerated.plan import Ended

__all__ = ["CutRows", "NoDropout"]


def _functions(*names: str) -> set[Any]:
    found = (getattr(home, name, None) for name in names for home in (torch, Tensor))
    return {function for function in found if function is not None}


_ELEMENTWISE = _functions(
    *("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "pow"),
    *("maximum", "minimum", "max", "min", "fmax", "fmin", "where", "lerp", "addcmul", "addcdiv"),
    *("logaddexp", "hypot", "atan2", "copysign", "eq", "ne", "lt", "le", "gt", "ge"),
    *("logical_and", "logical_or", "logical_xor", "rsub"),
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__"),
    *("__rtruediv__", "__div__", "__rdiv__", "__pow__", "__rpow__", "__and__", "__or__", "__xor__"),
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "masked_fill"),
)
_IN_PLACE = _functions(
    *("add_", "sub_", "mul_", "div_", "__iadd__", "__isub__", "__imul__", "__itruediv__"),
    *("lerp_", "addcmul_", "addcdiv_", "copy_", "masked_fill_"),
)
_JOINS = {torch.cat, torch.concat, torch.concatenate, torch.stack, torch.hstack, torch.column_stack}
_DROPOUT = {
    getattr(home, name)
    for home in (torch, functional)
    for name in (
        *("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"),
        *("dropout1d", "dropout2d", "dropout3d", "dropout_", "alpha_dropout_"),
    )
    if hasattr(home, name)
}


class CutRows(TorchFunctionMode):
    """Cuts rows in a pass; does nothing inside convolutions.

    Args:
        current: the pass.
        fixed: ids of the parameters and buffers, which are never cut.

    Attributes:
        used: some rows were cut.
    """

    def __init__(self, current: AnyPass, fixed: Iterable[int]) -> None:
        super().__init__()
        self.current, self.fixed, self.used = current, frozenset(fixed), False
        self._sets = current.hops.row_sets

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Calls the function, with rows cut where they differ."""
        kwargs = kwargs or {}
        if self.current.inside:
            return func(*args, **kwargs)
        if func in _ELEMENTWISE:
            args = self._cut(args)
        elif func in _IN_PLACE:
            args = self._cut_in_place(args)
        elif func in _JOINS and args and isinstance(args[0], (list, tuple)):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
            if func in (torch.hstack, torch.column_stack):
                dim = 1
            if func is torch.stack or self._not_first(dim, args[0]):
                args = (list(self._cut(tuple(args[0]))), *args[1:])
        return func(*args, **kwargs)

    def _not_first(self, dim: Any, tensors: Any) -> bool:
        wide = max((part.ndim for part in tensors if isinstance(part, Tensor)), default=0)
        return isinstance(dim, int) and wide > 1 and dim % wide != 0

    def _rows(self, values: tuple[Any, ...]) -> list[Tensor]:
        """The rows of one type that differ in number; none if they are left as they are."""
        for counts in self._sets:
            rows = [
                value
                for value in values
                if isinstance(value, Tensor)
                and value.ndim > 0
                and value.shape[0] in counts
                and id(value) not in self.fixed
            ]
            if len({row.shape[0] for row in rows}) > 1 and len({row.ndim for row in rows}) == 1:
                return rows
        return []

    def _cut(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        rows = self._rows(values)
        if not rows:
            return values
        self.used = True
        least, chosen = min(row.shape[0] for row in rows), {id(row) for row in rows}
        return tuple(value[:least] if id(value) in chosen else value for value in values)

    def _cut_in_place(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        rows = self._rows(values)
        if not rows:
            return values
        if values[0].shape[0] != min(row.shape[0] for row in rows):
            ended = Ended("it changes rows in place, of which only some are computed")
            self.current.ended = self.current.ended or ended
            raise ended
        return self._cut(values)


class NoDropout(TorchFunctionMode):
    """Makes dropout the identity, also inside convolutions, so that passes can be compared."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Calls the function, unless it is a dropout."""
        if func in _DROPOUT:
            kwargs = kwargs or {}
            return args[0] if args else kwargs["input"]
        return func(*args, **(kwargs or {}))
