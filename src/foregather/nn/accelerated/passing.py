"""passing: one forward pass in which convolutions compute only the rows that later ones need.

While a pass runs, `forward` of each convolution is replaced on the instance; the replacement looks
for a pass of its own thread and without one does what the module does, so that other threads may
call the same model. The replacements are counted, and gone when no pass needs them any more.
"""

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from torch import Tensor, nn

from foregather.nn.accelerated.hops import Hops, Order
from foregather.nn.accelerated.plan import Ended, Plan, Role, Step, Unfit
from foregather.nn.accelerated.rules import Call, rule_for
from foregather.nn.sage import SAGEConv

__all__ = [
    "AnyPass",
    "Pass",
    "Watcher",
    "argument_names",
    "call_own",
    "convolutions",
    "is_convolution",
    "is_watched",
    "named_arguments",
    "watching",
]

_local = threading.local()
_lock = threading.Lock()


def is_convolution(module: nn.Module) -> bool:
    """Whether a module passes messages: PyG's, or our own."""
    if isinstance(module, SAGEConv):
        return True
    return any(
        kind.__name__ == "MessagePassing" and kind.__module__.startswith("torch_geometric.")
        for kind in type(module).__mro__
    )


def convolutions(model: nn.Module) -> dict[str, nn.Module]:
    """The convolutions of a model by name, without those that are part of another."""
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in found if outer)
        if is_convolution(module) and not inside:
            found[name] = module
    return found


class Watcher:
    """Is asked in place of a convolution that its own thread calls."""

    def __init__(self) -> None:
        self.inside = False
        self.names: dict[int, str] = {}

    def call(self, module: nn.Module, own: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of the convolution."""
        raise NotImplementedError


class _Forward:
    """Stands for `forward` of one convolution."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.users = module, 0
        self.before = module.__dict__.get("forward")
        self.own: Callable[..., Any] = module.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watcher = getattr(_local, "watcher", None)
        if watcher is None or watcher.inside or id(self.module) not in watcher.names:
            return self.own(*args, **kwargs)
        watcher.inside = True
        try:
            return watcher.call(self.module, self.own, args, kwargs)
        finally:
            watcher.inside = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of a model made in another thread meanwhile gets the module's own forward."""
        copied = memo[id(self.module)]
        return type(self.module).forward.__get__(copied)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.own)


def is_watched() -> bool:
    """Whether a pass runs in this thread."""
    return getattr(_local, "watcher", None) is not None


@contextmanager
def watching(watcher: Watcher, named: dict[str, nn.Module]) -> Iterator[None]:
    """Lets the watcher answer for these convolutions, in this thread."""
    before = getattr(_local, "watcher", None)
    with _lock:
        for module in named.values():
            forward = module.__dict__.get("forward")
            if not isinstance(forward, _Forward):
                forward = module.__dict__["forward"] = _Forward(module)
            forward.users += 1
    watcher.names = {id(module): name for name, module in named.items()}
    _local.watcher = watcher
    try:
        yield
    finally:
        _local.watcher = before
        with _lock:
            for module in named.values():
                forward = module.__dict__["forward"]
                forward.users -= 1
                if forward.users == 0 and forward.before is None:
                    del module.__dict__["forward"]
                elif forward.users == 0:
                    module.__dict__["forward"] = forward.before


@lru_cache(maxsize=256)
def _positional(function: Callable[..., Any], bound: bool) -> tuple[str, ...]:
    takes = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in takes if p.kind in kinds)


def argument_names(own: Callable[..., Any], count: int) -> list[str]:
    """Names of the first `count` positional arguments; those without one by their position."""
    function = getattr(own, "__func__", own)
    names = _positional(function, function is not own)
    return [*names, *(str(place) for place in range(len(names), count))][:count]


