"""segments: layers cut into stages, and a stage into segments between aggregations.

A segment is what a chunk can do by itself once its in-neighbours' messages are there. Skip tensors
that are given before a boundary and needed behind it cross the boundary too, unless the layers that
give them are run again behind it.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from foregather.errors import InputError
from foregather.nn.conv import Conv
from foregather.nn.layer import Dense, GraphLayer
from foregather.units import format_number

__all__ = [
    "Op",
    "StageProgram",
    "as_layers",
    "cut_layers",
    "shared_layers",
    "shared_statistics",
    "stage_program",
]


@dataclass(frozen=True, slots=True)
class Op:
    """One step of a chunk.

    Attributes:
        kind: "message" or "update" of a layer; "again" runs the first layers once more for a skip
            tensor.
        layer: number of the layer in the model; for "again", the layer that gives the tensor.
    """

    kind: Literal["message", "update", "again"]
    layer: int


@dataclass(frozen=True, slots=True)
class StageProgram:
    """What one stage does.

    Attributes:
        stage: number of the stage.
        first: its first layer.
        last: one past its last layer.
        segments: ops between aggregations; there is always at least one segment.
        skips_in: skip tensors that arrive with the rows.
        skips_out: skip tensors that are sent on.
        again: layers run again here for a skip tensor; their weights are shared by stages.
        tied: layers of any stage that have a weight which layers of another stage have, too.
        apart: layers of this stage that aggregate without reading rows of other nodes.
    """

    stage: int
    first: int
    last: int
    segments: tuple[tuple[Op, ...], ...]
    skips_in: tuple[str, ...]
    skips_out: tuple[str, ...]
    again: tuple[int, ...]
    tied: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()

    @property
    def aggregating(self) -> list[int]:
        """Layers of this stage that aggregate."""
        return [ops[0].layer for ops in self.segments[1:]]

    @property
    def reads_features(self) -> bool:
        """Whether this stage begins with an aggregation of the graph's own features.

        A later stage may begin with an aggregation too, but of rows that must arrive first.
        """
        return self.first == 0 and self.segments[0] == ()


def as_layers(modules: Sequence[nn.Module]) -> list[GraphLayer]:
    """Wraps PyG convolutions and row-wise modules as layers; layers stay as they are.

    Raises:
        InputError: an empty list, something that is not a module, or skip tensors that do not fit.
    """
    layers = []
    for number, module in enumerate(modules):
        if isinstance(module, GraphLayer):
            layers.append(module)
        elif hasattr(module, "propagate"):
            layers.append(Conv(module))
        elif isinstance(module, nn.Module):
            layers.append(Dense(module))
        else:
            raise InputError(f"layer {number} is a {type(module).__name__}, expected a module")
    if not layers:
        raise InputError("layers is empty, expected at least one layer")
    known: set[str] = set()
    for number, layer in enumerate(layers):
        missing = set(layer.needs) - known
        if missing:
            raise InputError(
                f"layer {number} needs the skip tensor {sorted(missing)[0]!r}, "
                "which no earlier layer gives"
            )
        if again := known & set(layer.given):
            raise InputError(f"layer {number} gives {min(again)!r}, as does an earlier layer")
        known |= set(layer.given)
    return layers


def cut_layers(layers: Sequence[GraphLayer], stages: int) -> list[int]:
    """Returns the first layers of all stages and the number of layers; divides aggregations evenly.

    Raises:
        InputError: more stages than layers.
    """
    heavy = [i for i, layer in enumerate(layers) if layer.aggregates]
    if stages > len(layers):
        points = format_number(len(heavy), "propagate call")
        raise InputError(
            f"there are {stages} stages but {format_number(len(layers), 'layer')}; every stage "
            f"needs a layer, and this model can only be cut at its {points}, so start fewer ranks "
            "or share stages among them with Runtime(ways=...)"
        )
    if len(heavy) < stages:
        heavy = list(range(len(layers)))
    return [0, *(heavy[len(heavy) * s // stages] for s in range(1, stages)), len(layers)]


def check_cuts(cuts: Sequence[int], layers: int, stages: int) -> list[int]:
    """Returns the first layers of all stages, as the caller gave them, and the number of layers.

    Raises:
        InputError: not one ascending cut for each stage after the first.
    """
    whole = [0, *cuts, layers]
    if len(whole) != stages + 1 or any(a >= b for a, b in itertools.pairwise(whole)):
        raise InputError(
            f"cuts is {list(cuts)}, expected {stages - 1} ascending numbers "
            f"from 1 to {layers - 1}: the first layer of each stage after the first"
        )
    return whole


def _giver(layers: Sequence[GraphLayer], name: str) -> int:
    return next(i for i, layer in enumerate(layers) if name in layer.given)


def crossing(layers: Sequence[GraphLayer], boundary: int, again: bool) -> list[str]:
    """Returns the skip tensors that cross in front of layer `boundary`."""
    needed = {name for layer in layers[boundary:] for name in layer.needs}
    given = [name for layer in layers[:boundary] for name in layer.given if name in needed]
    return [name for name in given if not (again and _cheap(layers, name))]


def _cheap(layers: Sequence[GraphLayer], name: str) -> bool:
    """Whether a skip tensor is made from the features by dense layers alone."""
    return not any(layer.aggregates for layer in layers[: _giver(layers, name) + 1])


def stage_program(
    layers: Sequence[GraphLayer], cuts: Sequence[int], stage: int, again: bool
) -> StageProgram:
    """Makes the program of a stage; with `again`, cheap skip tensors are computed, not sent."""
    first, last = cuts[stage], cuts[stage + 1]
    needed = sorted({name for layer in layers[first:last] for name in layer.needs})
    given = [name for layer in layers[first:last] for name in layer.given]
    rerun = [n for n in needed if again and stage and n not in given and _cheap(layers, n)]
    ops = [Op("again", _giver(layers, name)) for name in rerun]
    segments: list[tuple[Op, ...]] = []
    for number in range(first, last):
        if layers[number].aggregates:
            if type(layers[number]).message is not GraphLayer.message:
                ops.append(Op("message", number))
            segments.append(tuple(ops))
            ops = []
        ops.append(Op("update", number))
    segments.append(tuple(ops))
    return StageProgram(
        stage,
        first,
        last,
        tuple(segments),
        tuple(crossing(layers, first, again)) if stage else (),
        tuple(crossing(layers, last, again)) if last < len(layers) else (),
        tuple(range(max((_giver(layers, name) for name in rerun), default=-1) + 1)),
        _tied(layers, cuts),
        tuple(n for n in range(first, last) if layers[n].aggregates and not layers[n].reads_rows),
    )


def _tied(layers: Sequence[GraphLayer], cuts: Sequence[int]) -> tuple[int, ...]:
    """Layers that are the first to have a weight which several stages have."""
    first: dict[int, tuple[int, int]] = {}
    found: set[int] = set()
    for stage in range(len(cuts) - 1):
        for number in range(cuts[stage], cuts[stage + 1]):
            for weight in layers[number].parameters():
                layer, owner = first.setdefault(id(weight), (number, stage))
                if owner != stage:
                    found.add(layer)
    return tuple(sorted(found))


def shared_statistics(layers: Sequence[GraphLayer], cuts: Sequence[int]) -> str | None:
    """The norm whose running statistics several stages would move, each by its own calls alone."""
    owners: dict[int, int] = {}
    for stage in range(len(cuts) - 1):
        for layer in layers[cuts[stage] : cuts[stage + 1]]:
            for name, buffer in layer.named_buffers():
                norm, _, kind = name.replace("/", ".").rpartition(".")
                moves = kind in ("running_mean", "running_var", "num_batches_tracked")
                if moves and owners.setdefault(id(buffer), stage) != stage:
                    return norm
    return None


def shared_layers(programs: Sequence[StageProgram]) -> tuple[int, ...]:
    """Returns the layers whose weights several stages hold: those that are rerun, and tied ones."""
    again = range(max(len(program.again) for program in programs))
    return tuple(sorted({*again, *programs[0].tied}))
