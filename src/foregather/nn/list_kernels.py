"""list_kernels: the core's sums over lists of edges as functions of tensors and as torch operators.

Each kernel is a function that takes tensors on the CPU, allocates its result and hands addresses to
the core. `torch.compile` and other tracers cannot look into such a function, so it is also an
operator `torch.ops.foregather.…` with a description of its result; a call made on plain tensors
does not go there, because the way through torch's dispatcher costs more than a small batch.

Nothing is checked here: `aggregate.py` has checked shapes and dtypes, `neighborhoods.py` the lists.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from foregather import _core
from foregather.nn.team import join_torch

__all__ = [
    "NUMBERS",
    "edge_attention",
    "edge_attention_gradient",
    "edge_dots",
    "edge_softmax",
    "edge_softmax_gradient",
    "lists_by_source",
    "max_lists",
    "max_lists_gradient",
    "outlasts_the_call",
    "sum_dtype",
    "sum_lists",
]

#: Storage types and their number in the core.
NUMBERS = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}

_PLAIN = (Tensor, torch.nn.Parameter)
join_torch()
_LIBRARY = torch.library.Library("foregather", "DEF")  # type: ignore[no-untyped-call]


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """What values of a storage type are added up in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def outlasts_the_call(tensor: Tensor) -> bool:
    """False for what was made inside a transform of torch.func and belongs to it."""
    if torch.compiler.is_compiling():
        return True
    try:
        tensor.data_ptr()
    except RuntimeError:
        return False
    return True


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _resolved(*given: Any) -> tuple[Any, ...]:
    """The same values, where some lie in memory with the other sign."""
    if any(isinstance(one, Tensor) and one.is_neg() for one in given):
        return tuple(one.resolve_neg() if isinstance(one, Tensor) else one for one in given)
    return given


def _kernel(schema: str, shape: Callable[..., Any]) -> Callable[..., Any]:
    """Makes an operator of a function; what is returned chooses between the two."""

    def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
        name = run.__name__
        _LIBRARY.define(name + schema)  # type: ignore[no-untyped-call]
        _LIBRARY.impl(name, run, "CPU")  # type: ignore[no-untyped-call]
        torch.library.register_fake(f"foregather::{name}", shape, lib=_LIBRARY)
        operator = getattr(torch.ops.foregather, name).default
        is_compiling = torch.compiler.is_compiling

        def call(first: Tensor, *rest: Any) -> Any:
            # a fake tensor, or another that stands for one, is of a class of its own
            if type(first) in _PLAIN and not is_compiling():
                try:
                    return run(*_resolved(first, *rest))
                except RuntimeError:  # a wrapper of torch.func, which has no address
                    pass
            return operator(first, *rest)

        call.__name__, call.__doc__ = name, run.__doc__
        return call

    return wrap


def _shared_heads(x: Tensor, weight: Tensor | None) -> tuple[int, ...]:
    """The number of heads whose weights share one row of x; empty if each has a row of its own."""
    return tuple(weight.shape[1:]) if weight is not None and x.dim() == 2 else ()


def _lists(ptr: Tensor, index: Tensor, edge: Tensor | None, limit: int) -> _core.EdgeLists:
    return _core.EdgeLists(
        ptr.data_ptr(),
        ptr.shape[0] - 1,
        index.data_ptr(),
        _address(edge),
        limit,
        index.dtype == torch.int64,
    )


