"""program: recorded runs joined to one program whose numbers follow the graph and the mode.

Two runs on graphs of different sizes show which numbers are counts of nodes or edges; a run in
evaluation shows what differs from training. Every value is of one kind: "const" depends on nothing
but the graph, "weight" on weights alone, "node" has one row per node and "edge" one per edge.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from foregather.errors import InputError
from foregather.pipeline.split.tape import Call, Ref, Tape, refuse
from foregather.pipeline.split.trees import leaves_of, map_tree, zip_trees

__all__ = ["ByMode", "Number", "Program", "Value", "join"]

Kind = Literal["const", "weight", "node", "edge"]
Pair = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Number:
    """Stands for a number that follows the graph: what it was in the two runs."""

    pair: Pair


@dataclass(frozen=True, slots=True)
class ByMode:
    """Stands for an argument that differs between training and evaluation."""

    train: Any
    evaluate: Any


@dataclass(slots=True)
class Value:
    """What is known of a value.

    Attributes:
        kind: see the module.
        sizes: of each dimension, in both runs.
        dtype: of its elements.
        axis: the dimension of nodes or edges; None if it has none.
        times: rows per node or edge along that dimension.
        maker: the call that gives it; None for inputs and weights.
        origin: of values that no call gives.
    """

    kind: Kind
    sizes: tuple[Pair, ...]
    dtype: torch.dtype
    axis: int | None = None
    times: int = 1
    maker: int | None = None
    origin: tuple[str, str] | None = None

    @property
    def width(self) -> int:
        """Columns, if each node has one row."""
        found = self.times
        for place, (size, _) in enumerate(self.sizes):
            found *= 1 if place == self.axis else size
        return found


@dataclass(slots=True)
class Program:
    """A recorded model.

    Attributes:
        calls: in order; those that only training makes are in `train_only`.
        values: by number.
        result: the scores.
        nodes: nodes of both small graphs.
        edges: counts of edges of both, of every set of edges that messages pass along.
        literals: tensors that are neither inputs nor weights.
        train_only: calls whose first argument is their result in evaluation.
        dtype: of the recorded run.
    """

    calls: list[Call]
    values: list[Value]
    result: int
    nodes: Pair
    edges: set[Pair]
    literals: dict[int, torch.Tensor]
    train_only: set[int] = field(default_factory=set)
    dtype: torch.dtype = torch.float32

    def refs(self, call: Call) -> list[int]:
        """The values that a call takes."""
        return refs_of([call.args, call.kwargs])

    def rows_of(self, pair: Pair) -> int | None:
        """How many times the number of nodes a number is; None if it is not one."""
        return _times(pair, self.nodes)


def refs_of(tree: Any) -> list[int]:
    """The values in a tree, in order."""
    found: list[int] = []
    for leaf in leaves_of(tree):
        if isinstance(leaf, Ref):
            found.append(leaf.value)
        elif isinstance(leaf, ByMode):
            found += refs_of([leaf.train, leaf.evaluate])
    return found


def _times(pair: Pair, unit: Pair) -> int | None:
    a, b = pair
    if not (type(a) is type(b) is int) or a == b or a <= 0 or a % unit[0] or b % unit[1]:
        return None
    return a // unit[0] if a // unit[0] == b // unit[1] else None


def join(first: Tape, second: Tape, evaluated: Tape, nodes: Pair) -> Program:
    """Joins two runs in training, on graphs of different sizes, and one in evaluation.

    Raises:
        InputError: they differ in what they call, or mix nodes outside message passing.
    """
    tapes = [_live(tape) for tape in (first, second, evaluated)]
    calls, tensors = _same(tapes[0], tapes[1]), tapes[0].tensors
    values: list[Value] = []
    literals = {}
    used = {ref for call in calls for ref in refs_of([call.args, call.kwargs])}
    for number, (a, b) in enumerate(zip(tensors, tapes[1].tensors, strict=True)):
        sizes = tuple(zip(a.shape, b.shape, strict=True)) if a.dim() == b.dim() else ()
        origin = tapes[0].origin.get(number)
        values.append(Value("const", sizes, a.dtype, origin=origin))
        if origin is not None and origin[0] == "literal" and number in used | {tapes[0].result}:
            literals[number] = a
            if not torch.equal(a, b):
                raise InputError(
                    "the model makes a tensor in a way that cannot be recorded (an "
                    "autograd.Function, or a package of its own); use chunks=1"
                )
    program = Program(calls, values, tapes[0].result, nodes, set(), literals)
    program.dtype = next(
        (
            t.dtype
            for n, t in enumerate(tensors)
            if (tapes[0].origin.get(n) or ("",))[0] == "weight"
        ),
        tensors[0].dtype,
    )
    _find_kinds(program)
    _join_modes(program, tapes[2])
    _merge_equal(program)
    return program


def _merge_equal(program: Program) -> None:
    """Keeps one of equal calls of constants: each convolution normalises the same edges again."""
    same: dict[int, int] = {}
    known: dict[str, list[int]] = {}
    only = {id(program.calls[place]) for place in program.train_only}

    def merged(leaf: Any) -> Any:
        return Ref(same.get(leaf.value, leaf.value)) if isinstance(leaf, Ref) else leaf

    for call in program.calls:
        call.args, call.kwargs = map_tree([call.args, call.kwargs], merged)
        if call.number is not None or any(program.values[n].kind != "const" for n in call.outs):
            continue
        key = repr((call.name, id(call.func), call.changes, call.args, call.kwargs))
        first = known.setdefault(key, call.outs)
        same.update(zip(call.outs, first, strict=True))
    program.result = same.get(program.result, program.result)
    program.calls = [
        call
        for call in program.calls
        if call.number is not None
        or not call.outs
        or same.get(call.outs[0]) in (None, call.outs[0])
    ]
    program.train_only = {n for n, call in enumerate(program.calls) if id(call) in only}
    for place, call in enumerate(program.calls):
        for number in call.outs:
            program.values[number].maker = place


def _live(tape: Tape) -> Tape:
    """The same tape without calls that the result does not need; numbers stay."""
    maker = {out: place for place, call in enumerate(tape.calls) for out in call.outs}
    needed, todo = set[int](), [tape.result]
    for place, call in enumerate(tape.calls):
        if call.number is not None:
            needed.add(place)
            todo += refs_of([call.args, call.kwargs])
    while todo:
        place = maker.get(todo.pop(), -1)
        if place >= 0 and place not in needed:
            needed.add(place)
            todo += refs_of([tape.calls[place].args, tape.calls[place].kwargs])
    calls = [call for place, call in enumerate(tape.calls) if place in needed]
    return replace(tape, calls=calls)


def _same(first: Tape, second: Tape) -> list[Call]:
    """The calls of two runs as one, with numbers that differ marked."""
    pairs = zip(first.calls, second.calls, strict=False)
    if len(first.tensors) != len(second.tensors) or len(first.calls) != len(second.calls):
        path = next((a.path for a, b in pairs if a.name != b.name), "")
        raise refuse(path, "does other things for a graph of another size")
    joined = []
    for a, b in pairs:
        if a.name != b.name or a.outs != b.outs:
            raise refuse(a.path, f"calls {a.name} for one graph and {b.name} for another")
        try:
            args = zip_trees([a.args, b.args], _number)
            kwargs = zip_trees([a.kwargs, b.kwargs], _number)
        except ValueError:
            raise refuse(a.path, f"calls {a.name} otherwise for a graph of another size") from None
        number = a.number if a.number is None else Number((a.number, b.number))
        joined.append(replace(a, args=args, kwargs=kwargs, number=number))
    return joined


def _number(pair: list[Any]) -> Any:
    a, b = pair
    if isinstance(a, Ref) or isinstance(b, Ref):
        if a != b:
            raise ValueError("other tensors")
        return a
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and a != b:
        return Number((a, b))
    return a


# ---- kinds -----------------------------------------------------------------------------------


def _find_kinds(program: Program) -> None:
    values = program.values
    for value in values:
        if value.origin == ("input", "x"):
            value.kind, value.axis = "node", 0
        elif value.origin == ("input", "edge_index"):
            program.edges.add(value.sizes[1])
        elif value.origin is not None and value.origin[0] == "weight":
            value.kind = "weight"
    for call in program.calls:
        if call.passing is not None:
            program.edges.add(values[call.args[0].value].sizes[1])
    for value in values:
        if value.kind == "const":
            _find_axis(program, value)
    for place, call in enumerate(program.calls):
        for number in call.outs:
            values[number].maker = place
        kinds = {values[ref].kind for ref in program.refs(call)}
        if kinds <= {"const"} and not call.random:
            continue
        if call.number is not None:
            why = f"takes a Python number from rows of nodes ({call.name})"
            raise refuse(call.path, why)
        if call.passing is not None:
            _check_passing(program, call)
        else:
            _check_mixed(program, call)
        for number in call.outs:
            values[number].kind = _kind(program, call, values[number])


def _find_axis(program: Program, value: Value) -> Kind | None:
    """Sets the dimension of nodes or edges; None if there are several, or other ones."""
    moving = [place for place, (a, b) in enumerate(value.sizes) if a != b]
    if len(moving) != 1:
        return None
    pair = value.sizes[moving[0]]
    times = program.rows_of(pair)
    if times is not None:
        value.axis, value.times = moving[0], times
        return "node"
    if pair in program.edges:
        value.axis = moving[0]
        return "edge"
    return None


def axis_kind(program: Program, value: Value) -> Kind | None:
    """What a value has rows of: nodes, edges, or nothing."""
    if value.axis is None:
        return None
    return "edge" if value.sizes[value.axis] in program.edges else "node"


def _kind(program: Program, call: Call, value: Value) -> Kind:
    found = _find_axis(program, value)
    if found is not None:
        return found
    if any(a != b for a, b in value.sizes):
        raise refuse(
            call.path,
            f"calls {call.name}, whose rows are neither those of nodes nor of edges",
        )
    rows = [program.values[ref].kind for ref in program.refs(call)]
    if "node" in rows or "edge" in rows:
        raise refuse(
            call.path, f"calls {call.name} over all nodes, which mixes nodes outside propagate"
        )
    return "weight"


def _check_mixed(program: Program, call: Call) -> None:
    """Refuses calls between rows of nodes and rows of edges."""
    found = {axis_kind(program, program.values[ref]) for ref in program.refs(call)}
    other = any(
        value.axis is None and any(a != b for a, b in value.sizes)
        for value in (program.values[ref] for ref in program.refs(call))
    )
    if {"node", "edge"} <= found or other:
        raise refuse(
            call.path, f"calls {call.name}, which reads rows of other nodes outside propagate"
        )


def _check_passing(program: Program, call: Call) -> None:
    edges = program.values[call.args[0].value]
    assert call.passing is not None
    if edges.kind != "const":
        raise refuse(call.path, "passes messages along edges that depend on rows of nodes")
    for ref in refs_of(call.kwargs):
        value = program.values[ref]
        kind = axis_kind(program, value)
        if kind == "edge" and value.axis is not None and value.sizes[value.axis] != edges.sizes[1]:
            raise refuse(call.path, "gives propagate values of other edges than it passes along")


# ---- training and evaluation -----------------------------------------------------------------


def _join_modes(program: Program, evaluated: Tape) -> None:
    """Marks what evaluation does otherwise."""
    maker = {out: call for call in evaluated.calls for out in call.outs}
    todo, met = [(program.result, evaluated.result)], set[tuple[int, int]]()
    while todo:
        pair = todo.pop()
        if pair in met:
            continue
        met.add(pair)
        mine = program.values[pair[0]]
        theirs = maker.get(pair[1])
        if mine.maker is None:
            if theirs is not None or evaluated.origin.get(pair[1]) != mine.origin:
                raise _other_mode("")
            continue
        call = program.calls[mine.maker]
        if theirs is not None and theirs.name == call.name and theirs.path == call.path:
            todo += _join_call(call, theirs)
            continue
        first = call.args[0] if isinstance(call.args, (list, tuple)) and call.args else None
        if not (call.random and isinstance(first, Ref)):
            raise _other_mode(call.path)
        program.train_only.add(mine.maker)
        todo.append((first.value, pair[1]))


def _other_mode(path: str) -> InputError:
    return refuse(path, "does other things in evaluation than in training, besides dropout")


def _join_call(call: Call, theirs: Call) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []

    def mode(pair: list[Any]) -> Any:
        a, b = pair
        if isinstance(a, Ref) and isinstance(b, Ref):
            found.append((a.value, b.value))
            return a
        if isinstance(a, Number):
            return a
        if isinstance(a, (bool, int, float, str)) and type(a) is type(b) and a != b:
            return ByMode(a, b)
        if isinstance(a, Ref) or isinstance(b, Ref):
            raise ValueError("other tensors")
        return a

    try:
        call.args = zip_trees([call.args, theirs.args], mode)
        call.kwargs = zip_trees([call.kwargs, theirs.kwargs], mode)
    except ValueError:
        raise _other_mode(call.path) from None
    return found
