"""schemes: ways of two ranks to train the same layers, run by real ranks and simulated."""

import os
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist

from foregather import Graph
from foregather.nn import resgcn_layers
from foregather.pipeline import FullGraph, Line, Runtime, make_chunks
from foregather.pipeline.partition.cut import measure_cut
from foregather.pipeline.planning.measured_line import measure_costs
from foregather.pipeline.planning.programs import rank_programs
from foregather.pipeline.planning.simulate import Timeline, simulate
from foregather.pipeline.planning.workload import Setting, Workload, split_layers, workload_of

__all__ = [
    "Scheme",
    "block_graph",
    "deep_layers",
    "make_run",
    "model_run",
    "pin",
    "profile",
    "sent_bytes",
    "take_turns",
    "timed",
]

WIDTH, CLASSES = 64, 40


@dataclass(frozen=True)
class Scheme:
    """One way to train."""

    split: Literal["nodes", "columns"]
    mode: Literal["exact", "fast"]
    stages: int
    ways: int
    chunks: int

    def setting(self, work: Workload) -> Setting:
        """The same for the planner, its layers split evenly by time."""
        cuts = split_layers(work, self.stages)
        return Setting(self.split, self.mode, self.stages, self.ways, self.chunks, cuts)

    @property
    def name(self) -> str:
        """For people."""
        if self.split == "columns":
            return "tensor-parallel"
        if self.ways > 1:
            return "graph-parallel" if self.stages == 1 and self.chunks == self.ways else "hybrid"
        return f"pipeline, {self.mode}"


def block_graph(nodes: int, degree: int, inside: float, blocks: int = 64) -> Graph:
    """A random graph whose edges stay in a block of near numbers with probability `inside`.

    So blocks of numbers ("natural" chunks) are as good as a partitioner could make them.
    """
    rng = np.random.default_rng(0)
    edges, size = nodes * degree // 2, nodes // blocks
    one = rng.integers(0, nodes, edges)
    near = one // size * size + rng.integers(0, size, edges)
    other = np.where(
        rng.random(edges) < inside, np.minimum(near, nodes - 1), rng.integers(0, nodes, edges)
    )
    return Graph.from_edge_index(
        np.stack([one, other]),
        nodes,
        x=rng.random((nodes, WIDTH), np.float32),
        y=rng.integers(0, CLASSES, nodes),
        splits={"train": np.arange(0, nodes, 2)},
        undirected=True,
    )


def deep_layers(depth: int) -> list[torch.nn.Module]:
    """ResGCN+ of some depth, from the same weights always."""
    torch.manual_seed(0)
    return [*resgcn_layers(WIDTH, WIDTH, CLASSES, depth, dropout=0.5)]


def pin(rank: int, ranks: int = 1) -> None:
    """This process on a core of its own, with one thread; more ranks than cores share all cores."""
    cores = sorted(os.sched_getaffinity(0))
    if ranks <= len(cores):
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)


def profile(graph: Graph, depth: int) -> Workload:
    """What layers cost while all ranks compute; the same for all."""
    layers = deep_layers(depth)
    return workload_of(graph, layers, Runtime(), measure_costs(graph, layers))


def make_run(graph: Graph, scheme: Scheme, depth: int, work: Workload) -> FullGraph:
    """Ready to train; all ranks call it."""
    cuts = scheme.setting(work).cuts
    runtime = Runtime(ways=scheme.ways, split=scheme.split, cuts=list(cuts[1:-1]))
    return FullGraph(
        graph, deep_layers(depth), scheme.chunks, scheme.mode, partition="natural", runtime=runtime
    )


def model_run(graph: Graph, scheme: Scheme, work: Workload, line: Line) -> Timeline:
    """The simulated epoch of a scheme."""
    chunks = make_chunks(graph, scheme.chunks, "natural", 0, scheme.ways)
    cut = measure_cut(graph, chunks, scheme.ways)
    return simulate(rank_programs(work, scheme.setting(work), cut), line)


def sent_bytes(run: FullGraph) -> int:
    """Bytes that all ranks sent in the last epoch, without agreements."""
    sent = run.reports[-1].sent
    own = sum(size for purpose, size in sent.items() if purpose not in ("control", "state"))
    total = torch.tensor([own], dtype=torch.int64)
    dist.all_reduce(total)
    return int(total)


def take_turns(runs: dict[Scheme, FullGraph], repeats: int) -> dict[Scheme, list[float]]:
    """Seconds of epochs on the slowest rank; the runs take turns, after a first epoch of each."""
    return {scheme: [one[0] for one in found] for scheme, found in timed(runs, repeats).items()}


def timed(runs: dict[Scheme, FullGraph], repeats: int) -> dict[Scheme, list[tuple[float, float]]]:
    """The same with the bubble: the share of the ranks' time in which their thread did nothing.

    Processor time of the thread that computes is what is not the bubble; it packs rows and starts
    messages too, and threads of the transport are not counted.
    """
    for run in runs.values():
        run.train_epoch()
    found: dict[Scheme, list[tuple[float, float]]] = {scheme: [] for scheme in runs}
    for _ in range(repeats):
        for scheme, run in runs.items():
            dist.barrier()
            begin = time.thread_time()
            seconds = torch.tensor([run.train_epoch().seconds], dtype=torch.float64)
            busy = torch.tensor([time.thread_time() - begin], dtype=torch.float64)
            dist.all_reduce(seconds, dist.ReduceOp.MAX)
            dist.all_reduce(busy)
            whole = float(seconds) * dist.get_world_size()
            found[scheme].append((float(seconds), 1 - float(busy) / whole))
    return found