@_kernel(
    "(Tensor indptr, Tensor source, SymInt num_sources, int threads=0) -> (Tensor, Tensor, Tensor)",
    lambda indptr, source, num_sources, threads=0: (
        indptr.new_empty(num_sources + 1),
        torch.empty_like(source),
        torch.empty_like(source),
    ),
)
def lists_by_source(
    indptr: Tensor, source: Tensor, num_sources: int, threads: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Where each source's list begins, and the edge and the target of its entries.

    threads: 0: as many as torch uses.
    """
    ptr = indptr.new_empty(num_sources + 1)
    edge, target = torch.empty_like(source), torch.empty_like(source)
    _core.lists_by_source(
        indptr.data_ptr(),
        indptr.shape[0] - 1,
        source.data_ptr(),
        source.shape[0],
        num_sources,
        ptr.data_ptr(),
        edge.data_ptr(),
        target.data_ptr(),
        source.dtype == torch.int64,
        threads or torch.get_num_threads(),
    )
    return ptr, edge, target


@_kernel(
    "(Tensor x, Tensor ptr, Tensor index, Tensor? edge, SymInt limit, Tensor? weight, "
    "Tensor? sizes, bool mean) -> Tensor",
    lambda x, ptr, index, edge, limit, weight, *_: x.new_empty(
        ptr.shape[0] - 1, *_shared_heads(x, weight), *x.shape[1:]
    ),
)
def sum_lists(
    x: Tensor,
    ptr: Tensor,
    index: Tensor,
    edge: Tensor | None,
    limit: int,
    weight: Tensor | None,
    sizes: Tensor | None,
    mean: bool,
) -> Tensor:
    """Sums of rows [lists, ...] over lists; x is [rows, columns] or [rows, heads, columns].

    Weights are [edges] or [edges, heads]; with the latter, x without heads is read by each of them.
    """
    x = x.contiguous()
    shape, shared = x.shape, _shared_heads(x, weight)
    out = x.new_empty((ptr.shape[0] - 1, *shared, *shape[1:]))
    if weight is not None:
        weight = weight.contiguous()
    _core.sum_lists(
        _lists(ptr, index, edge, limit),
        NUMBERS[x.dtype],
        x.data_ptr(),
        (*shared, *shape[1:-1], 1)[0],  # heads
        shape[-1],
        bool(shared),
        _address(weight),
        _address(sizes),
        mean,
        out.data_ptr(),
        torch.get_num_threads(),
    )
    return out


@_kernel(
    "(Tensor x, Tensor grad, Tensor indptr, Tensor source, bool mean, Tensor? winner) -> Tensor",
    lambda x, grad, indptr, source, *_: x.new_empty(
        (source.shape[0], *grad.shape[1:-1]), dtype=sum_dtype(x.dtype)
    ),
)
def edge_dots(
    x: Tensor, grad: Tensor, indptr: Tensor, source: Tensor, mean: bool, winner: Tensor | None
) -> Tensor:
    """Products of rows at both ends of each edge, [edges] or [edges, heads], in `sum_dtype`.

    `grad` is [targets, columns] or [targets, heads, columns]; x may be without heads, read by each.
    """
    x, grad = x.contiguous(), grad.contiguous()
    heads = grad.shape[1:-1]
    out = x.new_empty((source.shape[0], *heads), dtype=sum_dtype(x.dtype))
    _core.edge_dots(
        _lists(indptr, source, None, x.shape[0]),
        NUMBERS[x.dtype],
        x.data_ptr(),
        (*heads, 1)[0],
        x.shape[-1],
        x.dim() < grad.dim(),
        grad.data_ptr(),
        mean,
        _address(winner),
        out.data_ptr(),
        torch.get_num_threads(),
    )
    return out


@_kernel(
    "(Tensor x, Tensor indptr, Tensor source, Tensor? weight) -> (Tensor, Tensor)",
    lambda x, indptr, *_: (
        x.new_empty(indptr.shape[0] - 1, x.shape[1]),
        x.new_empty(indptr.shape[0] - 1, x.shape[1], dtype=torch.int32),
    ),
)
def max_lists(
    x: Tensor, indptr: Tensor, source: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The largest values over lists by target, and the place in the list that has each."""
    x = x.contiguous()
    if weight is not None:
        weight = weight.contiguous()
    out = x.new_empty(indptr.shape[0] - 1, x.shape[1])
    winner = torch.empty_like(out, dtype=torch.int32)
    _core.max_lists(
        _lists(indptr, source, None, x.shape[0]),
        NUMBERS[x.dtype],
        x.data_ptr(),
        x.shape[1],
        _address(weight),
        out.data_ptr(),
        winner.data_ptr(),
        torch.get_num_threads(),
    )
    return out, winner


@_kernel(
    "(Tensor grad, Tensor winner, Tensor indptr, Tensor ptr, Tensor edge, Tensor target, "
    "Tensor? weight) -> Tensor",
    lambda grad, winner, indptr, ptr, *_: grad.new_empty(ptr.shape[0] - 1, grad.shape[1]),
)
def max_lists_gradient(
    grad: Tensor,
    winner: Tensor,
    indptr: Tensor,
    ptr: Tensor,
    edge: Tensor,
    target: Tensor,
    weight: Tensor | None,
) -> Tensor:
    """The gradient of x over lists by source: what each of its values won."""
    grad = grad.contiguous()
    if weight is not None:
        weight = weight.contiguous()
    out = grad.new_empty(ptr.shape[0] - 1, grad.shape[1])
    _core.max_lists_gradient(
        _lists(ptr, target, edge, indptr.shape[0] - 1),
        NUMBERS[grad.dtype],
        grad.data_ptr(),
        grad.shape[1],
        winner.data_ptr(),
        indptr.data_ptr(),
        _address(weight),
        out.data_ptr(),
        torch.get_num_threads(),
    )
    return out


@_kernel(
    "(Tensor logits, Tensor indptr) -> Tensor",
    lambda logits, indptr: logits.new_empty(logits.shape),
)
def edge_softmax(logits: Tensor, indptr: Tensor) -> Tensor:
    """Softmax of [edges] or [edges, heads] over the list of each target."""
    logits = logits.contiguous()
    out = torch.empty_like(logits)
    _core.edge_softmax(
        indptr.data_ptr(),
        indptr.shape[0] - 1,
        NUMBERS[logits.dtype],
        logits.shape[1] if logits.dim() == 2 else 1,
        logits.data_ptr(),
        out.data_ptr(),
        torch.get_num_threads(),
    )
    return out


@_kernel(
    "(Tensor y, Tensor grad, Tensor indptr) -> Tensor", lambda y, grad, indptr: y.new_empty(y.shape)
)
def edge_softmax_gradient(y: Tensor, grad: Tensor, indptr: Tensor) -> Tensor:
    """The gradient of the logits, from the softmax and its gradient."""
    y, grad = y.contiguous(), grad.contiguous()
    out = torch.empty_like(y)
    _core.edge_softmax_gradient(
        indptr.data_ptr(),
        indptr.shape[0] - 1,
        NUMBERS[y.dtype],
        y.shape[1] if y.dim() == 2 else 1,
        y.data_ptr(),
        grad.data_ptr(),
        out.data_ptr(),
        torch.get_num_threads(),
    )
    return out


@_kernel(
    "(Tensor given, Tensor taken, Tensor indptr, Tensor source, float slope) -> Tensor",
    lambda given, taken, indptr, source, slope: given.new_empty(source.shape[0], given.shape[1]),
)
def edge_attention(
    given: Tensor, taken: Tensor, indptr: Tensor, source: Tensor, slope: float
) -> Tensor:
    """Softmax [edges, heads] over each target of leaky sums of `given` there and `taken` here."""
    given, taken = given.contiguous(), taken.contiguous()
    out = given.new_empty(source.shape[0], given.shape[1])
    _core.edge_attention(
        _lists(indptr, source, None, given.shape[0]),
        NUMBERS[given.dtype],
        given.shape[1],
        given.data_ptr(),
        taken.data_ptr(),
        slope,
        out.data_ptr(),
        torch.get_num_threads(),
    )
    return out


@_kernel(
    "(Tensor given, Tensor taken, Tensor indptr, Tensor source, float slope, Tensor y, "
    "Tensor grad) -> (Tensor, Tensor)",
    lambda given, taken, indptr, source, slope, y, grad: (
        y.new_empty(y.shape),
        taken.new_empty(taken.shape),
    ),
)
def edge_attention_gradient(
    given: Tensor,
    taken: Tensor,
    indptr: Tensor,
    source: Tensor,
    slope: float,
    y: Tensor,
    grad: Tensor,
) -> tuple[Tensor, Tensor]:
    """From the softmax and its gradient, those of the sum at each edge and of `taken`."""
    given, taken, grad = given.contiguous(), taken.contiguous(), grad.contiguous()
    to_sum, to_taken = torch.empty_like(y), torch.empty_like(taken)
    _core.edge_attention_gradient(
        _lists(indptr, source, None, given.shape[0]),
        NUMBERS[given.dtype],
        given.shape[1],
        given.data_ptr(),
        taken.data_ptr(),
        slope,
        y.data_ptr(),
        grad.data_ptr(),
        to_sum.data_ptr(),
        to_taken.data_ptr(),
        torch.get_num_threads(),
    )
    return to_sum, to_taken
