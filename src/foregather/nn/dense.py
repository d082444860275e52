"""dense: products of float32 matrices by the core, where it is faster than torch's library.

That is on processors with lanes of 512 bits that are not Intel's, for products that are not small
(`csrc/nn/dense.hpp`); everything else is torch's own product. Which of the two it is depends on the
processor and on shapes alone, never on a measurement, so that a run that is resumed gets the same
bits. Results are the same bits for any number of threads. Gradients can be taken once.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from foregather import _core
from foregather.nn.aggregate import refuse_second

__all__ = ["is_linear", "linear", "linear_sum", "multiply", "pays_here"]

#: Multiplications below which a call through torch costs less than the product gains.
_WORTH = 1 << 20
_PLAIN = (Tensor, nn.Parameter)
# Private to torch; without one of them, products that may have gradients are torch's own.
_transforming = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_saving_hooks = getattr(
    torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _: torch.is_grad_enabled()
)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)


@cache
def pays_here() -> bool:
    """Whether this processor has lanes that torch's library leaves unused."""
    return bool(_core.dense_pays())


def is_linear(module: Any) -> bool:
    """Whether a module is of a class whose forward is a linear map and nothing else."""
    kind = type(module)
    pyg = kind.__module__ == "torch_geometric.nn.dense.linear" and kind.__name__ == "Linear"
    return pyg or kind is nn.Linear


def _fits(a: Tensor, b: Tensor, columns: int) -> bool:
    """Whether the core forms this product; the columns are those of the result."""
    return (
        a.dim() == 2
        and a.shape[0] * a.shape[1] * columns >= _WORTH
        and pays_here()
        and a.dtype == torch.float32
        and b.dtype == torch.float32
        and type(a) in _PLAIN
        and type(b) in _PLAIN
        and a.device.type == "cpu"
        and b.device.type == "cpu"
        and a.layout == torch.strided
        and b.layout == torch.strided
        and not a.is_neg()
        and not b.is_neg()
        and torch.get_float32_matmul_precision() == "highest"
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not _transforming()
        and _dispatch_modes() == 0  # what counts or changes operators sees torch's
    )


def multiply(a: Tensor, b: Tensor, out: Tensor | None = None, *, add: bool = False) -> Tensor:
    """The product of two matrices, without gradients.

    Args:
        a: [rows, inner].
        b: [inner, columns].
        out: where it goes, whose rows are contiguous; new memory unless given.
        add: it is added to what `out` holds.
    """
    if _multiplies(a, b, out):
        made = a.new_empty(a.shape[0], b.shape[1]) if out is None else out
        try:
            _product(made, None, add, (a, b))
            return made
        except RuntimeError:  # a batch of gradients, which has no address
            pass
    if add and out is not None:
        return out.addmm_(a, b)
    return torch.mm(a, b) if out is None else torch.mm(a, b, out=out)


def _multiplies(a: Tensor, b: Tensor, out: Tensor | None) -> bool:
    if b.dim() != 2 or a.shape[1:] != b.shape[:1] or not _fits(a, b, b.shape[1]):
        return False
    return out is None or (
        out.dtype == a.dtype
        and out.shape == (a.shape[0], b.shape[1])
        and (out.stride(1) == 1 or out.shape[1] <= 1)
    )


def _product(out: Tensor, bias: Tensor | None, add: bool, *products: tuple[Tensor, Tensor]) -> None:
    _core.dense(
        [
            (
                a.data_ptr(),
                (a.stride(0), a.stride(1)),
                b.data_ptr(),
                (b.stride(0), b.stride(1)),
                a.shape[1],
            )
            for a, b in products
        ],
        (out.shape[0], out.shape[1]),
        out.data_ptr(),
        out.stride(0),
        add,
        0 if bias is None else bias.data_ptr(),
        torch.get_num_threads(),
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """What `torch.nn.functional.linear` gives, to rounding."""
    if not _takes(x, weight, bias):
        return functional.linear(x, weight, bias)
    out: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


def linear_sum(
    first: Tensor, by_first: Tensor, second: Tensor, by_second: Tensor, bias: Tensor | None = None
) -> Tensor:
    """The sum of two linear maps of as many rows, formed in one place."""
    takes = _takes(first, by_first, bias) and _takes(second, by_second, None)
    if not takes or (len(first), len(by_first)) != (len(second), len(by_second)):
        return functional.linear(first, by_first, bias) + functional.linear(second, by_second)
    out: Tensor = _LinearSum.apply(  # type: ignore[no-untyped-call]
        bias, first, by_first, second, by_second
    )
    return out


def _takes(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    fits = weight.dim() == 2 and x.dim() == 2 and x.shape[1] == weight.shape[1]
    if not fits or not _fits(x, weight, weight.shape[0]):
        return False
    # A checkpoint computes the map again after the pass, by torch, and would find tensors saved in
    # torch's order and layout.
    if _saving_hooks(False):
        return False
    return bias is None or (
        type(bias) in _PLAIN
        and bias.dtype == x.dtype
        and bias.shape == weight.shape[:1]
        and not bias.is_neg()
    )


def _gradients(ctx: Any, grad: Tensor, first: int, x: Tensor, weight: Tensor) -> tuple[Any, Any]:
    """Of the rows and the weight that are inputs `first` and `first + 1`."""
    to_x = multiply(grad, weight) if ctx.needs_input_grad[first] else None
    return to_x, multiply(grad.t(), x) if ctx.needs_input_grad[first + 1] else None


class _Linear(torch.autograd.Function):
    """The bias is where the sums begin."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = x.new_empty(x.shape[0], weight.shape[0])
        _product(out, None if bias is None else bias.contiguous(), False, (x, weight.t()))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second()
        x, weight = ctx.saved_tensors
        to_bias = grad.sum(dim=0) if ctx.needs_input_grad[2] else None
        return *_gradients(ctx, grad.contiguous(), 0, x, weight), to_bias


class _LinearSum(torch.autograd.Function):
    """Both products are formed together, and their sum is written once."""

    @staticmethod
    def forward(ctx: Any, bias: Tensor | None, *given: Tensor) -> Tensor:
        ctx.save_for_backward(*given)
        first, by_first, second, by_second = given
        out = first.new_empty(first.shape[0], by_first.shape[0])
        start = None if bias is None else bias.contiguous()
        _product(out, start, False, (first, by_first.t()), (second, by_second.t()))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second()
        first, by_first, second, by_second = ctx.saved_tensors
        to_bias = grad.sum(dim=0) if ctx.needs_input_grad[0] else None
        grad = grad.contiguous()
        one = _gradients(ctx, grad, 1, first, by_first)
        return to_bias, *one, *_gradients(ctx, grad, 3, second, by_second)
