"""levels: cuts a recorded program in front of every reading of other nodes' rows.

The level of a row is the number of readings in a chain behind it: features are at level 0, and what
message passing makes of rows of level n is at level n + 1. A segment makes all rows of one
level; it reads what earlier segments made, of other nodes only what is in its messages. Values of
edges are made where they are used, so only rows of nodes go from segment to segment.
"""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import nn

from foregather.pipeline.split.norms import is_norm, norm_input
from foregather.pipeline.split.program import Program, refs_of
from foregather.pipeline.split.tape import Call, refuse

__all__ = ["Segment", "Side", "Step", "cut", "sides_of"]

_PASSED = ("message", "edge_update", "aggregate", "update")


@dataclass(frozen=True, slots=True)
class Side:
    """What message passing takes of a value: at the source, at the target, or as it is."""

    source: bool
    target: bool
    plain: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A call in a segment.

    Attributes:
        call: its position in the program.
        edges: for values of edges, the value that holds the edges.
    """

    call: int
    edges: int | None


@dataclass(slots=True)
class Segment:
    """What makes the rows of one level.

    Attributes:
        level: its number.
        steps: in order.
        reads: values that are read from other nodes: the first columns of the input.
        carried: further values in the input.
        needs: values that come as skip tensors.
        gives: values that are kept as skip tensors.
        makes: values in the result, in order.
        weights: names of the parameters that are used.
    """

    level: int
    steps: list[Step] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    carried: list[int] = field(default_factory=list)
    needs: list[int] = field(default_factory=list)
    gives: list[int] = field(default_factory=list)
    makes: list[int] = field(default_factory=list)
    weights: set[str] = field(default_factory=set)


def sides_of(module: nn.Module, method: str) -> dict[str, Side]:
    """How each argument of `propagate` or `edge_updater` is used, by name."""
    methods = ("edge_update",) if method == "edge_updater" else _PASSED
    names: set[str] = set()
    for name in methods:
        if name != "edge_update" or method == "edge_updater":
            names |= set(inspect.signature(getattr(module, name)).parameters)
    bases = {n[:-2] if n.endswith(("_i", "_j")) else n for n in names}
    return {b: Side(b + "_j" in names, b + "_i" in names, b in names) for b in bases}


def target_row(module: nn.Module) -> int:
    """The row of `edge_index` that has the targets of a convolution."""
    return 0 if getattr(module, "flow", "source_to_target") == "target_to_source" else 1


def node_uses(program: Program, call: Call, module: nn.Module) -> tuple[list[int], list[int]]:
    """Values of nodes that a call of message passing reads elsewhere, and takes of its own node."""
    assert call.passing is not None
    sides = sides_of(module, call.passing.method)
    read: list[int] = []
    own: list[int] = []
    for name, tree in call.kwargs.items():
        side = sides.get(name, Side(False, False, False))
        if isinstance(tree, tuple) and len(tree) == 2:
            parts = [(tree[0], side.source or side.plain, False)]
            parts.append((tree[1], False, side.target or side.plain))
        else:
            parts = [(tree, side.source or side.plain, side.target or side.plain)]
        for part, elsewhere, here in parts:
            for ref in refs_of(part):
                if program.values[ref].kind != "node":
                    continue
                read += [ref] if elsewhere else []
                own += [ref] if here and not elsewhere else []
    return read, own


class _Cutter:
    def __init__(self, program: Program, model: nn.Module) -> None:
        self.program, self.model = program, model
        self.level: dict[int, int] = {}
        self._users: dict[int, set[int]] = {}
        for place, call in enumerate(program.calls):
            for ref in program.refs(call):
                self._users.setdefault(ref, set()).add(place)
        for number, value in enumerate(program.values):
            if value.maker is None:
                self.level[number] = 0
        for call in program.calls:
            found = self._level(call)
            for out in call.outs:
                self.level[out] = found

    def uses(self, call: Call) -> tuple[list[int], list[int]]:
        """Values of nodes that are read elsewhere, and those of the own node."""
        if call.passing is None:
            refs = self.program.refs(call)
            if is_norm(self.program, call):
                return [norm_input(call)], []
            return [], [r for r in refs if self.program.values[r].kind == "node"]
        return node_uses(self.program, call, self.model.get_submodule(call.path))

    def _level(self, call: Call) -> int:
        read, own = self.uses(call)
        edges = [r for r in self.program.refs(call) if self.program.values[r].kind == "edge"]
        levels = [self.level[r] for r in [*own, *edges]]
        levels += [1] if call.passing is not None else []
        levels += [self.level[r] + 1 for r in read]
        return max(levels, default=0)

    def segment(self, level: int, wanted: Iterable[int]) -> tuple[Segment, set[int]]:
        """The calls that make some values of one level, and what they take of earlier levels."""
        program, made = self.program, Segment(level)
        outside: set[int] = set()
        steps: set[Step] = set()
        todo: list[tuple[int, int | None]] = [(value, None) for value in wanted]
        while todo:
            number, edges = todo.pop()
            value = program.values[number]
            if value.kind == "const":
                continue
            if value.kind == "node" and self.level[number] < level:
                outside.add(number)
                continue
            if value.origin is not None and value.origin[0] == "weight":
                made.weights.add(value.origin[1])
            if value.maker is None:
                continue
            step = Step(value.maker, edges if value.kind == "edge" else None)
            if step in steps:
                continue
            steps.add(step)
            call = program.calls[value.maker]
            if call.passing is None:
                read, _ = self.uses(call)
                made.reads += [ref for ref in read if ref not in made.reads]
                todo += [(ref, edges) for ref in program.refs(call) if ref not in read]
                continue
            made.weights |= set(call.passing.weights)
            todo += self._passing(call, edges, made)
        outside |= set(made.reads)
        for number in sorted(outside - set(made.reads), reverse=True):
            self._defer(number, steps, outside, made)
        made.steps = sorted(steps, key=lambda step: step.call)
        return made, outside

    def _defer(self, number: int, steps: set[Step], outside: set[int], made: Segment) -> None:
        """Makes a value here and not earlier, if only this segment uses it and has its inputs."""
        todo, calls, weights = [number], set[int](), set[str]()
        here = {step.call for step in steps}
        while todo:
            now = todo.pop()
            value = self.program.values[now]
            if value.kind == "const" or (now != number and now in outside):
                continue
            if value.maker is None:
                if value.kind != "weight":
                    return
                assert value.origin is not None
                weights.add(value.origin[1])
                continue
            call = self.program.calls[value.maker]
            if value.kind == "node" and not self._only_for(call, here | calls):
                return
            if call.passing is not None or value.kind == "edge" or is_norm(self.program, call):
                return
            calls.add(value.maker)
            todo += self.program.refs(call)
        steps |= {Step(call, None) for call in calls}
        made.weights |= weights
        outside.discard(number)

    def _only_for(self, call: Call, users: set[int]) -> bool:
        """Whether nothing but some calls uses what a call gives."""
        used = set().union(*(self._users.get(out, set()) for out in call.outs))
        return used <= users and self.program.result not in call.outs

    def _passing(
        self, call: Call, edges: int | None, made: Segment
    ) -> list[tuple[int, int | None]]:
        along = call.args[0].value
        if edges not in (None, along):
            raise refuse(call.path, "gives values of edges to message passing along other edges")
        read, own = self.uses(call)
        made.reads += [ref for ref in read if ref not in made.reads]
        rest = [r for r in refs_of(call.kwargs) if self.program.values[r].kind != "node"]
        return [(ref, along) for ref in [*own, *rest]]


def cut(program: Program, model: nn.Module) -> list[Segment]:
    """The segments of a program, first to last.

    Raises:
        InputError: values that cannot go from segment to segment.
    """
    cutter = _Cutter(program, model)
    top = cutter.level[program.result]
    if program.values[program.result].kind != "node" or top == 0:
        raise refuse("", "never reads rows of other nodes by propagate, so it is no graph model")
    wanted: list[set[int]] = [set() for _ in range(top + 1)]
    wanted[top].add(program.result)
    uses: dict[int, set[int]] = {}
    found: list[Segment] = []
    for level in range(top, -1, -1):
        segment, outside = cutter.segment(level, wanted[level])
        if level and not segment.reads:
            if not outside:
                raise refuse("", "passes messages that depend on no node")
            segment.reads = [min(outside)]
        segment.reads.sort()
        for number in outside:
            wanted[cutter.level[number]].add(number)
            uses.setdefault(number, set()).add(level)
        for number in segment.reads:  # older ones are handed on by the segment before
            if cutter.level[number] < level - 1:
                uses[number].add(level - 1)
        found.append(segment)
    found.reverse()
    _lay_out(program, found, cutter.level, uses)
    _check_random(program, found)
    _check_rows(program, found)
    return found


def _lay_out(
    program: Program, segments: list[Segment], level: dict[int, int], uses: dict[int, set[int]]
) -> None:
    """Says where each value is between segments."""
    for number, at in uses.items():
        born, last = level[number], max(at)
        if last > born + 1:
            segments[born].gives.append(number)
        for place in sorted(at):
            segment = segments[place]
            if number in segment.reads:
                continue
            if place == born + 1 and last == born + 1:
                segment.carried.append(number)
            elif place > born:
                segment.needs.append(number)
    for segment in segments:
        segment.carried.sort()
        segment.needs = sorted(set(segment.needs))
        segment.gives.sort()
    for place, segment in enumerate(segments[:-1]):
        segment.makes = [*segments[place + 1].reads, *segments[place + 1].carried]
    segments[-1].makes = [program.result]


def _check_random(program: Program, segments: list[Segment]) -> None:
    met: dict[int, tuple[int, int | None]] = {}
    for segment in segments:
        for step in segment.steps:
            call = program.calls[step.call]
            where = (segment.level, step.edges)
            if call.random and met.setdefault(step.call, where) != where:
                raise refuse(call.path, "uses values of edges with dropout in several hops")


def _check_rows(program: Program, segments: list[Segment]) -> None:
    for segment in segments:
        for number in [*segment.makes, *segment.gives]:
            value = program.values[number]
            if value.times != 1:
                maker = value.maker
                path = "" if maker is None else program.calls[maker].path
                raise refuse(path, f"makes {value.times} rows of each node that are used later")
