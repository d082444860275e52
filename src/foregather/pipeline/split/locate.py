"""locate: finds the call of a recorded model that mixes nodes, to name it in the refusal."""

from typing import Any

import torch
from torch import Tensor

from foregather.errors import InputError
from foregather.pipeline.split.graph_values import run_call
from foregather.pipeline.split.norms import is_norm
from foregather.pipeline.split.program import ByMode, Number, Program
from foregather.pipeline.split.tape import Call, Ref, Tape, refuse

__all__ = ["find_mixing"]


def find_mixing(program: Program, tape: Tape) -> InputError | None:
    """Runs every call on some of the nodes; an error that names the first with other rows."""
    count = int(program.nodes[0])
    some = torch.arange(count // 3)
    for call in program.calls:
        if call.passing is not None or call.random or call.number is not None:
            continue
        if program.values[call.outs[0]].kind != "node" or is_norm(program, call):
            continue
        try:
            same = _same_rows(program, tape, call, some)
        except Exception:  # it needs all rows, or numbers that only a whole run has
            same = False
        if not same:
            return refuse(call.path, f"calls {call.name}, which mixes nodes outside propagate")
    return None


def _same_rows(program: Program, tape: Tape, call: Call, some: Tensor) -> bool:
    def part(number: int) -> Tensor:
        value, whole = program.values[number], tape.tensors[number]
        place = some.to(whole.device)
        if value.axis is None or whole.shape[value.axis] != program.nodes[0]:
            return whole
        return whole.index_select(value.axis, place)

    def resolve(leaf: Any) -> Any:
        if isinstance(leaf, Ref):
            return part(leaf.value)
        if isinstance(leaf, ByMode):
            return leaf.train
        if isinstance(leaf, Number):
            times = program.rows_of(leaf.pair)
            return leaf.pair[0] if times is None else times * some.numel()
        return leaf

    with torch.no_grad():
        found = run_call(call, resolve)
    pairs = zip(call.outs, found, strict=True)
    return all(torch.allclose(part(n), seen, rtol=1e-3, atol=1e-5) for n, seen in pairs)
