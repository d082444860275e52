"""tape: one run of a model on a small graph, call by call, with message passing as single calls.

Tensors are real, so Python code of the model runs as it is. A call is kept as a function and a tree
of arguments in which tensors are numbers of values. What a call changes in place becomes a new
value, so a value never changes. Inside `propagate` and `edge_updater` nothing is kept but the
weights that are used and whether random numbers are drawn.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from foregather.errors import InputError
from foregather.nn.accelerated.passing import is_convolution
from foregather.pipeline.split.trees import map_tree, tensors_of

__all__ = ["Call", "Pass", "Ref", "Tape", "record", "refuse"]

_DROPOUT = ("dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "feature_dropout")
_DRAWN = ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like")
_RANDOM = frozenset(
    [
        *_DROPOUT,
        *_DRAWN,
        *("alpha_dropout", "alpha_dropout_", "feature_alpha_dropout", "gumbel_softmax", "rrelu"),
        *("bernoulli", "bernoulli_", "uniform_", "normal", "normal_", "exponential_"),
        "multinomial",
    ]
)
_NUMBERS = frozenset(("item", "__int__", "__float__", "__index__", "tolist", "__bool__"))
_ALIASES = frozenset(("to", "contiguous", "float", "double", "type", "type_as", "cpu", "cuda"))


def refuse(path: str, why: str) -> InputError:
    """The error that a model cannot be cut, with the module and the reason."""
    where = f"module {path!r} of the model" if path else "the model"
    return InputError(f"{where} {why}; use chunks=1, or change it there")


@dataclass(frozen=True, slots=True)
class Ref:
    """Stands for a tensor: the number of its value."""

    value: int


@dataclass(frozen=True, slots=True)
class Pass:
    """That a call is one of message passing.

    Attributes:
        method: "propagate" or "edge_updater".
        weights: names of the parameters that are used inside.
    """

    method: str
    weights: tuple[str, ...]


@dataclass(slots=True)
class Call:
    """One call.

    Attributes:
        func: what was called; for message passing, None.
        args: a tree.
        kwargs: a tree.
        outs: numbers of the values that it gave.
        path: the module that made it.
        passing: message passing, or None.
        random: whether it draws random numbers.
        changes: it changes its first argument, which is copied first.
        number: the Python number that it gave, or None.
    """

    func: Callable[..., Any] | None
    args: Any
    kwargs: Any
    outs: list[int]
    path: str
    passing: Pass | None = None
    random: bool = False
    changes: bool = False
    number: Any = None

    @property
    def name(self) -> str:
        """For messages."""
        if self.passing is not None:
            return self.passing.method
        return str(getattr(self.func, "__name__", self.func)).strip("_")


@dataclass(slots=True)
class Tape:
    """What was recorded.

    Attributes:
        calls: in order.
        tensors: of each value, as it was.
        origin: of values that no call gave: ("input", name), ("weight", name), ("buffer", name) or
            ("literal", "").
        result: number of the model's result.
    """

    calls: list[Call] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    origin: dict[int, tuple[str, str]] = field(default_factory=dict)
    result: int = -1


class _Recorder(TorchFunctionMode):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.tape = Tape()
        self.stack: list[str] = []
        self._known: dict[int, int] = {}
        self._alive: list[Tensor] = []  # so that no id is used twice
        self._inside: tuple[set[str], list[bool]] | None = None
        self._weights: dict[int, str] = {}
        for name, weight in model.named_parameters(remove_duplicate=False):
            if self._weights.setdefault(id(weight), name) == name:
                self.add(weight, ("weight", name))
        for name, buffer in model.named_buffers():
            self.add(buffer, ("buffer", name))

    def add(self, tensor: Tensor, origin: tuple[str, str] | None = None) -> int:
        """A new value; the tensor stands for it from now on."""
        number = len(self.tape.tensors)
        # a copy: what is done in place later must not reach it
        with torch._C.DisableTorchFunction():
            self.tape.tensors.append(tensor.detach().clone())
        self._alive.append(tensor)
        self._known[id(tensor)] = number
        if origin is not None:
            self.tape.origin[number] = origin
        return number

    def ref(self, leaf: Any) -> Any:
        """A leaf of a tree, with a number in place of a tensor."""
        if not isinstance(leaf, Tensor):
            return leaf
        known = self._known.get(id(leaf))
        return Ref(self.add(leaf, ("literal", "")) if known is None else known)

    def enter(self, path: str, *_: Any) -> None:
        """A module begins."""
        self.stack.append(path)

    def leave(self, *_: Any) -> None:
        """A module ends."""
        self.stack.pop()

    @property
    def path(self) -> str:
        """The module that is running."""
        return self.stack[-1] if self.stack else ""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if self._inside is not None:
            used, random = self._inside
            used.update(self._weights[id(t)] for t in tensors_of([args, kwargs])
                        if id(t) in self._weights)  # fmt: skip
            random.append(name in _RANDOM)
            if name == "batch_norm" and True in (*args[5:6], kwargs.get("training")):
                raise refuse(self.path, "takes statistics of all messages (BatchNorm in propagate)")
            return func(*args, **kwargs)
        trees = map_tree([args, kwargs], self.ref)
        out = func(*args, **kwargs)
        self._keep(func, name, trees, args, out)
        return out

    def _keep(self, func: Any, name: str, trees: Any, args: Any, out: Any) -> None:
        first = args[0] if args and isinstance(args[0], Tensor) else None
        call = Call(func, trees[0], trees[1], [], self.path, random=name in _RANDOM)
        if name == "__setitem__" and first is not None:
            call.changes, call.outs = True, [self.add(first)]
        elif isinstance(out, Tensor) and out is first:
            if name in _ALIASES or (name in _RANDOM and self._unchanged(first)):
                return
            call.changes, call.outs = True, [self.add(first)]
        elif found := tensors_of(out):
            call.outs = [self.add(tensor) for tensor in found]
        elif name in _NUMBERS:
            call.number = ("bool", out) if isinstance(out, bool) else out  # True is no 1
        else:
            return
        self.tape.calls.append(call)

    def _unchanged(self, tensor: Tensor) -> bool:
        return torch.equal(tensor, self.tape.tensors[self._known[id(tensor)]])

    def passing(
        self,
        path: str,
        method: str,
        own: Callable[..., Any],
        edge_index: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Runs one call of message passing, and keeps it."""
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
            raise refuse(path, "passes messages along a sparse matrix, not along edge_index")
        if args:
            bound = inspect.signature(own).bind(edge_index, *args, **kwargs)
            kwargs = {k: v for k, v in bound.arguments.items() if k != "edge_index"}
            kwargs |= kwargs.pop("kwargs", {})
        kwargs.pop("size", None)
        edges, tree = self.ref(edge_index), map_tree(kwargs, self.ref)
        self._inside = (set(), [])
        try:
            out = own(edge_index, **kwargs)
            used, random = self._inside
        finally:
            self._inside = None
        if not isinstance(out, Tensor):
            raise refuse(path, f"returns {type(out).__name__} from {method}, expected a tensor")
        call = Call(None, [edges], tree, [self.add(out)], path, Pass(method, tuple(sorted(used))))
        call.random = any(random)
        self.tape.calls.append(call)
        return out


