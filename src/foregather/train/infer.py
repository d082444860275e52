"""infer: scores of all nodes, exact, layer by layer, in bounded memory.

Each layer is one sweep: targets in ascending order, each part with all its in-neighbours. Rows
between two layers are an array file on disk, written in order; the next sweep reads them by plan
under the same budget as training. Nothing is sampled away, so the result is that of the whole graph
at once, up to rounding.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from foregather.errors import BudgetError, InputError, StorageError
from foregather.graph.files import storage_error
from foregather.graph.graph import Graph
from foregather.observe.progress import Progress
from foregather.sampling.neighbor import Neighbor
from foregather.train.exact.layers import Order, by_layers
from foregather.train.exact.write import write_rows
from foregather.train.loader import Loader
from foregather.train.score import forward, reads
from foregather.train.steps import layer_steps
from foregather.train.usable import usable_memory
from foregather.units import parse_size

__all__ = ["infer"]

_BATCH = 4096  # targets of a part without a budget
_FLIGHT, _RESERVE = 3, 1.5  # batches alive at once, and room for larger ones


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
) -> dict[str, Any]:
    """Writes the scores of all nodes to an array file (.npy, float32 [N, classes]).

    Args:
        model: see `train.steps.layer_steps`; for others, whole neighbourhoods are computed anew
            for each part, which is as exact but costs more with every layer.
        graph: from a folder, for a budget below its size.
        out: the file to make; rows between layers lie beside it until it is done.
        layers: of a model that does not show its steps.
        memory: bytes for graph, cache and batches, as of `Loader`.
        storage: likewise.
        batch_size: targets computed together; None: as many as half of the budget holds, since
            every part may have to pass over all rows.
        threads: of sampling and gathering, 0 for all.
        norm: "gcn" where the model was trained with a loader of `norm="gcn"`.
        overwrite: replace `out`.

    Returns:
        How it went: sweeps, bytes read and written, and which way was taken.

    Raises:
        InputError: the model does not fit the graph.
        NumericError: scores that are NaN or infinite.
        StorageError: `out` exists, or the disk is full; nothing is left behind.
    """
    out = Path(out)
    if out.exists() and not overwrite:
        raise StorageError(f"{out.name} exists already; pass --overwrite, or name another file")
    if graph.features is None:
        raise InputError("the graph has no features, which inference starts from")
    steps = layer_steps(model)
    if steps is None and not layers:
        raise InputError(
            f"{type(model).__name__} does not show its layers; give it a method layer_steps, or "
            "say with layers= how many it has"
        )
    scratch = out.with_name(out.name + ".scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    chosen = memory == "auto"
    budget = usable_memory() if chosen else None if memory is None else parse_size(memory)
    order = Order(scratch, budget, chosen, storage, batch_size, threads, norm)
    training = model.training
    model.eval()
    try:
        scratch.mkdir(parents=True)
        with torch.no_grad():
            if steps is None:
                facts = _by_neighbourhoods(model, graph, order, int(layers or 0))
            else:
                facts = by_layers(model, steps, graph, order)
        os.replace(scratch / "scores.npy", out)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise storage_error(error, out, "writing") from error
    finally:
        model.train(training)
        shutil.rmtree(scratch, ignore_errors=True)
    return {"out": str(out), "nodes": graph.num_nodes, **facts}


def _by_neighbourhoods(model: nn.Module, graph: Graph, order: Order, layers: int) -> dict[str, Any]:
    """All in-neighbours, `layers` deep, for each part anew."""
    loader = _loader(graph, order, [-1] * layers)
    facts: dict[str, Any] = {"way": "neighbourhoods", "sweeps": 1}

    def rows() -> Iterator[npt.NDArray[np.float32]]:
        for batch in loader:
            yield forward(model, batch).float().numpy()

    try:
        with Progress("inferring", graph.num_nodes, "nodes") as bar:
            write_rows(order.scratch / "scores.npy", rows(), bar)
        facts["written"] = (order.scratch / "scores.npy").stat().st_size
        facts["bytes"] = reads(loader)["bytes"]
    finally:
        loader.close()
    return facts


def _loader(graph: Graph, order: Order, fanouts: list[int]) -> Loader:
    """The loader of a sweep; where the size of parts is free, the largest that was found to fit."""
    if order.batch_size is not None:
        return _sized(graph, order, fanouts, order.batch_size)
    size = _guess(graph, order.memory)
    while True:
        try:
            return _sized(graph, order, fanouts, size)
        except BudgetError:
            if size == 1:
                raise
            size = max(1, size // 2)


def _guess(graph: Graph, memory: int | None) -> int:
    """Targets whose batches, several in flight, take about half of the budget."""
    if memory is None:
        return min(_BATCH, graph.num_nodes)
    assert graph.features is not None
    degree = graph.num_edges / max(1, graph.num_nodes)
    row = 4 * graph.features.width + 24 * degree + 16
    most = memory / 2 / (_FLIGHT * _RESERVE * row)  # rows of a batch
    if most >= graph.num_nodes:
        return graph.num_nodes
    return max(1, int(most / (1 + degree)))


def _sized(graph: Graph, order: Order, fanouts: list[int], size: int) -> Loader:
    return Loader(
        graph,
        None,
        None,
        size,
        sampler=Neighbor(fanouts),
        memory=order.memory,
        storage=order.storage if order.memory is not None else "auto",
        bulk="auto" if order.memory is not None else 1,
        threads=order.threads,
        labels="seeds",
        edge_attr=graph.edge_features is not None,
        prefetch=1,
        pyg=False,
        norm=order.norm,
    )
