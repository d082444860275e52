"""typed_passing: one forward pass over a typed batch, by rows of each type that are needed later.

A convolution for one relation gets the first rows of its source type, those of its target type and
the first edges of the relation; one for dictionaries of all types gets all of these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from foregather.nn.accelerated.passing import AnyPass, argument_names, call_own
from foregather.nn.accelerated.plan import Ended, Plan, Role, Step, Unfit
from foregather.nn.accelerated.rules import Call, rule_for
from foregather.nn.accelerated.typed.typed_hops import Relation, RelationHops, TypedHops
from foregather.nn.accelerated.typed.typed_rules import TypedCall, typed_rule_for

__all__ = ["TypedPass"]

_OTHER_ARGUMENTS = "it gets other arguments than in the pass that was proven"
_OTHER_EDGES = "it is called with another edge_index than those of the batch"
_OTHER_ROWS = "it is called with rows that are not those of the batch"
_OTHER_VALUES = "it gets values of edges that are not one per edge of the batch"


@dataclass(frozen=True, slots=True)
class _RelationCall(Call):
    """One call of a convolution for one relation.

    Attributes:
        read: rows of the targets' type within one more hop than it gives.
    """

    read: int

    @property
    def squares(self) -> int:
        """Rows of the targets' type for code that takes no fewer of them than it reads."""
        return self.read


class TypedPass(AnyPass):
    """One accelerated forward pass over one typed batch."""

    hops: TypedHops

    def __init__(self, hops: TypedHops, plan: Plan) -> None:
        super().__init__(hops, plan)
        self._made: dict[Relation, dict[Any, Any]] = {}

    def _result(
        self,
        module: nn.Module,
        own: Callable[..., Any],
        step: Step,
        given: dict[str, Any],
        written: tuple[Any, Any],
    ) -> Any:
        if given.keys() != step.roles.keys():
            raise Ended(_OTHER_ARGUMENTS)
        if step.relation is None:
            return self._of_all(module, own, step, given, written)
        if step.relation not in self.hops.relations:
            raise Ended(_OTHER_EDGES)
        one = self.hops.relations[step.relation]
        level_in, level = self._levels(step)
        sources, targets = one.sources[level_in], one.nodes[level]
        made = self._made.setdefault(step.relation, {})
        edges = one.edges_into(level)
        call = _RelationCall(one, sources, targets, edges, given, made, one.nodes[level_in])
        self._check(call, one, step)
        way = self.plan.ways[step.module]
        if way == "kernel":
            rule = rule_for(module, call, step.roles)
            if rule is None:
                raise Unfit("no rule covers it any more")
            out = rule(module, call)
        else:
            pair = way == "pair" and (not one.within or sources > targets)
            out = call_own(own, written, call, step.roles, pair)
        return _first(out, targets)

    def _levels(self, step: Step) -> tuple[int, int]:
        """Hops of the rows that a call reads, and of those that it gives."""
        depth = self.hops.depth
        return min(depth, step.behind + 1), min(depth, step.behind)

    def _check(self, call: _RelationCall, one: RelationHops, step: Step) -> None:
        """Checks that each argument still has the size of its role."""
        for name, role in step.roles.items():
            value = call.given[name]
            if role == "edges" and not self.hops.is_edges(value, one.name):
                raise Ended(_OTHER_EDGES)
            if role == "rows":
                pair = isinstance(value, (tuple, list))
                if not pair and not one.within:
                    raise Ended(_OTHER_ROWS)
                source, target = value if pair else (value, value)
                if not _enough(source, one.sources, call.sources):
                    raise Ended(_OTHER_ROWS)
                # its own code may read targets as sources, a rule reads only those it gives
                least = call.targets if self.plan.ways[step.module] != "square" else call.read
                if not _enough(target, one.nodes, least):
                    raise Ended(_OTHER_ROWS)
            if role == "edge" and value.shape[0] != one.num_edges:
                raise Ended(_OTHER_VALUES)

    # ---- convolutions for all types ----------------------------------------------------------

    def _of_all(
        self,
        module: nn.Module,
        own: Callable[..., Any],
        step: Step,
        given: dict[str, Any],
        written: tuple[Any, Any],
    ) -> Any:
        level_in, level = self._levels(step)
        call = TypedCall(self.hops, level_in, level, given)
        for name, role in step.roles.items():
            self._check_parts(call, role, given[name])
        if self.plan.ways[step.module] == "kernel":
            rule = typed_rule_for(module, call, step.roles)
            if rule is None:
                raise Unfit("no rule covers it any more")
            out = rule(module, call)
        else:
            out = _own_of_all(own, written, call, step.roles)
        if not isinstance(out, dict):
            raise Ended("it gives something else than rows by type")
        return {
            key: None if part is None else _first(part, call.targets(key))
            for key, part in out.items()
        }

    def _check_parts(self, call: TypedCall, role: Role, value: Any) -> None:
        if role == "other":
            return
        for key, part in value.items():
            if role == "rows":
                known = key in self.hops.nodes
                if part is not None and not (
                    known and _enough(part, self.hops.nodes[key], call.sources(key))
                ):
                    raise Ended(_OTHER_ROWS)
            elif key not in self.hops.relations or (
                role == "edges" and not self.hops.is_edges(part, key)
            ):
                raise Ended(_OTHER_EDGES)
            elif role == "edge" and part.shape[0] != self.hops.relations[key].num_edges:
                raise Ended(_OTHER_VALUES)


def _enough(value: Any, counts: tuple[int, ...], least: int) -> bool:
    rows = value.shape[0] if isinstance(value, Tensor) and value.ndim else -1
    return rows in counts and rows >= least


def _first(out: Any, targets: int) -> Tensor:
    if not isinstance(out, Tensor) or out.ndim == 0 or out.shape[0] < targets:
        raise Ended("it gives something else than one row per target")
    return out if out.shape[0] == targets else out[:targets]


def _own_of_all(
    own: Callable[..., Any], written: Any, call: TypedCall, roles: dict[str, Role]
) -> Any:
    """Calls the module's own code with the rows and edges of each type that it needs."""

    def cut(name: str, value: Any) -> Any:
        role = roles.get(name, "other") if value is not None else "other"
        if role == "edges":
            return {key: call.edges(key) for key in value}
        if role == "edge":
            return {key: part[: call.count(key)] for key, part in value.items()}
        if role == "rows":
            return {
                key: None if part is None else part[: call.sources(key)]
                for key, part in value.items()
            }
        return value

    args, kwargs = written
    places = zip(argument_names(own, len(args)), args, strict=True)
    return own(*(cut(*place) for place in places), **{k: cut(k, v) for k, v in kwargs.items()})