@contextmanager
def _watched(model: nn.Module, recorder: _Recorder) -> Iterator[None]:
    with ExitStack() as stack:
        for path, module in model.named_modules():
            for handle in (
                module.register_forward_pre_hook(functools.partial(recorder.enter, path)),
                module.register_forward_hook(recorder.leave, always_call=True),
            ):
                stack.callback(handle.remove)
            if not is_convolution(module) or not hasattr(module, "propagate"):
                continue
            for method in ("propagate", "edge_updater"):
                before = module.__dict__.get(method)
                own = getattr(module, method)
                setattr(module, method, functools.partial(recorder.passing, path, method, own))
                stack.callback(_put_back, module, method, before)
        yield


def _put_back(module: nn.Module, method: str, before: Any) -> None:
    if before is None:
        module.__dict__.pop(method, None)
    else:
        module.__dict__[method] = before


def record(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], names: Any) -> Tape:
    """Runs a model once, and records it.

    Args:
        model: a copy, in the mode in which it is to be recorded.
        args: positional arguments.
        kwargs: further arguments.
        names: the name of each tensor in them, in order.

    Raises:
        InputError: it does something that cannot be recorded, or fails.
    """
    recorder = _Recorder(model)
    for tensor, name in zip(tensors_of([args, kwargs]), names, strict=True):
        recorder.add(tensor, ("input", name))
    try:
        with _watched(model, recorder), recorder:
            out = model(*args, **kwargs)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{type(model).__name__} fails on a small graph with this graph's features: "
            f"{str(error) or type(error).__name__}"
        ) from error
    if not isinstance(out, Tensor):
        raise InputError(
            f"{type(model).__name__} returns {type(out).__name__}, expected one tensor of scores"
        )
    ref = recorder.ref(out)
    recorder.tape.result = ref.value
    return recorder.tape
