"""layers: exact inference layer by layer, one sweep per layer within the budget.

The need of every layer is known before the first one starts, so a budget is refused then or not at
all. Rows between two layers are an array file on disk; a layer's file is removed once the next is
made.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from foregather.errors import BudgetError, InputError
from foregather.gather.feature_file import FeatureFile
from foregather.gather.memory import gathered_dtype
from foregather.graph.features import Features
from foregather.graph.graph import Graph
from foregather.graph.load import load, load_if_fits
from foregather.graph.mapped import hold
from foregather.graph.on_disk.npy import map_array
from foregather.loader.memory.division import SIZE_RESERVE, refusal
from foregather.observe.progress import Progress
from foregather.train.exact.deal import Cost, deal, largest_row
from foregather.train.exact.gather import gathered
from foregather.train.exact.probe import StepFacts, dtype_of, probe
from foregather.train.exact.room import Room, SweepNeed
from foregather.train.exact.steps import Step, whole_degree
from foregather.train.exact.sweep import Edges, sweep
from foregather.train.exact.write import write_rows
from foregather.units import format_bytes

__all__ = ["Finish", "Layer", "Order", "by_layers", "lay_out"]

Rows = npt.NDArray[np.float32]
Finish = Callable[[Rows], Rows]

_WORK = 256 << 20  # what a part may cost without a budget
_LEAST = 256  # edges of the smallest pieces: calls for fewer cost more than they hold
_NODE = 48  # bytes per node in addition to its row: ids and positions
_EDGE = 232  # bytes per edge: ids, positions, and what dividing into parts needs
_TARGET = 64


@dataclass(frozen=True)
class Order:
    """The request.

    Attributes:
        scratch: folder for rows between layers.
        memory: the budget; None: none.
        chosen: the budget was not given but chosen here.
        storage: as in `Loader`.
        batch_size: maximum targets per part; None: as many as fit.
        threads: threads for gathering.
        norm: as in `Loader`.
        finish: applied to rows of scores before they are written; None: nothing.
    """

    scratch: Path
    memory: int | None
    chosen: bool
    storage: Any
    batch_size: int | None
    threads: int
    norm: Any
    finish: Finish | None = None

    def finished(self, rows: Iterator[Rows]) -> Iterator[Rows]:
        """Rows of scores as they are written."""
        return rows if self.finish is None else map(self.finish, rows)


@dataclass(frozen=True)
class Layer:
    """A step with what the probe found about it."""

    step: Step
    facts: StepFacts
    cost: Cost
    need: SweepNeed
    room: Room
    on_disk: bool


def by_layers(model: nn.Module, steps: list[Step], graph: Graph, order: Order) -> dict[str, Any]:
    """Writes `scores.npy` to the scratch folder; returns what was done.

    Raises:
        BudgetError: the budget is below the minimum, which the message states.
        InputError: the model does not fit the graph.
    """
    plan = lay_out(model, steps, graph, order)
    norms = {step.norm for step in steps if step.norm}
    degrees = {norm: whole_degree(graph, norm) for norm in norms}
    edges = Edges.of(graph, order.norm)
    facts: dict[str, Any] = {"way": "layers", "sweeps": len(steps), "bytes": 0, "written": 0}
    source: Features | FeatureFile | None
    if plan[0].on_disk:
        source = FeatureFile.of(graph)
    else:  # under a budget there is room
        read = load_if_fits if order.memory is None else load
        source = read(graph, ["features"]).features
    assert source is not None
    with Progress("inferring", graph.num_nodes * len(steps), "nodes") as bar:
        for number, layer in enumerate(plan):
            final = number + 1 == len(plan)
            name = order.scratch / ("scores.npy" if final else f"rows-{number}.npy")
            degree = degrees.get(layer.step.norm or "")
            rows = _rows_of(layer, edges, source, degree, dtype_of(model), order, facts)
            write_rows(name, order.finished(rows) if final else rows, bar)
            facts["written"] += name.stat().st_size
            if number:
                (order.scratch / f"rows-{number - 1}.npy").unlink()
            if not final:
                source = _source(name, graph.num_nodes, plan[number + 1])
    return facts


def _rows_of(
    layer: Layer,
    edges: Edges,
    source: Features | FeatureFile,
    degree: "npt.NDArray[np.float64] | None",
    dtype: torch.dtype,
    order: Order,
    facts: dict[str, Any],
) -> Iterator[npt.NDArray[np.float32]]:
    graph = edges.graph
    shapes = deal(
        graph,
        layer.cost,
        layer.room.work,
        targets=order.batch_size,
        cut=layer.facts.cut,
        neighbours=layer.step.neighbours,
    )
    parts = gathered(source, shapes, layer.room, order.threads, facts)
    for made in sweep(layer.step, parts, edges, degree, dtype):
        yield made.float().numpy()
    if order.memory is not None and order.storage in ("topology", "disk"):
        facts["bytes"] += int(graph.indices.nbytes)


def _source(name: Path, count: int, layer: Layer) -> Features | FeatureFile:
    if not layer.on_disk:
        return Features(hold(map_array(name)))
    return FeatureFile(name, name.name, count, layer.facts.width, np.dtype(np.float32))


# ---- what it needs -----------------------------------------------------------------------------


def lay_out(model: nn.Module, steps: list[Step], graph: Graph, order: Order) -> list[Layer]:
    """Lays out all layers within the budget; reads only the topology's row lengths.

    Raises:
        BudgetError: the budget is below the minimum, which the message states.
        InputError: the model does not fit the graph, or cannot be computed in parts.
    """
    norms = {step.norm for step in steps if step.norm}
    if norms and order.norm is not None:
        raise InputError(
            "norm is 'gcn' and the model normalises by degree itself; make its convolutions with "
            "normalize=False, or leave norm out"
        )
    each = 8 * (len(norms) + (order.norm is not None)) + 4  # degrees, and the table of parts
    held = each * graph.num_nodes
    found, largest = probe(model, graph, order.norm), largest_row(graph)
    layers = [
        _layer(step, facts, graph, order, held, largest, number == 0)
        for number, (step, facts) in enumerate(zip(steps, found, strict=True))
    ]
    if order.memory is None:
        return layers
    number = max(range(len(layers)), key=lambda k: layers[k].need.least)
    least, memory = layers[number].need.least, order.memory
    if memory < least and order.chosen:
        memory = least  # no smaller budget was given
    if memory < least:
        raise _refusal(memory, number, layers[number], largest)
    made = []
    for layer in layers:
        room = layer.need.divide(memory)
        assert room is not None
        made.append(replace(layer, room=room))
    return made


def _layer(
    step: Step,
    facts: StepFacts,
    graph: Graph,
    order: Order,
    held: int,
    largest: int,
    first: bool,
) -> Layer:
    """A layer with the need of the place where its rows will be."""
    assert graph.features is not None
    cost = _cost(facts, graph, first)
    edges = min(largest, _LEAST) if facts.cut else largest
    least = cost.of(edges + 1, edges, 1) if step.neighbours else cost.of(_LEAST, 0, _LEAST)
    whole = max(least, cost.of(2 * graph.num_nodes, graph.num_edges, graph.num_nodes))
    stored = graph.features.nbytes if first else 4 * facts.width * graph.num_nodes
    memory = order.memory
    need = SweepNeed(cost, least, whole, held)
    if memory is None or order.storage == "memory" or graph.path is None:
        work = _WORK if memory is None else memory - held
        return Layer(step, facts, cost, need, Room(max(least, min(whole, work))), False)
    kept = SweepNeed(cost, least, whole, held + stored)
    if order.storage == "topology":
        return Layer(step, facts, cost, kept, Room(least), False)
    if order.storage == "auto" and held + stored + max(least, min(whole, memory / 8)) <= memory:
        return Layer(step, facts, cost, kept, Room(least), False)
    file = (
        FeatureFile.of(graph)
        if first
        else FeatureFile(Path(), "rows", graph.num_nodes, facts.width, np.dtype(np.float32))
    )
    need = replace(need, held=held + file.sums_bytes + file.places_bytes, geometry=file.geometry())
    return Layer(step, facts, cost, need, Room(least), True)


def _cost(facts: StepFacts, graph: Graph, first: bool) -> Cost:
    """Bytes of a part: its rows, what the step makes, ids, and the rows that come out."""
    assert graph.features is not None
    stored = gathered_dtype(graph.features) if first else np.dtype(np.float32)
    row = facts.width * stored.itemsize
    if stored != np.float32:
        row += 4 * facts.width  # converted
    attr = 0 if graph.edge_features is None else 8 * graph.edge_features.width
    rows, edges, targets = (value * SIZE_RESERVE for value in facts.footprint)
    return Cost(row + rows + _NODE, edges + attr + _EDGE, targets + 8 * facts.gives + _TARGET)


def _refusal(memory: int, number: int, layer: Layer, largest: int) -> BudgetError:
    least, kind = layer.need.least, type(layer.step.module).__name__
    why = ""
    if layer.step.neighbours and not layer.facts.cut:
        why = f", since {kind} wants all {largest:,} in-neighbours of a node at once"
    return refusal(
        f"memory is {format_bytes(memory)} ({memory} bytes), but layer {number + 1} needs "
        f"{format_bytes(least)} ({least} bytes){why}; pass at least that",
        least,
    )
