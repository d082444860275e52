"""workload: a graph and layers as numbers: widths, costs, weights; and what a rank must hold.

Memory counts what a run allocates, without the graph itself: buffers, what the backward pass keeps,
matrices, weights with their gradients and two moments.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.nn.layer import GraphLayer
from foregather.pipeline.dry_run import Widths, probe
from foregather.pipeline.options import Runtime
from foregather.pipeline.partition.cut import Cut
from foregather.pipeline.partition.way_rows import own_chunks
from foregather.pipeline.passes.segments import (
    StageProgram,
    as_layers,
    shared_layers,
    stage_program,
)
from foregather.pipeline.planning.profile import LayerCost, profile_layers
from foregather.pipeline.planning.schedule import How, Schedule, exact_pass
from foregather.pipeline.setup import exchanged_widths
from foregather.pipeline.split.split import layers_of
from foregather.pipeline.whole.pieces import usual_pieces

__all__ = [
    "Recompute",
    "Setting",
    "Workload",
    "memory_of",
    "rank_memory",
    "split_layers",
    "workload_of",
]


Recompute = Literal["none", "all", "segments", "disk"]


@dataclass(frozen=True, slots=True)
class Workload:
    """What is trained.

    Attributes:
        layers: the layers.
        widths: columns of everything.
        costs: of each layer.
        nodes: N.
        edges: E.
        itemsize: bytes per value of rows.
        wire: bytes per value at a boundary.
        again: whether dense layers that give a skip tensor are rerun on each stage.
    """

    layers: Sequence[GraphLayer]
    widths: Widths
    costs: Sequence[LayerCost]
    nodes: int
    edges: int
    itemsize: int
    wire: int
    again: bool

    @property
    def raw_first(self) -> bool:
        """Whether layer 0 aggregates the graph's own features, which every rank has."""
        return exchanged_widths(self.layers, self.widths)[1] is not None

    def weights(self, numbers: Sequence[int]) -> int:
        """Returns the number of values in the weights of some layers."""
        return sum(p.numel() for n in numbers for p in self.layers[n].parameters())


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to train a model.

    Attributes:
        split: "nodes" or "columns".
        mode: "exact" or "fast".
        stages: S.
        ways: G.
        chunks: K.
        cuts: first layers of all stages, and the number of layers.
        recompute: as in `Runtime`; the last two are for exact epochs of one rank.
        rate: share of boundary rows that ways exchange.
        again: dense layers that give a skip tensor are rerun on each stage; its rows are not sent.
    """

    split: Literal["nodes", "columns"]
    mode: Literal["exact", "fast"]
    stages: int
    ways: int
    chunks: int
    cuts: tuple[int, ...]
    recompute: Recompute = "none"
    rate: float = 1.0
    again: bool = False

    @property
    def scheme(self) -> str:
        """The name of the scheme."""
        if self.split == "columns":
            return "tensor"
        if self.ways > 1:
            one = self.stages == 1 and self.chunks == self.ways
            return "hybrid" if not one else "graph" if self.rate == 1 else "sampled"
        return "pipeline" if self.stages > 1 else "single"

    def program(self, work: Workload, stage: int) -> StageProgram:
        """What a stage does."""
        return stage_program(work.layers, self.cuts, stage, work.again or self.again)

    def schedule(self, work: Workload) -> Schedule:
        """What all ranks do in a steady epoch, with ticks in order."""
        ticks = self.chunks // self.ways
        how: How = "chunkwise"
        if self.mode == "exact":
            how = exact_pass(self.split, self.ways, ticks)
        return Schedule(
            how,
            tuple(self.program(work, stage) for stage in range(self.stages)),
            self.ways,
            self.chunks,
            tuple(range(ticks)),
            recompute=self.recompute == "all",
        )

    def shared(self, work: Workload) -> tuple[int, ...]:
        """Layers whose weights several stages hold."""
        return shared_layers([self.program(work, stage) for stage in range(self.stages)])


def workload_of(
    graph: Graph,
    modules: nn.Module | Sequence[nn.Module],
    runtime: Runtime,
    costs: Sequence[LayerCost] | None = None,
) -> Workload:
    """Describes a graph and layers as numbers; without costs, the layers are profiled here."""
    if graph.features is None:
        raise InputError("the graph has no features, which full-graph training needs")
    layers = as_layers(layers_of(modules, graph, 2))
    weight = next((p for layer in layers for p in layer.parameters()), torch.empty(0))
    widths = probe(layers, graph)
    size = weight.dtype.itemsize
    return Workload(
        layers,
        widths,
        costs or profile_layers(graph, layers, widths),
        graph.num_nodes,
        graph.num_edges,
        size,
        2 if runtime.boundary else size,
        runtime.initial_again,
    )


def split_layers(work: Workload, stages: int) -> tuple[int, ...]:
    """Returns the first layers of all stages that make the slowest one as fast as possible."""
    costs = [
        cost.seconds(work.nodes, work.edges, False) + cost.seconds(work.nodes, work.edges, True)
        for cost in work.costs
    ]
    total = [0.0, *itertools.accumulate(costs)]
    count = len(costs)
    best: list[tuple[float, tuple[int, ...]]] = [(total[n], (0, n)) for n in range(count + 1)]
    for used in range(2, stages + 1):
        following = []
        for n in range(count + 1):
            options = [
                (max(best[m][0], total[n] - total[m]), (*best[m][1], n)) for m in range(used - 1, n)
            ]
            following.append(min(options, default=(float("inf"), (0, n))))
        best = following
    return best[count][1]


def memory_of(work: Workload, setting: Setting, cut: Cut) -> int:
    """Returns the bytes of the rank that needs the most, without the graph itself."""
    return max(
        rank_memory(work, setting, cut, stage, way)
        for stage in range(setting.stages)
        for way in range(setting.ways)
    )


def rank_memory(work: Workload, setting: Setting, cut: Cut, stage: int, way: int) -> int:
    """Returns the bytes of one rank, without the graph itself."""
    if setting.scheme == "single" and setting.mode == "exact":
        return _alone(work, setting, cut)
    program = setting.program(work, stage)
    mine = own_chunks(setting.chunks, way, setting.ways)
    nodes, edges = sum(cut.nodes[c] for c in mine), sum(cut.edges[c] for c in mine)
    columns = setting.split == "columns"
    held = nodes + int(cut.crossing[:, :, way].sum())
    numbers = [*range(program.first, program.last), *program.again]
    aggregating = [n for n in program.aggregating if n or not work.raw_first]
    size = work.itemsize
    total = 4 * size * work.weights(numbers)
    total += _matrices(work.nodes if columns else nodes, work.edges if columns else edges, size)
    kept = [work.costs[n].kept for n in numbers]
    if setting.recompute == "all":  # one tick at a time
        ticks = setting.chunks // setting.ways
        largest = max(cut.nodes[c] for c in mine), max(cut.edges[c] for c in mine)
        layers = 1 if setting.mode == "exact" else len(numbers)
        each = sorted(kn * largest[0] + ke * largest[1] for kn, ke in kept)[-layers:]
        total += int(sum(each)) * (1 if ticks > 1 else max(1, len(numbers) // layers))
    else:
        total += int(sum(kn * nodes + ke * edges for kn, ke in kept))
    if columns:
        widest = max((work.widths.message[n] for n in aggregating), default=0)
        return total + 4 * size * work.nodes * -(-widest // setting.ways)
    total += size * nodes * _kept_input(work, setting, program)
    if setting.mode == "fast" or setting.scheme == "graph":
        buffers = sum(work.widths.message[n] for n in aggregating) * size * held
        return total + buffers * (2 if setting.chunks == setting.ways else 3)
    return total + size * held * _level_columns(work, program, aggregating)


def _alone(work: Workload, setting: Setting, cut: Cut) -> int:
    """Returns the bytes of exact epochs of one rank, which hold rows between layers once."""
    program, size, nodes = setting.program(work, 0), work.itemsize, work.nodes
    entries = work.edges + nodes
    total = 4 * size * work.weights(range(len(work.layers)))
    total += 2 * entries * (4 + size) + 16 * nodes  # lists both ways, with weights
    kept = [int(kn * nodes + ke * work.edges) for kn, ke in (cost.kept for cost in work.costs)]
    read = [work.widths.message[n] for n in program.aggregating]
    widest = max(work.widths.x[1:])
    gradients = widest + 2 * max(read, default=0)  # of rows, of messages and of sums
    skips = 2 * sum(work.widths.skip.values())
    total += size * nodes * (gradients + skips)
    if setting.recompute != "all":
        return total + sum(kept) + size * nodes * work.widths.x[0]
    pieces = usual_pieces(nodes, widest, setting.chunks)
    levels = sum(work.widths.x[n] for n in program.aggregating if n)
    return total + size * nodes * levels + max(kept) // pieces


def _kept_input(work: Workload, setting: Setting, program: StageProgram) -> int:
    """Counts the columns that come into a stage and are kept until the backward pass."""
    if program.first == 0 and setting.mode == "exact" and setting.recompute == "all":
        return 0  # features are read again
    return work.widths.x[program.first] + sum(work.widths.skip[n] for n in program.skips_in)


def _level_columns(work: Workload, program: StageProgram, aggregating: Sequence[int]) -> int:
    """Counts the columns of an exact pass: rows of all levels, gradients of two, and skips."""
    written = {op.layer for ops in program.segments for op in ops if op.kind == "message"}
    levels = [
        work.widths.x[n] + (work.widths.message[n] if n in written else 0) for n in aggregating
    ]
    inside = range(program.first, program.last)
    given = [name for n in inside for name in work.layers[n].given]
    skips = sum(work.widths.skip[name] for name in [*given, *program.skips_in])
    return sum(levels) + sum(sorted(levels)[-2:]) + 2 * skips


def _matrices(nodes: int, edges: int, itemsize: int) -> int:
    """Returns the bytes of a matrix, its transpose, and the local edges they are made from."""
    return 2 * (edges + nodes) * (4 + itemsize) + 24 * edges
