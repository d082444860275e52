"""epochs: how long is an epoch with the model's own steps, from memory and from disk?

The same unmodified model of PyG on both sides, from the same weights, with the same optimiser,
input nodes, fan-outs and batch size. PyG's loader has as many workers as were fastest in two
epochs with the trimmed model. Losses of ours are those of the same batches, so trimmed and
accelerated must agree.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from foregather import BatchContents, BudgetError, Loader
from foregather.units import format_bytes

from .found import Peers
from .graphs import Case
from .loading import WORKERS, as_data, pyg_loader
from .mapped import MappedPyG
from .models import SETTINGS, Dense, Setting, Trainer, can_accelerate, input_nodes
from .rounds import Bar, Cell, Row, Turn, Work, compare, take_turns

__all__ = ["measure_disk", "measure_epoch"]

ACCELERATED, TRIMMED = "foregather, accelerated", "foregather, trimmed"
SHARE = 10  # from disk: one in this number of feature rows fits in the cache


def contents_of(setting: Setting) -> BatchContents:
    """A GCN has the weights of its edges from the Loader."""
    return BatchContents(norm="gcn" if setting.kind == "GCN" else None)


def our_works(
    case: Case, setting: Setting, columns: int, notes: dict[str, str], **more: Any
) -> dict[str, Work]:
    """Ours with the trimmed model and, where there is one, with the accelerated one.

    A model that cannot be accelerated runs plain; the reason becomes its note.
    """
    nodes, size = input_nodes(case, setting)
    graph = case.on_disk if more else case.graph

    def loader() -> Loader:
        held = contents_of(setting)
        fanouts = list(setting.fanouts)
        return Loader(graph, fanouts, nodes, size, shuffle=True, contents=held, **more)

    works = {TRIMMED: Trainer(setting, columns, "trimmed").on(loader())}
    if can_accelerate():
        trainer = Trainer(setting, columns, "accelerated")
        epoch = trainer.on(loader())

        def turn(number: int) -> Turn:
            made = epoch(number)
            if (why := trainer.why_plain()) is not None:
                notes[ACCELERATED] = f"left plain: {why}"
            return made

        works[ACCELERATED] = turn
    return works


def best_workers(works: dict[int, Work]) -> tuple[int, str]:
    """The number of workers of the fastest epoch, and what was tried."""
    found = take_turns({str(count): work for count, work in works.items()}, 1)
    costs = {int(name): turns[0].seconds for name, turns in found.items()}
    best = min(costs, key=lambda count: costs[count])
    tried = ", ".join(f"{count}: {costs[count]:.3g} s" for count in costs)
    return best, f"{best} workers, of {tried}"


def bars_of(setting: Setting, dense: bool = False) -> list[Bar]:
    bars = [Bar("PyG, plain", setting.plain), Bar("PyG, trimmed", setting.trimmed)]
    return [*bars, Bar("dense products", 1.3, "most")] if dense else bars


def measure_epoch(
    case: Case, peers: Peers, rounds: int, settings: Sequence[Setting] = SETTINGS
) -> list[Row]:
    """A cell a model, from memory."""
    torch.set_num_threads(2)
    rows: list[Row] = []
    for setting in settings:
        assert case.graph.features is not None
        columns = case.graph.features.width
        notes: dict[str, str] = {}
        works = our_works(case, setting, columns, notes)
        if peers.neighbor_loader:
            data = as_data(case, weight=setting.kind == "GCN")
            nodes, size = input_nodes(case, setting)
            loaders = {k: pyg_loader(data, list(setting.fanouts), nodes, size, k) for k in WORKERS}
            probe = {k: Trainer(setting, columns, "trimmed").on(one) for k, one in loaders.items()}
            count, note = best_workers(probe)
            loader = loaders[count]
            del loaders, probe
            for way in ("plain", "trimmed"):
                works[f"PyG, {way}"] = Trainer(setting, columns, way).on(loader)
                notes[f"PyG, {way}"] = note
        works |= dgl_epoch(case, peers, setting)
        if setting.dense:
            counted = Trainer(setting, columns, "trimmed")
            counted.on(Loader(case.graph, list(setting.fanouts), *input_nodes(case, setting)))(0)
            works["dense products alone"] = Dense(setting, columns, counted)
        rows += finish(
            "epoch", case, setting, works, bars_of(setting, setting.dense), notes, rounds
        )
    return rows


def finish(
    what: str, case: Case, setting: Setting, works: dict[str, Work], bars: list[Bar],
    notes: dict[str, str], rounds: int,
) -> list[Row]:  # fmt: skip
    ours = ACCELERATED if ACCELERATED in works else TRIMMED
    cell = Cell(what, f"{case.name}, {setting.title}", ours, works, bars, notes=notes)
    return compare(cell, rounds)


def dgl_epoch(case: Case, peers: Peers, setting: Setting) -> dict[str, Work]:
    """DGL's own convolutions of the kind; its blocks are bipartite as they come."""
    process = peers.dgl.get(2)
    if process is None:
        return {}
    nodes, size = input_nodes(case, setting)
    path = case.folder / f"seeds_epoch_{setting.batches}_{size}.npy"
    np.save(path, nodes.numpy().reshape(-1, size))
    works = {}
    for workers in (0, 2):
        name = f"DGL, its own {setting.kind}, {workers} workers"
        works[name] = process.work(
            f"epoch {case.name} {setting.title} {workers}",
            "epoch",
            system="dgl",
            ids="int64",
            workers=workers,
            folder=str(case.folder),
            seeds=str(path),
            fanouts=list(setting.fanouts),
            hidden=setting.hidden,
            model=setting.kind,
        )
    return works


def least_memory(case: Case, setting: Setting) -> int:
    """The smallest budget that our Loader takes for features from disk."""
    nodes, size = input_nodes(case, setting)
    try:
        Loader(
            case.on_disk,
            list(setting.fanouts),
            nodes,
            size,
            contents=contents_of(setting),
            memory="1MB",
            storage="features",
        )
    except BudgetError as error:
        assert error.least is not None, error
        return error.least
    return 1_000_000


def measure_disk(
    case: Case, peers: Peers, rounds: int, settings: Sequence[Setting] = SETTINGS
) -> list[Row]:
    """A cell a model, feature rows from disk; PyG reads them through a map of the same size."""
    torch.set_num_threads(2)
    rows: list[Row] = []
    for setting in settings:
        features = case.graph.features
        assert features is not None
        share = features.nbytes // SHARE
        memory = least_memory(case, setting) + share
        notes: dict[str, str] = {}
        budget = {"memory": memory, "storage": "features"}
        works = our_works(case, setting, features.width, notes, **budget)
        notes |= dict.fromkeys(works, f"memory {format_bytes(memory)}")
        if peers.neighbor_loader:
            with MappedPyG(case, setting, share) as mapped:
                works |= mapped.works
                notes |= dict.fromkeys(mapped.works, mapped.note)
                rows += finish("from disk", case, setting, works, bars_of(setting), notes, rounds)
        else:
            rows += finish("from disk", case, setting, works, [], notes, rounds)
    return rows
