"""typed_inputs: what a model is called with for a typed batch, and the same for another batch.

Tensors are found in dictionaries by type or relation, at any depth, and in the stores of a
`HeteroData`; each is known by the name of its argument or field and by where it belongs.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from foregather.loader.batches.typed_counts import recall_typed, remember_typed
from foregather.nn.accelerated.inputs import Inputs, kind_of
from foregather.nn.accelerated.typed.typed_hops import Relation, TypedHops
from foregather.nn.arguments import count_of, is_typed_batch, parameters_of

__all__ = ["TypedInputs", "has_types", "is_relation"]

Where = str | Relation | None
Leaf = tuple[str, Where, Any]


def is_relation(key: Any) -> bool:
    """Whether a key names a relation: source type, name, target type."""
    return isinstance(key, tuple) and len(key) == 3 and all(isinstance(p, str) for p in key)


def has_types(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call is for a typed batch."""
    return any(
        is_typed_batch(value) or (isinstance(value, dict) and any(map(is_relation, value)))
        for value in (*args, *kwargs.values())
    )


@dataclass(frozen=True)
class TypedInputs(Inputs):
    """The arguments of one call of a model for a typed batch."""

    @classmethod
    def of(cls, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "TypedInputs":
        """Names the arguments of a call."""
        made = Inputs.of(model, args, kwargs)
        return cls(made.names, made.args, made.kwargs)

    def leaves(self) -> list[Leaf]:
        """All values: the name of each, the type or relation it is of, and itself."""
        given = [*zip(self.names, self.args, strict=True), *self.kwargs.items()]
        return [leaf for name, value in given for leaf in _leaves(name, None, value)]

    def edges(self) -> dict[Relation, Any] | None:
        """The edges by relation: by their name, or the first that look like them."""
        named: dict[Relation, Any] = {}
        others: dict[str, dict[Relation, Any]] = {}
        for name, where, value in self.leaves():
            if not isinstance(where, tuple) or not isinstance(value, Tensor):
                continue
            if name.removesuffix("_dict") == "edge_index":
                named[where] = value
            elif value.ndim == 2 and value.shape[0] == 2 and not value.is_floating_point():
                others.setdefault(name, {})[where] = value
        return named or (next(iter(others.values())) if others else None)

    def hops(self) -> TypedHops | str:  # type: ignore[override]
        """The hops of the batch; why there are none if they are not known."""
        nodes: dict[str, tuple[int, ...]] = {}
        edges: dict[Relation, tuple[int, ...]] = {}
        for name, where, value in self.leaves():
            if isinstance(value, Tensor) and value.layout != torch.strided:
                return f"{name} is a sparse tensor"
            if (of := count_of(name)) is None or where is None:
                continue
            try:
                counts = tuple(map(int, value))
            except (TypeError, ValueError):
                return "the counts of sampled nodes and edges are not whole numbers"
            if of == "num_sampled_nodes" and isinstance(where, str):
                nodes[where] = counts
            elif of == "num_sampled_edges" and isinstance(where, tuple):
                edges[where] = counts
        index = self.edges()
        if not index or any(one.ndim != 2 or one.shape[0] != 2 for one in index.values()):
            return "there is no edge_index of two rows for each relation"
        known = recall_typed(index)
        if nodes and edges and (known is None or (known.nodes, known.edges) != (nodes, edges)):
            known = remember_typed(index, nodes, edges)
        if known is None:
            return "the batch does not say how many nodes and edges each hop has"
        found = TypedHops.of(index, known)
        if isinstance(found, TypedHops) and not any(one[0] for one in found.nodes.values()):
            return "the batch has no seeds"
        return found

    def find(self, name: str) -> Any:
        """The first argument of this name that is not None."""
        given = (*zip(self.names, self.args, strict=True), *self.kwargs.items())
        return next((value for key, value in given if key == name and value is not None), None)

    def signature(self) -> tuple[Any, ...]:
        """What of the arguments decides the path through a model, but for their sizes."""
        return tuple((name, where, kind_of(value)) for name, where, value in self.leaves())

    def changed(self, change: Callable[[str, Where, Any], Any]) -> "TypedInputs":
        """The same call with other values, in copies of dictionaries and batches."""
        args = tuple(
            _changed(name, None, value, change)
            for name, value in zip(self.names, self.args, strict=True)
        )
        kwargs = {name: _changed(name, None, v, change) for name, v in self.kwargs.items()}
        return TypedInputs(self.names, args, kwargs)

    def untrimmed(self, model: nn.Module, hops: Any) -> "TypedInputs":
        """The same call without counts by which the model would trim its layers itself."""
        if not any(count_of(name) for name, _, _ in self.leaves()):
            return self
        takes = parameters_of(model)

        def whole(name: str, where: Where, value: Any) -> Any:
            if count_of(name) is None or value is None:
                return value
            if isinstance(where, tuple):
                count = hops.relations[where].num_edges if where in hops.relations else 0
                return [count, *[0] * (hops.depth - 1)]
            return [hops.nodes[where][-1], *[0] * hops.depth] if where in hops.nodes else value

        def free(name: str) -> bool:
            return bool(count_of(name)) and name in takes and takes[name].default is None

        places = zip(self.names, self.args, strict=True)
        args = tuple(None if free(n) else _changed(n, None, v, whole) for n, v in places)
        kwargs = {
            n: None if free(n) else _changed(n, None, v, whole) for n, v in self.kwargs.items()
        }
        return TypedInputs(self.names, args, kwargs)


def _leaves(name: str, where: Where, value: Any) -> Iterator[Leaf]:
    if is_typed_batch(value):
        for key, store in _stores(value):
            for field, held in store.items():
                yield from _leaves(field, key, held)
    elif isinstance(value, dict):
        for key, part in value.items():
            inner: Where = key if isinstance(key, str) or is_relation(key) else where
            yield from _leaves(name, inner, part)
    elif isinstance(value, (list, tuple)) and count_of(name) is None:
        for part in value:
            yield from _leaves(name, where, part)
    else:
        yield name, where, value


def _changed(name: str, where: Where, value: Any, change: Callable[..., Any]) -> Any:
    if is_typed_batch(value):
        made = copy.copy(value)
        for key, store in _stores(made):
            for field in list(store.keys()):
                store[field] = _changed(field, key, store[field], change)
        return made
    if isinstance(value, dict):
        return {
            key: _changed(
                name, key if isinstance(key, str) or is_relation(key) else where, part, change
            )
            for key, part in value.items()
        }
    if type(value) in (list, tuple) and count_of(name) is None:
        return type(value)(_changed(name, where, part, change) for part in value)
    return change(name, where, value)


def _stores(batch: Any) -> list[tuple[Where, Any]]:
    """The stores of a HeteroData: what belongs to none, node types, relations."""
    nodes, edges = batch.node_items(), batch.edge_items()
    return [(None, batch._global_store), *nodes, *edges]
