"""typed_record: watches the plain model once on a typed batch: its convolutions, what follows them.

A convolution is called for one relation, which is known by its edges, or for dictionaries of all of
them (`HGTConv`). How many follow one is the longest path from the result back to it, over all
relations.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from foregather.nn.accelerated.passing import named_arguments
from foregather.nn.accelerated.plan import Ended, Role, Step
from foregather.nn.accelerated.record import BaseRecorder
from foregather.nn.accelerated.typed.typed_hops import Relation, TypedHops

__all__ = ["TypedRecorder"]

_OTHER_EDGES = "it is called with another edge_index than those of the batch"
_OTHER_ROWS = "it is called with rows that are not those of the batch"


class TypedRecorder(BaseRecorder):
    """Records the calls of convolutions of a plain pass over a typed batch."""

    def __init__(self, hops: TypedHops) -> None:
        super().__init__()
        self.hops = hops

    def call(self, module: nn.Module, own: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of the module itself."""
        name = self.names[id(module)]
        given = named_arguments(own, args, kwargs)
        if any(isinstance(value, dict) for value in given.values()):
            relation, roles = None, {key: self._dict_role(v) for key, v in given.items()}
        else:
            relation = self._relation(given)
            if relation is None:
                raise Ended(_OTHER_EDGES, name)
            roles = {key: self._role(key, value, relation) for key, value in given.items()}
            if relation[0] != relation[2] and getattr(module, "add_self_loops", False):
                reason = "adds self-loops between nodes of two types, whose number is that of all"
                raise Ended(f"{reason} rows; use add_self_loops=False", name)
        if "edges" not in roles.values():
            raise Ended(_OTHER_EDGES, name)
        if "rows" not in roles.values():
            raise Ended(_OTHER_ROWS, name)
        out = own(*args, **kwargs)
        return self.keep(Step(name, 0, roles, relation), out)

    def _filled(self, found: list[int | None], later: list[int]) -> list[int]:
        """Of what no path leads from to the result, the seeds' rows: usually it is not read.

        Where it is read by another way, that is seen by the rows it lacks.
        """
        return [0 if number is None else number for number in found]

    def _relation(self, given: dict[str, Any]) -> Relation | None:
        for value in given.values():
            if (found := self.hops.relation_of(value)) is not None:
                return found
        without = [  # they have no memory by which they could be known
            name
            for name, one in self.hops.relations.items()
            if one.num_edges == 0
            and any(self.hops.is_edges(value, name) for value in given.values())
            and self._fits(given, name)
        ]
        whole = [name for name in without if self._has_all_rows(given, name)]
        return next(iter([*whole, *without]), None)

    def _has_all_rows(self, given: dict[str, Any], name: Relation) -> bool:
        """Whether rows are given for all nodes of both types, not for those of some hops."""
        one = self.hops.relations[name]
        ends = (one.sources[-1], one.nodes[-1])
        pairs = [value for value in given.values() if isinstance(value, (tuple, list))]
        return all([len(part) for part in pair] == [*ends] for pair in pairs)

    def _fits(self, given: dict[str, Any], name: Relation) -> bool:
        return any(self._role(key, value, name) == "rows" for key, value in given.items())

    def _role(self, key: str, value: Any, name: Relation) -> Role:
        one = self.hops.relations[name]
        if isinstance(value, (tuple, list)):
            pair = len(value) == 2 and _is_rows(value[0], one.sources)
            return "rows" if pair and _is_rows(value[1], one.nodes) else "other"
        if not isinstance(value, Tensor) or value.ndim == 0:
            return "other"
        if self.hops.relation_of(value) == name:
            return "edges"
        if value.shape[0] == 0 and key.startswith("edge") and one.num_edges == 0:
            return "edge"
        if one.num_edges == 0 and self.hops.is_edges(value, name):
            return "edges"
        if value.shape[0] > 0 and value.shape[0] in one.edges[1:]:
            return "edge"
        return "rows" if one.within and _is_rows(value, one.nodes) else "other"

    def _dict_role(self, value: Any) -> Role:
        """The role of an argument of a convolution for all types: that of its parts."""
        if not isinstance(value, dict) or not value:
            return "other"
        hops = self.hops
        if all(key in hops.relations for key in value):
            if all(hops.is_edges(v, k) or hops.relation_of(v) == k for k, v in value.items()):
                return "edges"
            edge = all(_is_rows(v, hops.relations[k].edges[1:]) for k, v in value.items())
            return "edge" if edge else "other"
        if all(key in hops.nodes for key in value):
            rows = all(v is None or _is_rows(v, hops.nodes[k]) for k, v in value.items())
            return "rows" if rows else "other"
        return "other"


def _is_rows(value: Any, counts: tuple[int, ...]) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0 and value.shape[0] in counts
