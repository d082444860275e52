"""setup: makes the stage of this rank from a graph and layers, after checking everything."""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.nn.layer import GraphLayer
from foregather.pipeline.dry_run import Widths, probe
from foregather.pipeline.options import Mode, Runtime
from foregather.pipeline.partition.chunk_topology import ChunkTopology
from foregather.pipeline.partition.chunks import Chunks, check_count, make_chunks
from foregather.pipeline.partition.way_rows import Reach, own_chunks
from foregather.pipeline.passes.link import Link
from foregather.pipeline.passes.loss import Loss, default_loss, own_loss
from foregather.pipeline.passes.segments import (
    check_cuts,
    cut_layers,
    shared_statistics,
    stage_program,
)
from foregather.pipeline.passes.stage import FeatureTable, Stage, Targets
from foregather.pipeline.passes.tensor_parallel import only_sums, whole_topology
from foregather.pipeline.split.layers import SplitLayer
from foregather.units import format_number

__all__ = ["check_same_count", "make_link", "make_stage", "shared_chunks"]


def make_link(runtime: Runtime) -> Link:
    """Returns the link of this rank; there is one stage if torch.distributed is not in use."""
    if not (dist.is_available() and dist.is_initialized()):
        return _alone(runtime)
    # all messages are between pairs, with their own timeouts, so the given group is used as it is
    group = runtime.group or dist.group.WORLD
    ranks = dist.get_process_group_ranks(group)
    if dist.get_rank() not in ranks:
        raise InputError(f"rank {dist.get_rank()} is not in the group of ranks {ranks}")
    if len(ranks) == 1:
        return _alone(runtime)
    if len(ranks) % runtime.ways:
        raise InputError(
            f"there are {len(ranks)} ranks, but {runtime.ways} ways per stage; "
            "start a number of ranks that is a multiple of the ways"
        )
    stage, way = divmod(ranks.index(dist.get_rank()), runtime.ways)
    stages = len(ranks) // runtime.ways
    return Link(stage, stages, runtime.timeout, group, way, runtime.ways)


def _alone(runtime: Runtime) -> Link:
    if runtime.ways != 1:
        raise InputError(
            f"ways is {runtime.ways} but there is one rank; start more with torchrun, or set "
            "abreast for the same result on one rank"
        )
    return Link(0, 1, runtime.timeout, None)


def check_same_count(link: Link, count: int) -> None:
    """Checks that all ranks have the same number of chunks, before anything depends on it.

    A rank with one chunk would not split its model, and be told of too few layers.

    Raises:
        InputError: on all ranks, if any of them differs.
    """
    least, most = link.agree(
        torch.tensor([count, count], dtype=torch.float64),
        lambda a, b: torch.stack([torch.minimum(a[0], b[0]), torch.maximum(a[1], b[1])]),
    ).tolist()
    if least != most:
        raise InputError(
            f"chunks is {least:.0f} on one rank and {most:.0f} on another, but should be the same; "
            "start the same script with the same arguments on all ranks"
        )


def shared_chunks(
    graph: Graph, count: int, partition: Any, seed: int, abreast: int, link: Link
) -> Chunks:
    """Returns the chunks, which the first rank cuts and passes down the chain to all ranks.

    Raises:
        InputError: fewer ticks than stages, or a bad argument of `make_chunks`.
    """
    if abreast < 1 or abreast % link.ways:
        raise InputError(
            f"abreast is {abreast} chunks in {link.ways} ways, expected a multiple of the ways"
        )
    if count // abreast < link.stages:
        raise InputError(
            f"chunks is {count}, {abreast} abreast, but there are {link.stages} stages; one would "
            f"always wait, so use at least {abreast * link.stages} chunks"
        )
    if link.peers == 1:
        return make_chunks(graph, count, partition, seed, abreast)
    check_count(graph, count, abreast)  # on all ranks, because only the first one cuts
    parts = torch.empty(graph.num_nodes, dtype=torch.int64)
    chunks = None
    if link.own == 0:
        chunks = make_chunks(graph, count, partition, seed, abreast)
        parts = torch.from_numpy(chunks.chunk_of(chunks.number))
    else:
        parts = link.receive(link.own - 1, parts, "state")
    if link.own + 1 < link.peers:
        link.send(link.own + 1, parts, "state")
        link.flush()
    return chunks or make_chunks(graph, count, parts.numpy(), seed, abreast)


def check_same(link: Link, *facts: object) -> None:
    """Checks that all ranks were given the same; else they would wait for rows that never come.

    Raises:
        InputError: on all ranks, if any of them differs.
    """
    code = zlib.crc32(repr(facts).encode())
    own = torch.tensor([code, code], dtype=torch.float64)

    def extremes(a: Tensor, b: Tensor) -> Tensor:
        return torch.stack([torch.minimum(a[0], b[0]), torch.maximum(a[1], b[1])])

    low, high = link.agree(own, extremes).tolist()
    if low != high:
        raise InputError(
            "ranks were given different graphs, layers or options; "
            "start the same script with the same arguments on all ranks"
        )


