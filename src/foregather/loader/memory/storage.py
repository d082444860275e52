"""storage: decides for a Loader with `memory=` what stays in memory and what is read from disk.

If everything fits in memory, it stays there and nothing is read after the first epoch. Otherwise
each mode that fits (feature rows on disk, neighbour lists on disk, both) is planned for some
batches, and the one with the fewest predicted seconds per epoch is chosen: those of sampling and
planning, which are measured, and those of the disk. No feature row is read for that.
"""

import contextlib
from copy import copy
from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import cached_property
from typing import Literal

from foregather.errors import BudgetError, InputError
from foregather.gather.feature_file import FeatureFile
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.batches.edge_rows import edge_share, least_edges
from foregather.loader.disk.out_of_core import OutOfCore
from foregather.loader.disk.predict import EpochCost, predict
from foregather.loader.memory.budget import (
    Budget,
    LoaderNeed,
    choose_bulk,
    count_threads,
    table_bytes,
)
from foregather.loader.memory.division import refusal, reserved
from foregather.loader.memory.layout import (
    BatchSize,
    Place,
    divide,
    held_bytes,
    label_bytes,
    least_bytes,
    topology_bytes,
)
from foregather.sampling.disk import DiskTopology, reads_from_disk
from foregather.sampling.on_disk.disk_habits import tree_bytes
from foregather.sampling.on_disk.list_topology import why_not_lists
from foregather.units import format_bytes

__all__ = ["Storage", "arrange", "fit_bulk"]

#: "auto" as above; "memory": nothing is read from disk, the budget covers what is held in addition
#: to the graph; "features": feature rows are; "topology": neighbour lists are; "disk": both are.
Storage = Literal["auto", "memory", "features", "topology", "disk"]

_JUDGED = 3  # first batches used to estimate sizes
_TOPOLOGY = (
    1 / 2
)  # share of the budget up to which neighbour lists that cannot be planned stay in memory
_PLANNED = 32  # batches used to compare modes,
_PLANNED_ROWS = 4 << 20  # or fewer, up to this many rows
_LEAST_TOPOLOGY = 1 << 20  # tried first, if they are read from disk
_TOPOLOGY_DISK = 1 / 4  # share of the budget, if they are read from disk


def arrange(
    maker: BatchRecipe, memory: int, bulk: int | None, prefetch: int, storage: Storage
) -> OutOfCore | None:
    """Returns the source of batches within this budget; None if the whole graph stays in memory.

    Args:
        maker: what batches are made of.
        memory: the budget.
        bulk: batches per bulk; None chooses.
        prefetch: batches made ahead.
        storage: as requested by the user.

    Raises:
        BudgetError: the budget is below the minimum, which the message states.
        InputError: `storage` is not possible with this graph or sampler.
    """
    graph = maker.graph
    if storage == "memory" or (storage == "auto" and graph.path is None):
        return None
    if graph.path is None:
        raise InputError(
            f"storage is {storage!r}, but the graph is in memory; save it and open the folder"
        )
    if graph.num_nodes == 0:
        return None  # files without rows: there is nothing to read
    if graph.features is None and storage in ("features", "topology"):
        raise InputError(f"storage is {storage!r}, but the graph has no features; leave it out")
    ask = _Ask(maker, memory, bulk, prefetch + 2)  # waiting, being made, and in use
    if storage != "auto":
        return _lay_out(ask, storage)
    if _fits_whole(ask):
        return None
    try:
        if graph.features is None or not _able(maker):
            return _lay_out(ask, "auto")  # there is only one mode, or none that can be predicted
        return _cheapest(ask)
    except BudgetError as error:
        raise _smaller(ask, error) from None


def _smaller(ask: "_Ask", error: BudgetError) -> BudgetError:
    """The refusal with the smaller minimum: reading from disk, or having all in memory."""
    whole = _whole_bytes(ask)
    if error.least is not None and error.least <= whole:
        return error
    return refusal(
        f"memory is {format_bytes(ask.memory)} ({ask.memory} bytes), but this graph, which needs "
        f"less in memory than reading it from disk would, needs {format_bytes(whole)} ({whole} "
        "bytes); give more, or a smaller batch_size, fan-out, bulk or prefetch",
        whole,
    )


