"""branches: whether a model takes the same way through its code on the user's graph.

A model is recorded on small graphs. One that asks how many nodes there are, whether edges go both
ways or how large a feature is may take another branch on the graph that it will be trained on, and
no small graph shows that. So its code is run once more with the user's graph, in which message
passing gives zeros without any work, and the calls are compared.
"""

import copy
import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.nn.accelerated.passing import is_convolution
from foregather.pipeline.split.graph_values import call_model, graph_inputs
from foregather.pipeline.split.sample import feature_rows
from foregather.pipeline.split.tape import refuse
from foregather.pipeline.split.trees import tensors_of

__all__ = ["check_branches"]

# a row per edge or per node along this axis of a shape, and the type
Made = tuple[bool, int, tuple[int, ...], torch.dtype]


class _Calls(TorchFunctionMode):
    """The names of calls that give tensors, with the module that makes each.

    Args:
        nodes: of the graph.
        made: what message passing gives; None to run it and find out.
    """

    def __init__(self, nodes: int, made: list[Made] | None = None) -> None:
        super().__init__()
        self.names: list[tuple[str, str]] = []
        self.made: list[Made] = []
        self.stack: list[str] = []
        self._nodes, self._given, self._inside = nodes, made, False

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self._inside and tensors_of(out):
            self.names.append((self.stack[-1] if self.stack else "", func.__name__))
        return out

    def enter(self, path: str, *_: Any) -> None:
        self.stack.append(path)

    def leave(self, *_: Any) -> None:
        self.stack.pop()

    def passing(
        self, module: Any, path: str, method: str, own: Any, edges: Tensor, *args: Any, **kw: Any
    ) -> Any:
        """The result of message passing, or zeros of its shape."""
        self.names.append((path, method))
        if self._given is None:
            self._inside = True
            try:
                out = own(edges, *args, **kw)
            finally:
                self._inside = False
            axis = max(0, out.dim() + module.node_dim) if module.node_dim < 0 else module.node_dim
            by_edge = out.shape[axis] != self._nodes
            self.made.append((by_edge, axis, tuple(out.shape), out.dtype))
            return out
        if len(self.made) == len(self._given):
            raise refuse(path, "passes messages more often on this graph than on a small one")
        self.made.append(self._given[len(self.made)])
        by_edge, axis, shape, dtype = self.made[-1]
        with torch._C.DisableTorchFunction():  # no call of the model
            rows = edges.shape[1] if by_edge else self._nodes
            sizes = (*shape[:axis], rows, *shape[axis + 1 :])
            return torch.zeros(sizes, dtype=dtype, device=edges.device)


@contextmanager
def _watched(model: nn.Module, calls: _Calls) -> Iterator[None]:
    """The model is a copy: what is put into it stays there."""
    with ExitStack() as stack:
        for path, module in model.named_modules():
            before = module.register_forward_pre_hook(functools.partial(calls.enter, path))
            after = module.register_forward_hook(calls.leave, always_call=True)
            stack.callback(before.remove)
            stack.callback(after.remove)
            if is_convolution(module) and hasattr(module, "propagate"):
                for method in ("propagate", "edge_updater"):
                    own = getattr(module, method)
                    setattr(
                        module, method, functools.partial(calls.passing, module, path, method, own)
                    )
        yield


def _run(model: nn.Module, training: bool, graph: Graph, made: list[Made] | None) -> _Calls:
    copied = copy.deepcopy(model).train(training)
    weight = next((p for p in copied.parameters()), torch.zeros(1))
    calls = _Calls(graph.num_nodes, made)
    x = feature_rows(graph, weight)
    inputs = graph_inputs(copied, graph, weight.dtype, weight.device)
    with torch.random.fork_rng(devices=[]), torch.no_grad(), _watched(copied, calls), calls:
        call_model(copied, x, inputs)
    return calls


def check_branches(model: nn.Module, training: bool, small: Graph, graph: Graph) -> None:
    """Refuses a model whose code does other things on the user's graph than on a small one.

    Args:
        model: is copied.
        training: the mode in which it is looked at.
        small: a graph on which it was recorded.
        graph: the user's.

    Raises:
        InputError: it does, or it fails there.
    """
    told = _run(model, training, small, None)
    try:
        found = _run(model, training, graph, told.made)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{type(model).__name__} fails on this graph where message passing gives zeros "
            f"({str(error) or type(error).__name__}), so it cannot be split; use chunks=1"
        ) from error
    if told.names == found.names:
        return
    pairs = zip([*told.names, ("", "nothing")], [*found.names, ("", "nothing")], strict=False)
    (path, before), (_, now) = next(pair for pair in pairs if pair[0] != pair[1])
    raise refuse(
        path,
        f"does other things on this graph than on a small one ({now} where a small one has "
        f"{before}), as it asks for sizes or values of the graph",
    )
