"""aggregate: sums, means, maxima and softmax over the edges of a batch, with their gradients.

Results and gradients are the same bits for any number of threads and on every processor: each
row is added up by one thread in the order of its list, and the gradient of node rows goes by the
lists by source, without atomics. bfloat16 and float16 are added up in float32 and rounded once. A
target without edges gives 0. Tensors that are not on the CPU go through torch's own operators.

Gradients can be taken once: a second derivative raises.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from foregather.errors import InputError
from foregather.nn import list_kernels as kernels
from foregather.nn.aggregate_plain import plain_aggregate, plain_edge_softmax
from foregather.nn.neighborhoods import BySource, Neighborhoods

__all__ = ["BySource", "Neighborhoods", "aggregate", "aggregate_heads", "edge_softmax"]

_REDUCES = ("sum", "mean", "max")


def aggregate(
    x: Tensor, neighborhoods: Neighborhoods, reduce: str = "sum", weight: Tensor | None = None
) -> Tensor:
    """The rows of `x` reduced over the edges of each target: [sources, d] to [targets, d].

    Args:
        x: float32, float64, bfloat16 or float16.
        neighborhoods: the edges.
        reduce: "sum", "mean" (the sum divided by the number of edges) or "max", by column; the
            gradient of a maximum goes to the first edge that has it.
        weight: [edges], multiplied with the rows; of the dtype of `x`, or float32 for half rows.

    Raises:
        InputError: shapes, dtypes or devices do not fit.
    """
    if reduce not in _REDUCES:
        raise InputError(f"reduce is {reduce!r}, expected 'sum', 'mean' or 'max'")
    _check_rows(x, neighborhoods, 2)
    if weight is not None:
        _check_edges("weight", weight, neighborhoods, (neighborhoods.num_edges,), x)
    return _reduced(x, neighborhoods, reduce, weight)


def aggregate_heads(x: Tensor, neighborhoods: Neighborhoods, weight: Tensor) -> Tensor:
    """Weighted sums by head: `x` [sources, heads, d] and `weight` [edges, heads].

    Returns:
        [targets, heads, d].

    Raises:
        InputError: shapes, dtypes or devices do not fit.
    """
    _check_rows(x, neighborhoods, 3)
    shape = (neighborhoods.num_edges, x.shape[1])
    _check_edges("weight", weight, neighborhoods, shape, x)
    return _reduced(x, neighborhoods, "sum", weight)


def edge_softmax(logits: Tensor, neighborhoods: Neighborhoods) -> Tensor:
    """Softmax of `logits`, [edges] or [edges, heads], over the edges of each target.

    Raises:
        InputError: shapes, dtypes or devices do not fit.
    """
    heads = tuple(logits.shape[1:2])
    _check_edges("logits", logits, neighborhoods, (neighborhoods.num_edges, *heads), logits)
    if logits.device.type != "cpu":
        return plain_edge_softmax(logits, neighborhoods)
    out: Tensor = _apply(_EdgeSoftmax, logits, neighborhoods.indptr)
    return out


def _reduced(x: Tensor, neighborhoods: Neighborhoods, reduce: str, weight: Tensor | None) -> Tensor:
    if x.device.type != "cpu":
        return plain_aggregate(x, neighborhoods, reduce, weight)
    ptr = edge = target = None
    if x.requires_grad and torch.is_grad_enabled():
        lists = neighborhoods.by_source
        ptr, edge, target = lists.ptr, lists.edge, lists.target
    if weight is not None:
        weight = weight.to(kernels.sum_dtype(x.dtype))
    given = (x, weight, neighborhoods.indptr, neighborhoods.source, ptr, edge, target)
    out: Tensor
    if reduce == "max":
        out, _ = _apply(_Max, *given)
    else:
        out = _apply(_Sum, *given, reduce == "mean")
    return out


# private to torch; without it every call takes the longer way
_transforming = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)


def refuse_second() -> None:
    """Refuses, in a backward pass, one whose gradients are to be differentiated again.

    torch's own refusal is lost where gradients of chosen tensors are asked for: the rest of the
    graph is not looked at, and what would go through here is missing in silence.

    Raises:
        InputError: the pass was asked for with create_graph=True.
    """
    if torch.is_grad_enabled():
        raise InputError(
            "create_graph=True asks for gradients of gradients, which the kernels do not have; "
            "call the model itself, without accelerate"
        )


def _apply(function: type[torch.autograd.Function], *given: Any) -> Any:
    """Calls a function with a gradient the shortest way.

    Only functions with `setup_context` work in transforms of torch.func, but torch looks at their
    signature in each call, which takes ten times as long as a small sum.
    """
    if torch.compiler.is_compiling() or _transforming():
        return function.apply(*given)  # type: ignore[no-untyped-call]
    return _short(function).apply(*given)  # type: ignore[no-untyped-call]


@cache
def _short(function: type[Any]) -> type[torch.autograd.Function]:
    """The same function, with its context set up in `forward`."""

    class Short(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            out = function.forward(*given)
            function.setup_context(ctx, given, out)
            return out

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            refuse_second()
            return function.backward(ctx, *grads)

    return Short


class _Sum(torch.autograd.Function):
    """Sums or means by target; the gradient of x is a sum by source."""

    @staticmethod
    def forward(
        x: Tensor,
        weight: Tensor | None,
        indptr: Tensor,
        source: Tensor,
        ptr: Tensor | None,
        edge: Tensor | None,
        target: Tensor | None,
        mean: bool,
    ) -> Tensor:
        out: Tensor = kernels.sum_lists(x, indptr, source, None, x.shape[0], weight, None, mean)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, weight, *lists, mean = inputs
        ctx.mean = mean
        # rows are kept only where the gradient of the weights needs them
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight, *lists)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, indptr, source, ptr, edge, target = ctx.saved_tensors
        to_x = to_weight = None
        if ctx.needs_input_grad[0]:
            limit, sizes = indptr.shape[0] - 1, indptr if ctx.mean else None
            to_x = kernels.sum_lists(grad, ptr, target, edge, limit, weight, sizes, False)
        if ctx.needs_input_grad[1]:
            to_weight = kernels.edge_dots(x, grad, indptr, source, ctx.mean, None)
        return to_x, to_weight, None, None, None, None, None, None


class _Max(torch.autograd.Function):
    """Maxima by target, and who won; the gradient of x goes to winners, by source."""

    @staticmethod
    def forward(
        x: Tensor,
        weight: Tensor | None,
        indptr: Tensor,
        source: Tensor,
        ptr: Tensor | None,
        edge: Tensor | None,
        target: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        out, winner = kernels.max_lists(x, indptr, source, weight)
        return out, winner

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, weight, *lists = inputs
        _, winner = output
        ctx.mark_non_differentiable(winner)
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight, winner, *lists)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        x, weight, winner, indptr, source, ptr, edge, target = ctx.saved_tensors
        to_x = to_weight = None
        if ctx.needs_input_grad[0]:
            to_x = kernels.max_lists_gradient(grad, winner, indptr, ptr, edge, target, weight)
        if ctx.needs_input_grad[1]:
            to_weight = kernels.edge_dots(x, grad, indptr, source, False, winner)
        return to_x, to_weight, None, None, None, None, None


class _EdgeSoftmax(torch.autograd.Function):
    """Softmax over the edges of each target."""

    @staticmethod
    def forward(logits: Tensor, indptr: Tensor) -> Tensor:
        out: Tensor = kernels.edge_softmax(logits, indptr)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(output, inputs[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, indptr = ctx.saved_tensors
        return kernels.edge_softmax_gradient(y, grad, indptr), None


def _check_rows(x: Tensor, neighborhoods: Neighborhoods, dims: int) -> None:
    if x.dim() != dims or x.shape[0] != neighborhoods.num_sources:
        columns = "columns" if dims == 2 else "heads, columns"
        raise InputError(
            f"x has shape {list(x.shape)}, expected [{neighborhoods.num_sources}, {columns}]: "
            "a row for each source"
        )
    if x.dtype not in kernels.NUMBERS:
        raise InputError(
            f"x is {x.dtype}, expected float32, float64, bfloat16 or float16; convert it"
        )
    if x.device != neighborhoods.indptr.device:
        raise InputError(
            f"x is on {x.device} and the neighborhoods on {neighborhoods.indptr.device}; make them "
            "of an edge_index on the device of x"
        )


def _check_edges(
    name: str, given: Tensor, neighborhoods: Neighborhoods, shape: tuple[int, ...], x: Tensor
) -> None:
    if given.shape != shape:
        raise InputError(
            f"{name} has shape {list(given.shape)}, expected {list(shape)}: an entry for each edge"
        )
    if given.dtype not in kernels.NUMBERS or (
        given.dtype not in (x.dtype, kernels.sum_dtype(x.dtype))
    ):
        raise InputError(
            f"{name} is {given.dtype}, expected {x.dtype} as x has, or "
            f"{kernels.sum_dtype(x.dtype)}; convert it"
        )
    if given.device != neighborhoods.indptr.device:
        raise InputError(
            f"{name} is on {given.device} and the neighborhoods on {neighborhoods.indptr.device}; "
            "move it there"
        )
