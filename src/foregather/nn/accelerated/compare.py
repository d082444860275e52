"""compare: runs a model on the small batch, plain or accelerated, and finds the first difference.

Both runs are in float64, without dropout, and keep what each module got and gave in order, so that
a difference is found where it arises: in what a module gives for rows that were equal before it, or
in the code of the module that called it.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from foregather.nn.accelerated.hops import Order
from foregather.nn.accelerated.inputs import Inputs
from foregather.nn.accelerated.passing import Watcher, watching
from foregather.nn.accelerated.record import Entry, Log, tensors_in
from foregather.nn.accelerated.rows import NoDropout

__all__ = ["Difference", "Outcome", "difference", "run"]

_NEAR = 1e-9  # relative to the largest value
_FLOOR = 1e-12  # for values that are zero but for rounding


@dataclass
class Outcome:
    """What a run gave.

    Attributes:
        log: what modules got and gave.
        result: what the model returned.
        values: rows of the seeds, or whole tensors without rows of nodes.
        grads: of parameters and inputs, by name.
        reached: names of those that have one, be it of zeros.
        kept: buffers, and tensors that modules keep as attributes, after the call, by name.
        error: why the run ended early.
        at: the module in which it did.
    """

    log: Log
    result: Any = None
    values: list[Tensor] = field(default_factory=list)
    grads: dict[str, Tensor] = field(default_factory=dict)
    reached: frozenset[str] = frozenset()
    kept: dict[tuple[str, str], Tensor] = field(default_factory=dict)
    error: Exception | None = None
    at: str | None = None


@dataclass(frozen=True)
class Difference:
    """Where a run differs from the plain one.

    Attributes:
        module: the name of the module at fault, "" for the model itself; None if it is not known.
        what: in words.
        error: the exception, if one ended the run.
    """

    module: str | None
    what: str
    error: Exception | None = None


def run(
    model: nn.Module,
    inputs: Inputs,
    leaves: dict[str, Tensor],
    hops: Order,
    watcher: Watcher,
    watched: dict[str, nn.Module],
    mode: Callable[[], Any] = nullcontext,
) -> Outcome:
    """Calls a model and takes the gradients of a fixed linear function of the seeds' results.

    Args:
        model: a copy in float64, which is used up.
        inputs: its arguments.
        leaves: the tensors among them whose gradients are taken.
        hops: of the small batch.
        watcher: answers for convolutions.
        watched: the modules it answers for.
        mode: another context around the call.
    """
    outcome = Outcome(Log(watcher))
    try:
        with NoDropout():
            with ExitStack() as stack:
                stack.enter_context(outcome.log.of(model))
                stack.enter_context(watching(watcher, watched))
                stack.enter_context(mode())
                outcome.result = model(*inputs.args, **inputs.kwargs)
            outcome.values = [_seen(part, hops) for part in tensors_in(outcome.result)]
            _backward(outcome.values)
    except Exception as error:
        outcome.error = error
        outcome.at = outcome.log.running[-1] if outcome.log.running else None
    outcome.kept = _kept(model, watched)
    named = [*model.named_parameters(), *leaves.items()]
    named = [(name, part) for name, part in named if not is_lazy(part)]
    outcome.reached = frozenset(name for name, part in named if part.grad is not None)
    outcome.grads = {
        name: torch.zeros_like(part) if part.grad is None else part.grad for name, part in named
    }
    return outcome


def _kept(model: nn.Module, convolutions: dict[str, nn.Module]) -> dict[tuple[str, str], Tensor]:
    """What modules hold after a call: buffers, and outside convolutions other tensors."""
    found = {}
    for name, module in model.named_modules():
        inside = any(name == one or name.startswith(f"{one}.") for one in convolutions)
        held = dict(module._buffers) | ({} if inside else vars(module))
        for key, value in held.items():
            if isinstance(value, Tensor):
                found[name, key] = value.detach().clone()
    return found


def _seen(result: Tensor, hops: Order) -> Tensor:
    seeds = hops.seeds_among(result.shape[0]) if result.ndim > 0 else None
    return result if seeds is None else result[:seeds]


def _backward(values: list[Tensor]) -> None:
    random = torch.Generator().manual_seed(5)
    total = None
    for value in values:
        if value.requires_grad:
            factor = torch.randn(value.shape, generator=random, dtype=torch.float64)
            part = (value * factor.to(value)).sum()
            total = part if total is None else total + part
    if total is not None:
        total.backward()  # type: ignore[no-untyped-call]


def difference(plain: Outcome, fast: Outcome, hops: Order) -> Difference | None:
    """The first difference between two runs; None if there is none."""
    kept: dict[tuple[str, bool], list[Entry]] = defaultdict(list)
    for entry in fast.log.entries:
        kept[entry.name, entry.gave].append(entry)
    for one in plain.log.entries:
        calls = kept.get((one.name, one.gave))
        if calls is None and fast.error is None:
            continue  # a module that trims, which an accelerated pass does not call
        if not calls:
            break
        if not _same_list(one.tensors, calls.pop(0).tensors, hops):
            if one.gave:
                return Difference(one.name, "gives other values when it sees only the rows needed")
            return Difference(one.caller, "mixes rows of nodes outside its convolutions")
    if fast.error is not None:
        text = " ".join(str(fast.error).split())[:200]
        what = f"fails on only the rows needed ({type(fast.error).__name__}: {text})"
        return Difference(fast.at, what, fast.error)
    if len(plain.values) != len(fast.values):
        return Difference("", "gives another number of results")
    for mine, theirs in zip(plain.values, fast.values, strict=True):
        if not _close(theirs, mine):
            return Difference("", "mixes rows of nodes outside its convolutions")
    for (module, key), value in plain.kept.items():
        other = fast.kept.get((module, key))
        if other is None or not _same_rows(value, other, hops):
            return Difference(module, f"keeps {key}, which is made of more rows than are needed")
    scale = max(
        (float(grad.abs().max()) for grad in plain.grads.values() if grad.numel()), default=0
    )
    for name, grad in plain.grads.items():
        if not _close(fast.grads[name], grad, scale):
            return Difference(None, f"the gradient of {name} is another")
    if hops.typed and plain.reached != fast.reached:
        name = min(plain.reached ^ fast.reached)
        return Difference(None, f"{name} has a gradient of zeros in one pass, in the other none")
    return None


def _same_list(plain: list[Tensor], fast: list[Tensor], hops: Order) -> bool:
    return len(plain) == len(fast) and all(
        _same_rows(mine, theirs, hops) for mine, theirs in zip(plain, fast, strict=True)
    )


def _same_rows(plain: Tensor, fast: Tensor, hops: Order) -> bool:
    """Whether two tensors agree in the nodes, or edges, that both have."""
    if plain.ndim != fast.ndim:
        return False
    for dim, sizes in enumerate(zip(plain.shape, fast.shape, strict=True)):
        of_batch = any(set(sizes) <= set(counts) for counts in hops.count_sets)
        if sizes[0] != sizes[1] and of_batch:
            plain, fast = (part.narrow(dim, 0, min(sizes)) for part in (plain, fast))
    return _close(fast, plain)


def _close(one: Tensor, plain: Tensor, scale: float = 0.0) -> bool:
    if one.shape != plain.shape or one.dtype != plain.dtype:
        return False
    if one.numel() == 0 or not plain.is_floating_point():
        return bool(torch.equal(one, plain))
    largest = max(float(plain.detach().abs().max()), scale)
    limit = _NEAR * largest + _FLOOR
    return bool(((one.detach() - plain.detach()).abs() <= limit).all())
