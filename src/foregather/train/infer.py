"""infer: exact scores of all nodes, layer by layer, in bounded memory.

Each layer is one sweep: targets in ascending order, each part with all its in-neighbours; a row
that is too large for that is cut by its sources, in order, if the layer allows it. Rows between two
layers are an array file on disk, written in order; the next sweep reads them according to a plan
within the same budget as training. Nothing is sampled, so the result equals that of the whole graph
at once, up to rounding, whatever the budget.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from foregather.errors import InputError, StorageError
from foregather.graph.graph import Graph
from foregather.graph.on_disk.files import storage_error
from foregather.graph.on_disk.workspace import Workspace
from foregather.loader.arguments import check_choice
from foregather.observe.usable_memory import trim_memory, usable_memory
from foregather.targets import check_file, check_replaced
from foregather.train.exact.layers import Finish, Order, by_layers, lay_out
from foregather.train.exact.neighbourhoods import by_neighbourhoods, with_least
from foregather.train.exact.reach import check_reach
from foregather.train.exact.steps import Step, layer_steps
from foregather.units import parse_size

__all__ = ["check_infer", "infer"]


def infer(
    model: nn.Module,
    graph: Graph,
    out: str | os.PathLike[str],
    *,
    layers: int | None = None,
    memory: str | int | None = None,
    storage: Any = "auto",
    batch_size: int | None = None,
    threads: int = 0,
    norm: Any = None,
    overwrite: bool = False,
    finish: Finish | None = None,
) -> dict[str, Any]:
    """Writes the scores of all nodes to an array file (.npy, float32 [N, columns]).

    Args:
        model: see `exact.steps.layer_steps`; for others, whole neighbourhoods are recomputed for
            each part, which is as exact but costs more with every layer. Both must give the same
            scores as its `forward`, which is checked first.
        graph: from a folder, for a budget below its size.
        out: the file to make; rows between layers are kept next to it until it is done.
        layers: number of layers of a model that does not expose its steps; one that does has as
            many as it exposes.
        memory: bytes ("2GB") for graph, cache and what a layer computes, without the model itself;
            "auto" chooses a sufficient budget; None: no limit.
        storage: as in `Loader`.
        batch_size: maximum targets computed together; None: as many as half of the budget holds,
            since every part may need all rows.
        threads: threads for sampling and gathering, 0 for all.
        norm: "gcn" if the model was trained with a loader of `norm="gcn"`.
        overwrite: replace `out`.
        finish: applied to rows of scores before they are written, such as `Task.finish`.

    Returns:
        Facts: sweeps, bytes read and written, and the method used.

    Raises:
        InputError: the model does not fit the graph, or cannot be computed in parts: it looks
            further than its layers say, or its `layer_steps` give other scores than `forward`.
        BudgetError: `memory` is below the minimum, which the message states, before anything
            starts.
        NumericError: scores that are NaN or infinite.
        StorageError: `out` exists, is inside a graph folder or part of a run, or the disk is full;
            nothing is left behind.
    """
    out = Path(out)
    check_file(out, overwrite)
    steps = _steps_of(model, graph, layers)
    order = _order(graph, memory, storage, batch_size, threads, norm)
    training = model.training
    model.eval()
    try:
        with Workspace(out, ".scratch") as work, torch.no_grad():
            order = replace(order, scratch=work.path, finish=finish)
            if steps is None:
                order = with_least(graph, order, int(layers or 0))
                read = check_reach(model, graph, order, int(layers or 0))
                facts = by_neighbourhoods(model, graph, order, int(layers or 0))
                facts["bytes"] += read
            else:
                facts = by_layers(model, steps, graph, order)
            work.commit("scores.npy", check_replaced if overwrite else None)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise storage_error(error, out, "writing") from error
    finally:
        model.train(training)
        if order.memory is not None:
            trim_memory()  # training continues within the same budget
    return {"out": str(out), "nodes": graph.num_nodes, **facts}


@torch.no_grad()
def check_infer(
    model: nn.Module,
    graph: Graph,
    *,
    layers: int | None = None,
    memory: str | int | None = None,
    storage: Any = "auto",
    batch_size: int | None = None,
    threads: int = 0,
    norm: Any = None,
) -> int:
    """Raises what `infer` with these arguments would raise before it starts.

    Returns:
        Bytes that were read from disk for the check.

    Raises:
        InputError: the model does not fit the graph, or cannot be computed in parts.
        BudgetError: `memory` is below the minimum, which the message states.
    """
    steps = _steps_of(model, graph, layers)
    order = _order(graph, memory, storage, batch_size, threads, norm)
    training = model.training
    model.eval()
    try:
        if steps is None:
            order = with_least(graph, order, int(layers or 0))
            return check_reach(model, graph, order, int(layers or 0))
        lay_out(model, steps, graph, order)
        return 0
    finally:
        model.train(training)


def _order(
    graph: Graph, memory: Any, storage: Any, batch_size: int | None, threads: int, norm: Any
) -> Order:
    """The arguments, checked."""
    check_choice("storage", storage, ("auto", "memory", "features", "topology", "disk"))
    check_choice("norm", norm, (None, "gcn"))
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size is {batch_size}, expected at least 1 target")
    if memory is not None and graph.path is None and storage not in ("auto", "memory"):
        raise InputError(
            f"storage is {storage!r}, but the graph is in memory; save it and open the folder"
        )
    if memory is None and storage not in ("auto", "memory"):
        raise InputError(f"storage is {storage!r}; say with memory= how much may be used")
    chosen = memory == "auto"
    budget = usable_memory() if chosen else None if memory is None else parse_size(memory)
    return Order(Path(), budget, chosen, storage, batch_size, threads, norm)


def _steps_of(model: nn.Module, graph: Graph, layers: int | None) -> list[Step] | None:
    """Returns the steps of a model.

    None if it does not expose them and `layers` gives their number.
    """
    if graph.num_nodes == 0:
        raise InputError("the graph has no nodes, so there is nothing to infer")
    if graph.features is None:
        raise InputError("the graph has no features, which inference starts from")
    steps = layer_steps(model)
    if steps is None and not layers:
        raise InputError(
            f"{type(model).__name__} does not expose its layers; give it a method layer_steps, or "
            "pass their number as layers="
        )
    return steps