@dataclass(frozen=True)
class _Ask:
    """The request to arrange."""

    maker: BatchRecipe
    memory: int
    bulk: int | None
    flight: int

    @cached_property
    def in_memory(self) -> tuple[BatchSize, int]:
        """The size of batches that are sampled in memory, and bytes of the sampler's tables.

        Both are judged by a sampler of its own with one thread: what the given one sampled before,
        and with how many, must not change the minimum that is announced.
        """
        maker = _alone(self.maker)
        size = _judge(maker, None)
        each = max(table_bytes(maker.sampler, maker.graph), 4 * maker.graph.num_nodes)
        return size, each * count_threads(self.maker.threads)  # relabelling is part of `each`


def _alone(maker: BatchRecipe) -> BatchRecipe:
    """The same recipe with a sampler that has sampled nothing, and one thread."""
    return replaced(maker, sampler=copy(maker.sampler), threads=1)


def _fits_whole(ask: _Ask) -> bool:
    held = held_bytes(ask.maker.graph, ask.maker.assembler.edge_attr)
    return held < ask.memory and _whole_bytes(ask) <= ask.memory


def _whole_bytes(ask: _Ask) -> int:
    """Bytes of the whole graph in memory, and of what sampling it needs."""
    (size, tables), maker = ask.in_memory, ask.maker
    bulk = min(ask.bulk or 1, max(1, len(maker.seeds)))
    held = held_bytes(maker.graph, maker.assembler.edge_attr)
    return held + tables + ask.flight * size.batch + size.sample * bulk


