"""fanouts: how many in-neighbours each relation gives in each layer.

Given as one list for all relations, as a mapping from relations to lists, or as PyG's
`NumNeighbors`; kept as a frozen value that does not depend on the order in which it was given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foregather.errors import InputError
from foregather.graph.hetero.names import EdgeType, find_edge_type, show_edge_type

__all__ = ["Fanouts"]

_EXPECTED = "expected a list, a mapping from edge types to lists, or PyG's NumNeighbors"


@dataclass(frozen=True, slots=True)
class Fanouts:
    """Fan-outs of relations.

    Attributes:
        named: (edge type, one number per layer) for relations with numbers of their own, sorted.
        default: one number per layer for all others; None: every relation must be named.
    """

    named: tuple[tuple[EdgeType, tuple[int, ...]], ...]
    default: tuple[int, ...] | None

    @staticmethod
    def make(given: Any, name: str = "num_neighbors") -> "Fanouts":
        """Converts the caller's value of the argument `name`.

        Raises:
            InputError: no layers, lists of different lengths, or a number below -1.
        """
        if isinstance(given, Fanouts):
            return given
        default = None
        if hasattr(given, "values") and hasattr(given, "default"):  # PyG's NumNeighbors
            given, default = given.values, given.default
        if isinstance(given, Mapping):
            pairs = {
                _edge_type(key, name): _numbers(value, key, name) for key, value in given.items()
            }
            if len(pairs) < len(given):
                raise InputError(f"{name} names a relation twice; leave one of them out")
            named = tuple(sorted(pairs.items()))
        elif isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
            raise InputError(f"{name} is a {type(given).__name__}, {_EXPECTED}")
        else:
            named, default = (), given
        made = Fanouts(named, None if default is None else _numbers(default, None, name))
        lengths = {len(numbers) for _, numbers in named} | {len(made.default or ())} - {0}
        if not lengths:
            raise InputError(f"{name} is empty, expected one number per layer")
        if len(lengths) > 1:
            raise InputError(
                f"{name} has lists of {' and '.join(map(str, sorted(lengths)))} numbers, "
                "but hops must be the same across all relations: one number per layer"
            )
        return made

    @property
    def num_layers(self) -> int:
        """Layers of a minibatch."""
        return len(self.named[0][1] if self.named else self.default or ())

    def of(self, edge_types: Sequence[EdgeType]) -> list[tuple[int, ...]]:
        """The numbers of each relation of a graph.

        Raises:
            InputError: a relation is named that does not exist (with the nearest one), or one has
                no numbers.
        """
        own = {find_edge_type(name, edge_types): numbers for name, numbers in self.named}
        for name in edge_types:
            if name not in own and self.default is None:
                raise InputError(
                    f"the numbers per layer have no entry for relation {show_edge_type(name)}; add "
                    "one ([0, ...] leaves the relation out)"
                )
        return [own.get(name, self.default or ()) for name in edge_types]

    def __repr__(self) -> str:
        if not self.named:
            return repr(list(self.default or ()))
        rest = "" if self.default is None else f", default={list(self.default)}"
        shown = {name: list(numbers) for name, numbers in self.named}
        return f"Fanouts({shown}{rest})" if rest else repr(shown)


def _edge_type(key: Any, name: str) -> EdgeType:
    """An edge type, also as PyG writes it in one string: source__relation__target."""
    if hasattr(key, "to_tuple"):  # the keys of NumNeighbors
        key = key.to_tuple()
    parts = tuple(key.split("__")) if isinstance(key, str) else key
    if (
        not isinstance(parts, tuple)
        or len(parts) != 3
        or not all(isinstance(part, str) for part in parts)
    ):
        raise InputError(
            f"{name} has {key!r:.80}, expected an edge type: (source type, relation, target type)"
        )
    return parts[0], parts[1], parts[2]


def _numbers(given: Any, key: Any, name: str) -> tuple[int, ...]:
    where = "" if key is None else f" of {key!r:.120}"
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise InputError(f"{name}{where} is a {type(given).__name__}, {_EXPECTED}")
    if not len(given):
        raise InputError(f"{name}{where} is empty, expected one number per layer")
    for layer, number in enumerate(given):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not whole or not -1 <= number < 1 << 31:
            raise InputError(
                f"{name}{where} has {number!r} for layer {layer}, expected a number of "
                f"{'neighbours' if name == 'num_neighbors' else 'nodes'}, 0 for none or -1 for all"
            )
    return tuple(int(number) for number in given)
