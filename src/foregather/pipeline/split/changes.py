"""changes: tensors that a model's `forward` changes, which layers in chunks would not.

A buffer or another tensor that a module holds may be changed in every call: a counter, a moving
mean, a memory. Only the running statistics of BatchNorm have an exact form in chunks. Runs that
only look at a model put everything back.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.pipeline.split.check import own_numbers
from foregather.pipeline.split.graph_values import call_model, graph_inputs
from foregather.pipeline.split.sample import feature_rows
from foregather.pipeline.split.tape import refuse
from foregather.pipeline.split.trees import tensors_of

__all__ = ["Refuse", "buffers_kept", "check_calls", "check_changes", "untouched"]

_REGISTERED = ("_parameters", "_buffers", "_modules")
_RUNNING = ("running_mean", "running_var", "num_batches_tracked")
_CLOSE = 1e-5

Held = dict[tuple[str, str, str], list[Tensor]]

#: from the path of a module and what is wrong with it to the error
Refuse = Callable[[str, str], InputError]


# ---- what a look at a model puts back --------------------------------------------------------


def _contents(tensors: Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Tensors with copies of what is in them; those without a shape yet are left out."""
    known = {id(one): one for one in tensors if not _is_lazy(one)}
    with torch.no_grad():
        return [(one, one.detach().clone()) for one in known.values()]


def _is_lazy(one: Any) -> bool:
    return bool(nn.parameter.is_lazy(one))


def _refill(kept: Iterable[tuple[Tensor, Tensor]]) -> None:
    with torch.no_grad():
        for tensor, content in kept:
            if tensor.shape != content.shape:
                tensor.data = content
            elif not _same(tensor.detach(), content):
                tensor.copy_(content)


def _attributes(module: nn.Module) -> dict[str, Any]:
    return {name: one for name, one in vars(module).items() if name not in _REGISTERED}


@contextmanager
def buffers_kept(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Buffers are afterwards what they were, also those that were replaced."""
    parts = {id(part): part for module in modules for part in module.modules()}
    before = [(part, dict(part._buffers)) for part in parts.values()]
    kept = _contents(one for _, had in before for one in had.values() if one is not None)
    lazy = {id(part) for part, had in before if any(map(_is_lazy, had.values()))}
    try:
        yield
    finally:
        for part, had in before:
            if id(part) not in lazy:  # these got their shapes
                part._buffers.clear()
                part._buffers.update(had)
        _refill(kept)


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Buffers, attributes and modes are afterwards what they were; weights may get shapes."""
    before = []
    for part in model.modules():
        own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
        lazy = any(map(_is_lazy, own))
        before.append((part, lazy, part.training, _attributes(part)))
    kept = _contents(tensors_of([had for *_, had in before]))
    try:
        with buffers_kept([model]):
            yield
    finally:
        for part, lazy, training, had in before:
            if not lazy:  # else it has widths and other numbers that it needs
                for name in _attributes(part).keys() - had.keys():
                    del vars(part)[name]
                vars(part).update(had)
            part.training = training
        _refill(kept)


# ---- what forward changes --------------------------------------------------------------------


def check_changes(model: nn.Module, graph: Graph) -> None:
    """Refuses a model that changes what it holds in `forward`, but for statistics of BatchNorm.

    It is called twice, without dropout, in training and in evaluation. A tensor that it only
    keeps for others to read is the same after both calls.

    Args:
        model: is copied.
        graph: a small one.

    Raises:
        InputError: it changes a tensor, or its second result is another one.
    """
    for training in (True, False):
        made = copy.deepcopy(model).train(training)
        weight = next((p for p in made.parameters()), torch.zeros(1))
        x = feature_rows(graph, weight)
        inputs = graph_inputs(made, graph, weight.dtype, weight.device)
        if not check_calls(made, partial(call_model, made, x, inputs), refuse):
            return  # recording it says what is wrong


def check_calls(module: nn.Module, call: Callable[[], Any], told: Refuse) -> bool:
    """Refuses a module that changes what it holds when it is called, in the mode that it is in.

    Args:
        module: is changed, if it does.
        call: calls it.
        told: makes the error.

    Returns:
        Whether it could be called.

    Raises:
        InputError: it changes a tensor, or its second result is another one.
    """
    results, held = [], [_held(module)]
    try:
        for _ in range(2):
            with own_numbers(), torch.no_grad():
                torch.default_generator.manual_seed(0)
                results.append(call())
            held.append(_held(module))
    except Exception:
        return False
    for turn in range(2):
        _compare(held[turn], held[turn + 1], turn == 0, told)
    # on another device, random numbers are not drawn again
    if all(weight.device.type == "cpu" for weight in module.parameters()):
        _compare_results(results[0], results[1], told)
    return True


def _held(model: nn.Module) -> Held:
    """Copies of all tensors that a model holds, by path, kind and name."""
    found: Held = {}
    for path, part in model.named_modules():
        norm = isinstance(part, nn.modules.batchnorm._BatchNorm)
        for kind, had in (
            ("weight", part._parameters),
            ("buffer", part._buffers),
            ("tensor", _attributes(part)),
        ):
            for name, one in had.items():
                if not (norm and name in _RUNNING):
                    copies = [t.detach().clone() for t in tensors_of(one)]
                    found[path, kind, name] = copies
    return found


def _compare(before: Held, after: Held, first: bool, told: Refuse) -> None:
    for (path, kind, name), old in before.items():
        new = after.get((path, kind, name), [])
        if first and kind == "tensor":  # perhaps the result of a call on another graph
            continue
        if not old or (len(old) == len(new) and all(map(_same, old, new))):
            continue
        raise told(
            path,
            f"changes its {kind} {name!r} in forward, which is not done in chunks (only running "
            "statistics of BatchNorm are)",
        )


def _same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype or one.layout != other.layout:
        return False
    if one.layout != torch.strided:
        return True
    return torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def _compare_results(one: Any, other: Any, told: Refuse) -> None:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return
    if one.shape == other.shape:
        size = float(one.nan_to_num().abs().max()) if one.numel() else 0.0
        if torch.allclose(one, other, rtol=_CLOSE, atol=_CLOSE * size, equal_nan=True):
            return
    raise told(
        "",
        "gives other scores when it is called again, so it keeps something between calls, which "
        "is not done in chunks",
    )
