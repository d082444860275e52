"""inputs: what a model is called with: where its edges are, and the same for another batch.

Counts of sampled nodes and edges are how a model trims its layers by itself; in an accelerated pass
they are left out, or, where `forward` needs them, say that there is nothing to trim.
"""

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from foregather.nn.accelerated.hops import Hops
from foregather.nn.arguments import COUNTS, parameters_of

__all__ = ["Inputs", "is_batch", "kind_of"]

_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def is_batch(value: Any) -> bool:
    """Whether a value is a batch, and not one of its tensors."""
    return not isinstance(value, (Tensor, dict, list, tuple)) and hasattr(value, "edge_index")


@dataclass(frozen=True)
class Inputs:
    """The arguments of one call of a model.

    Attributes:
        names: of the positional arguments.
        args: positional arguments.
        kwargs: named arguments.
    """

    names: tuple[str, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @classmethod
    def of(cls, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "Inputs":
        """Names the arguments of a call."""
        known = [p.name for p in parameters_of(model).values() if p.kind in _KINDS]
        names = [*known, *(str(place) for place in range(len(known), len(args)))][: len(args)]
        return cls(tuple(names), args, kwargs)

    def items(self) -> list[tuple[str, Any]]:
        """Names and values, those of a batch among them."""
        given = [*zip(self.names, self.args, strict=True), *self.kwargs.items()]
        return given + [item for _, value in given if is_batch(value) for item in _fields(value)]

    def find(self, name: str) -> Any:
        """The first argument, or field of a batch, of this name that is not None."""
        found = (value for key, value in self.items() if key == name and value is not None)
        return next(found, None)

    def edge_index(self) -> Any:
        """The edges that the model is called with: by name, or the first integers of two rows."""
        found = self.find("edge_index")
        if found is not None:
            return found
        for _, value in self.items():
            two = isinstance(value, Tensor) and value.ndim == 2 and value.shape[0] == 2
            if two and not value.is_floating_point():
                return value
        return None

    def hops(self) -> Hops | str:
        """The hops of the batch; why there are none if they are not known."""
        for name, value in self.items():
            if isinstance(value, Tensor) and value.layout != torch.strided:
                return f"{name} is a sparse tensor"
        nodes = self.find("num_sampled_nodes_per_hop")
        edges = self.find("num_sampled_edges_per_hop")
        nodes = self.find("num_sampled_nodes") if nodes is None else nodes
        edges = self.find("num_sampled_edges") if edges is None else edges
        return Hops.find(self.edge_index(), nodes, edges)

    def signature(self) -> tuple[Any, ...]:
        """What of the arguments decides the path through a model, but for their sizes."""
        return tuple((name, kind_of(value)) for name, value in self.items())

    def mapped(self, change: Callable[[str, Any], Any]) -> "Inputs":
        """The same call with other values; fields of a batch are changed in a copy of it."""

        def changed(name: str, value: Any) -> Any:
            if is_batch(value):
                return _with_fields(value, {k: changed(k, v) for k, v in _fields(value)})
            if isinstance(value, (list, tuple)) and name not in COUNTS:
                parts = [changed(name, part) for part in value]
                return type(value)(parts) if type(value) in (list, tuple) else value
            if isinstance(value, dict):
                return {key: changed(str(key), part) for key, part in value.items()}
            return change(name, value)

        args = tuple(changed(*item) for item in zip(self.names, self.args, strict=True))
        return Inputs(self.names, args, {k: changed(k, v) for k, v in self.kwargs.items()})

    def untrimmed(self, model: nn.Module, hops: Any) -> "Inputs":
        """The same call without counts by which the model would trim its layers itself."""
        if not any(name in COUNTS for name, value in self.items() if value is not None):
            return self
        takes = parameters_of(model)
        neutral = {
            "num_sampled_nodes": [hops.num_nodes, *[0] * hops.depth],
            "num_sampled_edges": [hops.num_edges, *[0] * (hops.depth - 1)],
        }

        def without(name: str, value: Any) -> Any:
            if name not in COUNTS or value is None:
                return value
            free = name in takes and takes[name].default is None
            return None if free else list(neutral[COUNTS[name]])

        args = tuple(
            _neutral_batch(value, neutral) if is_batch(value) else without(name, value)
            for name, value in zip(self.names, self.args, strict=True)
        )
        kwargs = {
            name: _neutral_batch(value, neutral) if is_batch(value) else without(name, value)
            for name, value in self.kwargs.items()
        }
        return Inputs(self.names, args, kwargs)


def kind_of(value: Any) -> Any:
    """What of a value decides the path through a model, but for its size."""
    if isinstance(value, Tensor):
        return type(value).__name__, value.ndim, value.is_floating_point()
    if isinstance(value, (bool, str)) or value is None:
        return value
    return type(value).__name__


def _fields(batch: Any) -> list[tuple[str, Any]]:
    if is_dataclass(batch):
        return [(field.name, getattr(batch, field.name)) for field in fields(batch)]
    if hasattr(batch, "to_dict"):  # PyG's Data
        return list(batch.to_dict().items())
    return list(vars(batch).items())


def _with_fields(batch: Any, values: dict[str, Any]) -> Any:
    if is_dataclass(batch) and not isinstance(batch, type):
        return replace(batch, **values)
    made = copy.copy(batch)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _neutral_batch(batch: Any, neutral: dict[str, list[int]]) -> Any:
    given = {k: list(v) for k, v in neutral.items() if getattr(batch, k, None) is not None}
    return _with_fields(batch, given) if given else batch
