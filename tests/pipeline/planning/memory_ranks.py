"""Bytes that a run really makes, counted at torch's allocator, alone and as two real ranks."""

import os
import traceback
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from foregather import Graph
from foregather.nn import gcnii_layers, resgcn_layers, sage_layers
from foregather.pipeline import FullGraph, Runtime, make_chunks
from foregather.pipeline.partition.cut import measure_cut
from foregather.pipeline.passes.segments import cut_layers
from foregather.pipeline.planning.workload import Setting, rank_memory, workload_of
from tests.pipeline.ranks import start

NODES, EDGES, WIDTH, CLASSES, DEPTH = 3000, 24_000, 48, 10, 6
MODELS: dict[str, Callable[[float], list[Any]]] = {
    "gcnii": lambda drop: gcnii_layers(WIDTH, WIDTH, CLASSES, DEPTH, dropout=drop),
    "resgcn": lambda drop: resgcn_layers(WIDTH, WIDTH, CLASSES, DEPTH, drop),
    "sage": lambda drop: sage_layers([WIDTH] * DEPTH + [CLASSES], drop),
}
#: of two ranks: (split, mode, stages, ways, chunks)
SHARED = [
    ("nodes", "fast", 2, 1, 8),
    ("nodes", "exact", 2, 1, 8),
    ("nodes", "fast", 1, 2, 8),
    ("nodes", "exact", 1, 2, 2),
    ("columns", "exact", 1, 2, 2),
]


def even_graph(nodes: int = NODES, edges: int = EDGES) -> Graph:
    """Random edges between near numbers, so that blocks of numbers are fair chunks."""
    rng = np.random.default_rng(0)
    target = rng.integers(0, nodes, edges)
    source = (target + rng.integers(-20, 21, edges)) % nodes
    return Graph.from_edge_index(
        np.stack([source, target]),
        nodes,
        x=rng.random((nodes, WIDTH), np.float32),
        y=rng.integers(0, CLASSES, nodes),
        splits={"train": np.arange(0, nodes, 2)},
    )


def compare(
    name: str,
    drop: float,
    split: Any,
    mode: Any,
    stages: int,
    ways: int,
    chunks: int,
    recompute: Any = "none",
) -> tuple[int, int]:
    """What the formula says for this rank, and the most bytes there were at once."""
    graph, layers = even_graph(), MODELS[name](drop)
    made = make_chunks(graph, chunks, "natural", 0, ways)
    cuts = tuple(cut_layers(layers, stages))
    setting = Setting(split, mode, stages, ways, chunks, cuts, recompute)
    rank = dist.get_rank() if stages * ways > 1 else 0
    work, cut = workload_of(graph, layers, Runtime()), measure_cut(graph, made, ways)
    told = rank_memory(work, setting, cut, rank // ways, rank % ways)
    runtime = Runtime(recompute=recompute, ways=ways, split=split)
    tracemalloc.start()
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            run = FullGraph(graph, layers, chunks, mode, partition="natural", runtime=runtime)
            run.fit(2)
        arrays = bytes_of_arrays()  # edges and indices are numpy's
    finally:
        tracemalloc.stop()
    return told, most_bytes(seen) + arrays


def bytes_of_arrays() -> int:
    """Bytes of numpy's arrays; other objects, such as a profiler's events, are not the run's."""
    only = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([only]).traces)


def most_bytes(seen: profile) -> int:
    """The largest sum of bytes taken and not given back."""
    assert seen.profiler is not None and seen.profiler.kineto_results is not None
    found: Any = seen.profiler.kineto_results
    events = [e for e in found.events() if e.name() == "[memory]"]
    sizes = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
    return int(np.cumsum(sizes).max())


def warm_up() -> None:
    """What torch and numpy load once is there afterwards."""
    graph, layers = even_graph(40, 100), MODELS["sage"](0.5)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True):
        FullGraph(graph, layers, 2, partition="natural").fit(1)


def all_memory(rank: int, port: int, folder: Path) -> None:
    """Every case of two ranks; results go to files."""
    found: dict[Any, Any] = {}
    try:
        warm_up()
        start(rank, 2, port)
        for case in SHARED:
            found[case] = compare("resgcn", 0.5, *case)
    except BaseException:
        found["error"] = traceback.format_exc()
    torch.save(found, folder / f"rank{rank}.pt")
    if "error" not in found:
        dist.barrier()
    os._exit(0)
