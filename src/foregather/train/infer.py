"""infer: scores of all nodes, exact, layer by layer, in bounded memory.

Each layer is one sweep: targets in ascending order, each part with all its in-neighbours. Rows
between two layers are an array file on disk, written in order; the next sweep reads them by plan
under the same budget as training. Nothing is sampled away, so the result is that of the whole graph
at once, up to rounding.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from foregather.errors import BudgetError, InputError, NumericError, StorageError
from foregather.graph.files import storage_error
from foregather.graph.graph import Graph
from foregather.graph.npy import map_array
from foregather.graph.writer import ArrayWriter, FolderWriter
from foregather.observe.progress import Progress
from foregather.observe.trace import span
from foregather.sampling.neighbor import Neighbor
from foregather.train.loader import Loader
from foregather.train.score import forward, reads
from foregather.train.steps import Step, layer_steps, whole_degree
from foregather.units import parse_size

__all__ = ["infer"]

_BATCH = 4096  # targets of a part without a budget
_FLIGHT, _RESERVE = 3, 1.5  # batches alive at once, and room for larger ones
_LINKED = ("indptr", "indices", "edge_weight", "edge_features", "edge_features_scale")


@dataclass(frozen=True)
class _Sweep:
    """How sweeps are made.

    Attributes:
        scratch: where rows between layers go.
        memory: the budget; None: none.
        storage: as of `Loader`.
        batch_size: targets of a part; None chooses.
        threads: of sampling and gathering.
        options: further arguments of the Loader.
    """

    scratch: Path
    memory: int | None
    storage: Any
    batch_size: int | None
    threads: int
    options: dict[str, Any]


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
    budget = None if memory is None else parse_size(memory)
    sweep = _Sweep(scratch, budget, storage, batch_size, threads, {"norm": norm})
    training = model.training
    model.eval()
    try:
        scratch.mkdir(parents=True)
        with torch.no_grad():
            if steps is None:
                facts = _by_neighbourhoods(model, graph, sweep, int(layers or 0))
            else:
                facts = _by_layers(steps, graph, sweep)
        os.replace(scratch / "scores.npy", out)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise storage_error(error, out, "writing") from error
    finally:
        model.train(training)
        shutil.rmtree(scratch, ignore_errors=True)
    return {"out": str(out), "nodes": graph.num_nodes, **facts}


def _by_layers(steps: list[Step], graph: Graph, sweep: _Sweep) -> dict[str, Any]:
    """One sweep a layer; the rows of a layer are removed once the next has been made."""
    degrees = {norm: whole_degree(graph, norm) for norm in {step.norm for step in steps} if norm}
    if degrees and sweep.options["norm"] is not None:
        raise InputError(
            "norm is 'gcn' and the model normalises by degree itself; make its convolutions with "
            "normalize=False, or leave norm out"
        )
    kept = sum(values.nbytes for values in degrees.values())
    if sweep.memory is not None:
        sweep = replace(sweep, memory=max(1, sweep.memory - kept))
    facts: dict[str, Any] = {"way": "layers", "sweeps": len(steps), "bytes": 0, "written": 0}
    current = graph
    with Progress("inferring", graph.num_nodes * len(steps), "nodes") as bar:
        for number, step in enumerate(steps):
            final = number + 1 == len(steps)
            name = sweep.scratch / ("scores.npy" if final else f"rows-{number}.npy")
            degree = degrees.get(step.norm or "")
            entry = _write(name, _rows_of(step, current, sweep, degree, facts), bar)
            facts["written"] += name.stat().st_size
            if not final:
                before, current = current, _with_rows(graph, name, entry, sweep)
                if before is not graph and before.path is not None:
                    shutil.rmtree(before.path)
    return facts


def _rows_of(
    step: Step, graph: Graph, sweep: _Sweep, degree: Any, facts: dict[str, Any]
) -> Iterator[npt.NDArray[np.float32]]:
    """The next rows of all nodes, in order."""
    if not step.neighbours:
        assert graph.features is not None
        size = sweep.batch_size or _BATCH
        for first in range(0, graph.num_nodes, size):
            ids = np.arange(first, min(first + size, graph.num_nodes))
            batch: Any = _Rows(torch.from_numpy(np.asarray(graph.features[ids], np.float32)))
            yield step.call(batch, None).float().numpy()
        return
    loader = _loader(graph, sweep, [-1])
    try:
        for batch in loader:
            with span("forward"):
                made = step.call(batch, degree)
            yield made.float().numpy()
        facts["bytes"] += reads(loader)["bytes"]
    finally:
        loader.close()


@dataclass(frozen=True)
class _Rows:
    """Of a batch, what steps without neighbours look at."""

    x: torch.Tensor


def _by_neighbourhoods(
    model: nn.Module, graph: Graph, sweep: _Sweep, layers: int
) -> dict[str, Any]:
    """All in-neighbours, `layers` deep, for each part anew."""
    loader = _loader(graph, sweep, [-1] * layers)
    facts: dict[str, Any] = {"way": "neighbourhoods", "sweeps": 1}

    def rows() -> Iterator[npt.NDArray[np.float32]]:
        for batch in loader:
            yield forward(model, batch).float().numpy()

    try:
        with Progress("inferring", graph.num_nodes, "nodes") as bar:
            _write(sweep.scratch / "scores.npy", rows(), bar)
        facts["written"] = (sweep.scratch / "scores.npy").stat().st_size
        facts["bytes"] = reads(loader)["bytes"]
    finally:
        loader.close()
    return facts


def _loader(graph: Graph, sweep: _Sweep, fanouts: list[int]) -> Loader:
    """The loader of a sweep; where the size of parts is free, the largest that was found to fit."""
    if sweep.batch_size is not None:
        return _sized(graph, sweep, fanouts, sweep.batch_size)
    size = _guess(graph, sweep.memory)
    while True:
        try:
            return _sized(graph, sweep, fanouts, size)
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


def _sized(graph: Graph, sweep: _Sweep, fanouts: list[int], size: int) -> Loader:
    return Loader(
        graph,
        None,
        None,
        size,
        sampler=Neighbor(fanouts),
        memory=sweep.memory,
        storage=sweep.storage if sweep.memory is not None else "auto",
        bulk="auto" if sweep.memory is not None else 1,
        threads=sweep.threads,
        labels="seeds",
        edge_attr=graph.edge_features is not None,
        prefetch=1,
        pyg=False,
        **sweep.options,
    )


def _write(path: Path, parts: Iterator[npt.NDArray[np.float32]], bar: Progress) -> dict[str, Any]:
    """Appends the parts to an array file; its entry for a meta.json."""
    writer: ArrayWriter | None = None
    try:
        for rows in parts:
            if not np.isfinite(rows).all():
                raise NumericError(
                    f"rows {0 if writer is None else writer.rows:,} and on are NaN or infinite; "
                    "look at the features of these nodes and at the weights"
                )
            if writer is None:
                writer = ArrayWriter(path, np.float32, rows.shape[1:])
            writer.append(np.ascontiguousarray(rows))
            bar.advance(len(rows))
        if writer is None:
            raise InputError("the graph has no nodes, so there is nothing to infer")
        return writer.close()
    except BaseException:
        if writer is not None:
            writer.abort()
        raise


def _with_rows(graph: Graph, rows: Path, entry: dict[str, Any], sweep: _Sweep) -> Graph:
    """The graph with other feature rows; as a folder of links where a budget is to be kept."""
    from foregather.graph.features import Features

    if sweep.memory is None or graph.path is None:
        return replace(graph, features=Features(map_array(rows)), path=None)
    folder = sweep.scratch / rows.stem
    with FolderWriter(folder) as writer:
        for name in _LINKED:
            old = graph.meta["arrays"].get(name)
            if old is not None:
                _link(graph.path / old["file"], writer.folder / old["file"])
                writer.arrays[name] = dict(old)
        os.replace(rows, writer.folder / "features.npy")
        writer.arrays["features"] = {**entry, "file": "features.npy"}
        writer.finish(graph.num_nodes, graph.num_edges)
    return Graph.open(folder)


def _link(source: Path, target: Path) -> None:
    """A second name of a file; a copy where the disk has no such thing, or is another one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