def make_stage(
    graph: Graph,
    layers: Sequence[GraphLayer],
    chunks: Chunks,
    split: str,
    loss: Loss | None,
    seed: int,
    mode: Mode,
    runtime: Runtime,
    link: Link,
) -> Stage:
    """Makes the stage of this rank.

    Raises:
        InputError: see `FullGraph`.
    """
    if graph.features is None or graph.labels is None:
        missing = "features" if graph.features is None else "labels"
        raise InputError(f"the graph has no {missing}, which full-graph training needs")
    weight = next((p for layer in layers for p in layer.parameters()), torch.empty(0))
    mine = own_chunks(len(chunks), link.way, link.ways)
    place = ChunkTopology(graph, chunks, weight.dtype, weight.device, mine)
    again = mode != "exact" or runtime.recompute != "none" or runtime.memory is not None
    widths = probe(layers, graph, len(chunks), again)
    cuts = cut_layers(layers, link.stages)
    if runtime.cuts is not None:
        cuts = check_cuts(runtime.cuts, len(layers), link.stages)
    if (norm := shared_statistics(layers, cuts)) is not None:
        raise InputError(
            f"the norm {norm!r} is used in several of the {link.stages} stages, and each would "
            "move its running statistics by its own calls alone; start fewer stages with "
            "Runtime(ways=...), cut elsewhere with Runtime(cuts=...), or use a norm for each place"
        )
    same = (runtime.boundary, runtime.boundary_rate, runtime.initial_again, runtime.split)
    check_same(link, graph.num_nodes, graph.num_edges, widths, cuts, same, split, seed, mode)
    _check_boundary_rate(runtime, link, chunks, layers, widths)
    for number in range(cuts[link.stage], cuts[link.stage + 1]):
        if isinstance(layer := layers[number], SplitLayer):
            layer.prepare(place, mine)
    rerun = runtime.initial_again
    return Stage(
        layers,
        tuple(stage_program(layers, cuts, s, rerun) for s in range(link.stages)),
        place,
        Reach(place, link.way, link.ways),
        FeatureTable(graph.features, chunks, place.dtype, place.device),
        _targets(graph, chunks, split, loss, place),
        widths,
        link,
        runtime,
        seed,
        whole_topology(place) if _columns(runtime, link, chunks) else None,
    )


def _check_boundary_rate(
    runtime: Runtime, link: Link, chunks: Chunks, layers: Sequence[GraphLayer], widths: Widths
) -> None:
    """Refuses to leave out boundary rows where sums would not be right on average.

    Raises:
        InputError: not graph-parallel, or layers that do more than sum over in-neighbours.
    """
    if runtime.boundary_rate == 1:
        return
    told = f"boundary_rate is {runtime.boundary_rate:g}"
    if link.ways == 1 or chunks.ticks > 1 or runtime.split == "columns":
        raise InputError(
            f"{told} with {format_number(link.stages, 'stage')}, {format_number(link.ways, 'way')} "
            f"and {format_number(len(chunks), 'chunk')}, split by {runtime.split}, expected "
            "graph-parallel ranks: as many ways and chunks as ranks, split by nodes"
        )
    if not only_sums(layers, widths):
        raise InputError(
            f"{told}, but a layer reads rows of in-neighbours one by one, and rows that are left "
            "out would count as zeros; set it to 1, or use layers that only call near.aggregate"
        )


def _columns(runtime: Runtime, link: Link, chunks: Chunks) -> bool:
    """Whether columns are divided among ways."""
    if runtime.split != "columns":
        return False
    if link.stages > 1 or len(chunks) != link.ways:
        raise InputError(
            f"split is 'columns' with {format_number(link.stages, 'stage')} and "
            f"{format_number(len(chunks), 'chunk')}, expected one stage and one chunk per rank: as "
            "many ways and chunks as ranks"
        )
    return True


def exchanged_widths(layers: Sequence[GraphLayer], widths: Widths) -> tuple[list[int], int | None]:
    """Returns the columns of the messages that ways exchange.

    And those of the graph's own features, if the first layer aggregates them.
    """
    raw = layers[0].aggregates and type(layers[0]).message is GraphLayer.message
    messages = [widths.message[n] for n, layer in enumerate(layers) if layer.aggregates]
    return (messages[1:], messages[0]) if raw else (messages, None)


def _targets(
    graph: Graph, chunks: Chunks, split: str, loss: Loss | None, place: ChunkTopology
) -> Targets:
    assert graph.labels is not None
    train = np.zeros(graph.num_nodes, np.bool_)
    train[graph.split(split)] = True
    given = graph.labels
    known = ~np.isnan(given) if given.dtype.kind == "f" else given != -1
    train &= known if known.ndim == 1 else known.any(axis=1)
    if not train.any():
        raise InputError(f"split {split!r} has no labelled node, so there is nothing to learn")
    rows, labels = [], []
    for chunk in range(len(chunks)):
        nodes = chunks.order[chunks.span(chunk)]
        mine = np.flatnonzero(train[nodes])
        rows.append(torch.from_numpy(mine).to(place.device))
        labels.append(torch.from_numpy(np.array(graph.labels[nodes[mine]])).to(place.device))
    return Targets(
        rows, labels, int(train.sum()), own_loss(loss) if loss else default_loss(labels[0])
    )