def named_arguments(
    own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The given arguments that are not None, by name."""
    given = dict(zip(argument_names(own, len(args)), args, strict=True)) | kwargs
    return {name: value for name, value in given.items() if value is not None}


class AnyPass(Watcher):
    """One accelerated forward pass over one batch, typed or not.

    Args:
        hops: the order of the batch.
        plan: the proven steps and ways.

    Attributes:
        ended: why it could not go on; None while it could.
    """

    def __init__(self, hops: Order, plan: Plan) -> None:
        super().__init__()
        self.hops, self.plan = hops, plan
        self.ended: Ended | None = None
        self._place = 0

    @property
    def begun(self) -> bool:
        """Whether a convolution was called, so that rows may be missing."""
        return self._place > 0

    def call(self, module: nn.Module, own: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The rows that later convolutions need."""
        name = self.names[id(module)]
        if name in self.plan.neutral:
            return self._normed(own, args, kwargs)
        try:
            step = self._next(name)
            given = named_arguments(own, args, kwargs)
            out = self._result(module, own, step, given, (args, kwargs))
        except Ended as ended:
            ended.module = name if ended.module is None else ended.module
            self.ended = self.ended or ended  # the model may catch it
            raise
        return out

    def _normed(self, own: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Calls a norm, with what it gets for each node cut to the rows it gets."""
        rows = args[0].shape[0] if args and isinstance(args[0], Tensor) else 0
        sets = [counts for counts in self.hops.row_sets if rows in counts]
        if not sets:
            return own(*args, **kwargs)

        def cut(value: Any) -> Any:
            whole = isinstance(value, Tensor) and value.ndim > 0 and value.shape[0] > rows
            cuts = whole and any(value.shape[0] in counts for counts in sets)
            return value[:rows] if cuts else value

        return own(*map(cut, args), **{name: cut(value) for name, value in kwargs.items()})

    def _next(self, name: str) -> Step:
        steps = self.plan.steps
        if self.ended is not None:
            raise self.ended
        if self._place >= len(steps) or steps[self._place].module != name:
            raise Ended("it is called in another order than in the pass that was proven")
        self._place += 1
        return steps[self._place - 1]

    def _result(
        self,
        module: nn.Module,
        own: Callable[..., Any],
        step: Step,
        given: dict[str, Any],
        written: tuple[Any, Any],
    ) -> Any:
        raise NotImplementedError


class Pass(AnyPass):
    """One accelerated forward pass over one batch of one type."""

    hops: Hops

    def __init__(self, hops: Hops, plan: Plan) -> None:
        super().__init__(hops, plan)
        self._made: dict[Any, Any] = {}

    def _result(
        self,
        module: nn.Module,
        own: Callable[..., Any],
        step: Step,
        given: dict[str, Any],
        written: tuple[Any, Any],
    ) -> Any:
        hops = self.hops
        level_in, level = min(hops.depth, step.behind + 1), min(hops.depth, step.behind)
        sources, targets = hops.nodes[level_in], hops.nodes[level]
        call = Call(hops, sources, targets, hops.edges_into(level), given, self._made)
        self._check(call, step)
        way = self.plan.ways[step.module]
        if way == "kernel":
            rule = rule_for(module, call, step.roles)
            if rule is None:
                raise Unfit("no rule covers it any more")
            out = rule(module, call)
        elif call.sums is not None:
            raise Ended("it is computed by its own code, which reads the rows of leaves")
        else:
            pair = way == "pair" and sources > targets
            out = call_own(own, written, call, step.roles, pair)
        if not isinstance(out, Tensor) or out.ndim == 0 or out.shape[0] < targets:
            raise Ended("it gives something else than one row per target")
        return out if out.shape[0] == targets else out[:targets]

    def _check(self, call: Call, step: Step) -> None:
        """Checks that each argument still has the size of its role."""
        if call.given.keys() != step.roles.keys():
            raise Ended("it gets other arguments than in the pass that was proven")
        for name, role in step.roles.items():
            value = call.given[name]
            if role == "edges":
                if not self.hops.same_edges(value) or value.shape[1] != self.hops.num_edges:
                    raise Ended("it is called with another edge_index than that of the batch")
            elif role == "rows":
                for part in value if isinstance(value, (tuple, list)) else (value,):
                    if call.sums is not None and name == "x":
                        continue
                    if part.shape[0] not in self.hops.nodes or part.shape[0] < call.sources:
                        raise Ended("it is called with rows that are not those of the batch")
            elif role == "edge" and value.shape[0] != self.hops.num_edges:
                raise Ended("it gets values of edges that are not one per edge of the batch")


def call_own(
    own: Callable[..., Any], written: Any, call: Call, roles: dict[str, Role], pair: bool
) -> Any:
    """Calls the module's own code with the rows and edges that it needs."""

    def cut(name: str, value: Any) -> Any:
        role = roles.get(name, "other") if value is not None else "other"
        if role == "edges":
            return call.hops.edge_index[:, : call.edges]
        if role == "edge":
            return value[: call.edges]
        if role != "rows":
            return value
        if isinstance(value, (tuple, list)):
            first, second = value
            return first[: call.sources], second[: call.targets if pair else call.squares]
        rows = value[: call.sources]
        return (rows, rows[: call.targets]) if pair else rows

    args, kwargs = written
    places = zip(argument_names(own, len(args)), args, strict=True)
    return own(*(cut(*place) for place in places), **{k: cut(k, v) for k, v in kwargs.items()})
