"""record: watches the plain model once: its convolutions, what follows them, what modules give.

How many convolutions follow one is read off the graph that autograd builds: the longest path from
the result back to it. Where a path is lost (a detached tensor), the convolutions called later are
counted in its place, which is never too few.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from foregather.nn.accelerated.hops import Hops
from foregather.nn.accelerated.passing import Watcher, named_arguments
from foregather.nn.accelerated.plan import Ended, Role, Step

__all__ = ["BaseRecorder", "Log", "Recorder", "tensors_in"]


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors of a value, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part)]
    return []


@dataclass(frozen=True)
class Entry:
    """What a module got or gave.

    Attributes:
        name: of the module.
        caller: of the module that called it.
        gave: it gave this; else it got it.
        tensors: copies.
    """

    name: str
    caller: str
    gave: bool
    tensors: list[Tensor]


class Log:
    """What the modules of a model get and give, in order.

    Modules inside convolutions are left out: kernels call them differently, or not at all.

    Args:
        watcher: knows whether a convolution is running.

    Attributes:
        entries: in the order of their calls and returns.
        running: names of the modules that have begun and not ended.
    """

    def __init__(self, watcher: Watcher) -> None:
        self.entries: list[Entry] = []
        self.running: list[str] = []
        self._watcher = watcher

    @contextmanager
    def of(self, model: nn.Module) -> Iterator[None]:
        """Watches a model."""
        handles = []
        for name, module in model.named_modules():
            begin, end = self._begin(name), self._end(name)
            begin.only_looks = end.only_looks = True  # type: ignore[attr-defined]
            handles.append(module.register_forward_pre_hook(begin, with_kwargs=True))
            handles.append(module.register_forward_hook(end))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _begin(self, name: str) -> Callable[..., None]:
        def begin(module: nn.Module, args: Any, kwargs: Any) -> None:
            if not self._watcher.inside:
                self._add(name, False, [args, kwargs])
                self.running.append(name)

        return begin

    def _end(self, name: str) -> Callable[..., None]:
        def end(module: nn.Module, args: Any, out: Any) -> None:
            if not self._watcher.inside:
                self.running.pop()
                self._add(name, True, out)

        return end

    def _add(self, name: str, gave: bool, value: Any) -> None:
        copies = [part.detach().clone() for part in tensors_in(value)]
        self.entries.append(Entry(name, self.running[-1] if self.running else "", gave, copies))


class _Mark(torch.autograd.Function):
    """The identity, to be found again in the graph of autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()  # not a view: the model may change it in place

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


class BaseRecorder(Watcher):
    """Records the calls of convolutions of a plain pass, and finds how many follow each."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[Step] = []
        self._ends: list[list[Any]] = []

    def keep(self, call: Step, out: Any) -> Any:
        """Records a call; returns what it gave, marked.

        Raises:
            Ended: it gave something else than a tensor, or one of each type.
        """
        parts = list(out.values()) if isinstance(out, dict) and call.relation is None else [out]
        marked = [self._marked(part, call.module) for part in parts if part is not None]
        self._calls.append(call)
        self._ends.append([part.grad_fn for part in marked if part.requires_grad])
        if not isinstance(out, dict):
            return marked[0]
        left = iter(marked)
        return {key: None if part is None else next(left) for key, part in out.items()}

    @staticmethod
    def _marked(out: Any, name: str) -> Tensor:
        if not isinstance(out, Tensor) or out.ndim == 0:
            raise Ended("it gives more than one tensor", name)
        made: Tensor = _Mark.apply(out) if out.requires_grad else out  # type: ignore[no-untyped-call]
        return made

    @property
    def seen(self) -> int:
        """Calls of convolutions."""
        return len(self._calls)

    def steps(self, result: Any, by_order: bool = False) -> tuple[Step, ...]:
        """The calls, with how many follow each.

        Args:
            result: what the model gave.
            by_order: count later calls, and not paths.
        """
        later = [len(self._calls) - place - 1 for place in range(len(self._calls))]
        behind = later if by_order else self._behind(result, later)
        return tuple(
            replace(call, behind=count) for call, count in zip(self._calls, behind, strict=True)
        )

    def _behind(self, result: Any, later: list[int]) -> list[int]:
        marks = {id(end) for ends in self._ends for end in ends}
        passed: dict[int, int] = {}
        roots = [part.grad_fn for part in tensors_in(result) if part.grad_fn is not None]
        for node in _from_result(roots):
            count = passed.setdefault(id(node), 0) + (id(node) in marks)
            for following, _ in node.next_functions:
                if following is not None:
                    passed[id(following)] = max(passed.get(id(following), 0), count)
        found = []
        for ends in self._ends:
            counts = [passed[id(end)] for end in ends if id(end) in passed]
            found.append(max(counts) if counts else None)
        return self._filled(found, later)

    def _filled(self, found: list[int | None], later: list[int]) -> list[int]:
        """Counts for calls from which no path to the result was found."""
        return [last if count is None else count for count, last in zip(found, later, strict=True)]


class Recorder(BaseRecorder):
    """Records the calls of convolutions of a plain pass over a batch."""

    def __init__(self, hops: Hops) -> None:
        super().__init__()
        self.hops = hops

    def call(self, module: nn.Module, own: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of the module itself."""
        name = self.names[id(module)]
        given = named_arguments(own, args, kwargs)
        roles: dict[str, Role] = {key: self._role(value) for key, value in given.items()}
        if "edges" not in roles.values():
            raise Ended("it is called with another edge_index than that of the batch", name)
        if "rows" not in roles.values():
            raise Ended("it is called with rows that are not those of the batch", name)
        out = own(*args, **kwargs)
        if not isinstance(out, Tensor) or out.ndim == 0:
            raise Ended("it gives more than one tensor", name)
        return self.keep(Step(name, 0, roles), out)

    def _role(self, value: Any) -> Role:
        if isinstance(value, (tuple, list)):
            pair = len(value) == 2 and all(self._role(part) == "rows" for part in value)
            return "rows" if pair else "other"
        if not isinstance(value, Tensor) or value.ndim == 0:
            return "other"
        if self.hops.same_edges(value):
            return "edges"
        if value.shape[0] in self.hops.edges[1:]:
            return "edge"
        return "rows" if value.shape[0] in self.hops.nodes else "other"


def _from_result(roots: list[Any]) -> list[Any]:
    """All nodes of the graph, each after those that use it."""
    ended: list[Any] = []
    seen: set[int] = set()
    stack = [(root, False) for root in roots]
    while stack:
        node, done = stack.pop()
        if done:
            ended.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((part, False) for part, _ in node.next_functions if part is not None)
    return ended[::-1]
