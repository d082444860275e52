"""storage: decides for a Loader with `memory=` what is kept in memory and what is read from disk.

In order: everything in memory, if it fits; else feature rows are read by plan; and where the
topology takes more than half of the budget, neighbour lists too (for samplers that can). Only the
first batches are sampled for that; no feature row is read.
"""

from typing import Literal

from foregather.errors import BudgetError, InputError
from foregather.gather.feature_file import FeatureFile
from foregather.sampling.disk import DiskTopology, reads_by_position
from foregather.train.budget import count_threads, table_bytes
from foregather.train.layout import (
    BatchSize,
    Place,
    divide,
    held_bytes,
    least_bytes,
    topology_bytes,
)
from foregather.train.maker import Maker
from foregather.train.out_of_core import OutOfCore

__all__ = ["Storage", "arrange"]

#: "auto" as above; "memory": nothing is read by plan, the budget covers what is beside the graph;
#: "features": feature rows are; "disk": feature rows and neighbour lists are.
Storage = Literal["auto", "memory", "features", "disk"]

_JUDGED = 3  # first batches that sizes are judged by
_RESERVE = 5 / 4  # later ones may be larger
_SHELF = 9 / 8  # blocks of recycled memory are larger than what lies in them
_TOPOLOGY = 1 / 2  # of the budget, where neighbour lists stay in memory
_LEAST_TOPOLOGY = 1 << 20  # what is tried first, where they are read from disk
_TOPOLOGY_DISK = 1 / 4  # of the budget, where they are read from disk


def arrange(
    maker: Maker, memory: int, bulk: int | None, prefetch: int, storage: Storage
) -> OutOfCore | None:
    """What makes the batches under this budget; None where all of the graph stays in memory.

    Args:
        maker: what batches are made of.
        memory: the budget.
        bulk: batches of a bulk; None chooses.
        prefetch: batches made ahead.
        storage: what the user asked for.

    Raises:
        BudgetError: the budget is below the minimum; the message says it.
        InputError: `storage` asks for what this graph or sampler cannot give.
    """
    graph = maker.graph
    if storage == "memory" or (storage == "auto" and graph.path is None):
        return None
    if graph.path is None:
        raise InputError(
            f"storage is {storage!r}, but the graph is in memory; save it and open the folder"
        )
    if storage != "auto" and graph.features is None and storage == "features":
        raise InputError("storage is 'features', but the graph has none; leave storage out")
    flight = prefetch + 2  # waiting, being made, and in the consumer's hands
    size = None
    if storage == "auto":
        whole = held_bytes(graph)
        if whole < memory:
            size = _judge(maker, None)
            whole += _tables(maker) + flight * size.batch + size.sample * (bulk or 1)
            if whole <= memory:
                return None
    place = _place(maker, memory, storage)
    topology, share = None, _tables(maker)
    if place == "memory":
        share += topology_bytes(graph)
    file = None if graph.features is None else FeatureFile.of(graph)
    geometry = None if file is None else file.geometry()
    if place == "disk":
        topology, size, share = _open_topology(maker, _LEAST_TOPOLOGY)
        left = memory - least_bytes(size, geometry, flight, bulk)
        wanted = min(int(memory * _TOPOLOGY_DISK), left)
        if wanted > share:
            topology.close()
            topology, share = DiskTopology(graph, wanted), wanted
    try:
        size = size or _judge(maker, None)
        layout = divide(
            memory,
            size,
            topology=place,
            topology_share=share,
            geometry=geometry,
            flight=flight,
            batches=len(maker.seeds),
            bulk=bulk,
        )
    except BaseException:
        if topology is not None:
            topology.close()
        raise
    return OutOfCore(layout, topology, file)


def _place(maker: Maker, memory: int, storage: Storage) -> Place:
    """Where neighbour lists are."""
    able = reads_by_position(maker.sampler)
    if storage == "disk" and not able:
        raise InputError(
            f"storage is 'disk', but {type(maker.sampler).__name__} looks at whole neighbour "
            "lists; use storage='features', or a uniform Neighbor"
        )
    held = topology_bytes(maker.graph) + _tables(maker)
    if storage != "disk" and (held <= memory * _TOPOLOGY or storage == "features"):
        return "memory"
    return "disk" if able else "mapped"  # mapped: the kernel keeps what has room


def _open_topology(maker: Maker, share: int) -> tuple[DiskTopology, BatchSize, int]:
    """Opens the topology with `share` bytes, or with the power of two above that is enough."""
    while True:
        try:
            topology = DiskTopology(maker.graph, share)
        except BudgetError:
            share *= 2
            continue
        try:
            return topology, _judge(maker, topology), share
        except BudgetError:
            topology.close()
            share *= 2
        except BaseException:
            topology.close()
            raise


def _tables(maker: Maker) -> int:
    known = table_bytes(maker.sampler, maker.graph)
    each = max(known, 4 * maker.graph.num_nodes)  # a relabelling table a thread
    return each * count_threads(maker.threads)


def _judge(maker: Maker, topology: DiskTopology | None) -> BatchSize:
    """The size of batches, by the first ones of epoch 0; rows are counted, not read."""
    rows = sample = batch = 0
    for number in range(min(_JUDGED, len(maker.seeds))):
        dealt = maker.deal(0, number, 1)
        bulk = maker.sample(dealt, 0, number, topology)
        count = len(bulk[0].node)
        space = maker.assembler.empty_rows(count)
        made = maker.assembler.batch(bulk[0], *dealt[0], space)
        rows, sample = max(rows, count), max(sample, bulk.nbytes)
        batch = max(batch, made.nbytes)
        del bulk, made, space
    return BatchSize(int(rows * _RESERVE), int(sample * _RESERVE), int(batch * _RESERVE * _SHELF))