def _cheapest(ask: _Ask) -> OutOfCore:
    """Returns the mode with the fewest predicted seconds.

    On ties, the one with fewer parts on disk.
    """
    ways: tuple[Storage, ...] = ("features", "topology", "disk")
    made: dict[str, OutOfCore] = {}
    refused: list[BudgetError] = []
    for storage in ways:
        try:
            made[storage] = _lay_out(ask, storage)
        except BudgetError as error:
            refused.append(error)
    if not made:
        raise min(refused, key=lambda error: error.least or float("inf"))
    costs: dict[str, EpochCost] = {}
    if len(made) > 1:
        rows = max(1, *(one.layout.rows for one in made.values()))
        count = max(2, min(_PLANNED, _PLANNED_ROWS // rows))
        costs = {storage: predict(one, ask.maker, count) for storage, one in made.items()}
    chosen = min(made, key=lambda storage: costs[storage].seconds if costs else 0.0)
    for name, one in made.items():
        if name != chosen and one.topology is not None:
            one.topology.close()
    made[chosen].considered = costs
    return made[chosen]


def _lay_out(ask: _Ask, storage: Storage) -> OutOfCore:
    """Lays out one mode within the budget."""
    place = _place(ask, storage)
    if place == "memory" and storage == "auto":
        with contextlib.suppress(BudgetError):  # the other place needs less: that is the minimum
            return _lay_out_at(ask, storage, place)
        place = "disk" if _able(ask.maker) else "mapped"
    return _lay_out_at(ask, storage, place)


def _lay_out_at(ask: _Ask, storage: Storage, place: Place) -> OutOfCore:
    """Lays out one mode with the neighbour lists in their place."""
    maker, memory, graph = ask.maker, ask.memory, ask.maker.graph
    topology: DiskTopology | None = None
    size: BatchSize | None = None
    share = 0
    if place != "disk":
        size, share = ask.in_memory
    if place == "memory":
        share += topology_bytes(graph)
    held = graph.features.nbytes if graph.features and storage == "topology" else 0
    edges = least_edges(graph) if maker.assembler.edge_attr else 0
    nodes = label_bytes(graph)
    if place == "disk" and maker.assembler.norm is not None:
        nodes += int(graph.indptr.nbytes)
    file = None if graph.features is None or held else FeatureFile.of(graph)
    geometry = None if file is None else file.geometry()
    checks = 0 if file is None else file.sums_bytes + file.places_bytes
    others = held + checks + edges + nodes
    if place == "disk":
        topology, size, share = _open_topology(maker, _LEAST_TOPOLOGY)
        left = memory - others - least_bytes(size, geometry, ask.flight, ask.bulk)
        # at most half of what is free beyond the minimum: rows and reading ahead need the rest
        wanted = min(int(memory * _TOPOLOGY_DISK), share + (left - share) // 2)
        if storage == "topology":
            wanted = min(left, topology_bytes(graph))  # nothing else needs it
        if wanted > share:
            topology.close()
            topology, share = DiskTopology(graph, wanted), wanted
    try:
        assert size is not None
        room = memory - share - others
        room -= least_bytes(size, geometry, ask.flight, ask.bulk)
        if edges and room > 0:
            edges = edge_share(graph, memory, room)
        layout = divide(
            memory,
            size,
            topology=place,
            topology_share=share,
            geometry=geometry,
            flight=ask.flight,
            batches=len(maker.seeds),
            bulk=ask.bulk,
            features_share=held,
            checks_share=checks,
            edges_share=edges,
            nodes_share=nodes,
        )
    except BaseException:
        if topology is not None:
            topology.close()
        raise
    return OutOfCore(layout, topology, file)


def _place(ask: _Ask, storage: Storage) -> Place:
    """Where neighbour lists are, if there is room."""
    maker, able = ask.maker, _able(ask.maker)
    if storage in ("topology", "disk") and not able:
        raise InputError(
            f"storage is {storage!r}, but {why_not_lists(maker.sampler, maker.leaves_out)}; use "
            "storage='features', or another sampler"
        )
    if storage == "features":
        return "memory"
    if storage == "auto":
        held = topology_bytes(maker.graph) + ask.in_memory[1]
        if held <= ask.memory * _TOPOLOGY:
            return "memory"
    return "disk" if able else "mapped"  # mapped: the kernel keeps what fits


def _able(maker: BatchRecipe) -> bool:
    """Whether batches can be sampled from neighbour lists on disk."""
    return reads_from_disk(maker.sampler, maker.leaves_out)


def _open_topology(maker: BatchRecipe, share: int) -> tuple[DiskTopology, BatchSize, int]:
    """Opens the topology with `share` bytes, or with the next power of two that suffices."""
    while True:
        try:
            topology = DiskTopology(maker.graph, share)
        except BudgetError:
            share *= 2
            continue
        try:
            return topology, _judge(_alone(maker), topology), share
        except BudgetError:
            topology.close()
            share *= 2
        except BaseException:
            topology.close()
            raise


def _judge(maker: BatchRecipe, topology: DiskTopology | None) -> BatchSize:
    """Estimates the size of batches from the first ones of epoch 0; rows are counted, not read."""
    rows = sample = batch = 0
    for number in range(min(_JUDGED, len(maker.seeds))):
        dealt = maker.deal(0, number, 1)
        bulk = maker.sample(dealt, 0, number, topology)
        count = len(bulk[0].node)
        space = maker.assembler.space(bulk[0])
        edges = maker.assembler.empty_edges(len(bulk[0].edge))
        made = maker.assembler.batch(bulk[0], *dealt[0], space, edges)
        beside = 0 if topology is None else tree_bytes(bulk)
        rows, sample = max(rows, count), max(sample, bulk.nbytes + beside)
        batch = max(batch, made.nbytes)
        del bulk, made, space, edges
    most = reserved(rows)
    scratch = maker.assembler.scratch_bytes(most, maker.disjoint)
    return BatchSize(most, reserved(sample), reserved(batch, pooled=True), scratch)


def fit_bulk(
    maker: BatchRecipe, memory: int, asked: int | None, prefetch: int, steps: int, default: int
) -> tuple[BatchRecipe, int]:
    """Returns the recipe with a budget for everything but the graph, and the bulk that fits it.

    Args:
        maker: what batches are made of.
        memory: the budget.
        asked: batches per bulk; None chooses.
        prefetch: batches made ahead.
        steps: batches per epoch; the need is estimated from the first ones of epoch 0.
        default: batches per bulk if there is nothing to measure.

    Raises:
        BudgetError: the budget is below the minimum, which the message states.
    """
    samples, batches = [], []
    alone = _alone(maker)  # its sampler has sampled nothing: its tables are those of one thread
    for number in range(min(_JUDGED, steps)):
        dealt = maker.deal(0, number, 1)
        sampled = alone.sample(dealt, 0, number)
        samples.append(sampled.nbytes)
        batches.append(maker.assembler.batch(sampled[0], *dealt[0]).nbytes)
        del sampled
    if not batches:
        return maker, default
    tables = table_bytes(alone.sampler, maker.graph) * count_threads(maker.threads)
    need = LoaderNeed.judged(tables, samples, batches, prefetch)
    bulk = choose_bulk(need, memory, asked, steps)
    return replaced(maker, budget=Budget(memory, need)), bulk
