"""Does the planner's simulation predict real epochs?

Two real gloo ranks, each pinned to its own core with one thread, train ResGCN+ on a synthetic
graph. The first rank profiles the layers while the other waits, the line between both is measured,
and each scheme is simulated and then run: the median of several epochs after a first one. Bytes
must be equal; seconds are compared. The load of the machine is in the line below: on a shared
machine the error is that of its neighbours too.

    python benchmarks/pipeline_simulator.py [--nodes 20000] [--depth 16] [--epochs 5]
"""

import argparse
import multiprocessing
import os
import socket
import statistics
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from common.report import Report

from foregather import Graph
from foregather.graph.synthetic import synthetic_arrays
from foregather.nn import resgcn_layers
from foregather.pipeline import FullGraph, Runtime, make_chunks, measure_line
from foregather.pipeline.cut import measure_cut
from foregather.pipeline.planner import _workload
from foregather.pipeline.programs import rank_programs
from foregather.pipeline.simulate import simulate
from foregather.pipeline.workload import Setting, split_layers

WIDTH, CLASSES, RANKS = 64, 40, 2
#: scheme: (split, mode, stages, ways, chunks)
SCHEMES: list[tuple[Any, ...]] = [
    ("nodes", "fast", 2, 1, 2),
    ("nodes", "fast", 2, 1, 4),
    ("nodes", "fast", 2, 1, 8),
    ("nodes", "exact", 2, 1, 4),
    ("nodes", "exact", 1, 2, 2),
    ("columns", "exact", 1, 2, 2),
]


def graph_of(nodes: int) -> Graph:
    made = synthetic_arrays(nodes, degree=16, features=64, classes=CLASSES, ids="natural")
    target = np.repeat(np.arange(nodes), np.diff(made.indptr))
    pairs = np.stack([made.indices.astype(np.int64), target])
    rest = {"x": made.features, "y": made.labels, "splits": made.splits}
    return Graph.from_edge_index(pairs, nodes, **rest)


def rank_main(rank: int, port: int, given: argparse.Namespace, results: Any) -> None:
    """All schemes on one rank; the first rank simulates them too."""
    os.environ.update(GLOO_SOCKET_IFNAME="lo", FOREGATHER_QUIET="1")
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % os.cpu_count()]})
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=RANKS)
    graph = graph_of(given.nodes)
    line, work = measure_line(), None
    if rank == 0:
        work = _workload(graph, make_layers(graph, given.depth), Runtime(), None)
    dist.barrier()
    for split, mode, stages, ways, chunks in SCHEMES:
        cuts: list[Any] = [None]
        if work is not None:
            cuts = [split_layers(work, stages)]
        dist.broadcast_object_list(cuts, 0)
        setting = Setting(split, mode, stages, ways, chunks, tuple(cuts[0]))
        parts = make_chunks(graph, chunks, "natural", 0, ways)
        run = FullGraph(
            graph, make_layers(graph, given.depth), chunks, mode,
            partition=parts.chunk_of(parts.number),
            runtime=Runtime(ways=ways, split=split, cuts=list(cuts[0][1:-1])),
        )  # fmt: skip
        run.fit(1)
        seconds = []
        for _ in range(given.epochs):
            dist.barrier()
            seconds.append(run.train_epoch().seconds)
        sent = {k: v for k, v in run.reports[-1].sent.items() if k not in ("control", "state")}
        if work is not None:
            found = simulate(rank_programs(work, setting, measure_cut(graph, parts, ways)), line)
            results.put((setting.scheme, setting, seconds, found.seconds, found.bytes))
        results.put(("sent", sum(sent.values())))
    results.put(("line", line))
    dist.barrier()


def make_layers(graph: Graph, depth: int) -> list[torch.nn.Module]:
    torch.manual_seed(0)
    return [*resgcn_layers(graph.features.width, WIDTH, CLASSES, depth, dropout=0.5)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=5)
    given = parser.parse_args()
    report = Report("pipeline_simulator", __doc__)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    ranks = [
        context.Process(target=rank_main, args=(r, port, given, results)) for r in range(RANKS)
    ]
    for process in ranks:
        process.start()
    found = [results.get(timeout=500) for _ in range(len(SCHEMES) * (1 + RANKS) + RANKS)]
    for process in ranks:
        process.join(60)
    line = next(f[1] for f in found if f[0] == "line")
    made = [f for f in found if f[0] not in ("line", "sent")]
    assert sum(f[4] for f in made) == sum(f[1] for f in found if f[0] == "sent")
    report.line(
        f"{given.nodes:,} nodes, mean degree 16, {given.depth} layers of width {WIDTH}; line "
        f"{line.rate / 1e9:.2f} GB/s, {line.latency * 1e6:.0f} us; bytes of all schemes together "
        "are equal to the simulated ones."
    )
    rows = []
    for scheme, setting, seconds, predicted, size in made:
        real = statistics.median(seconds)
        spread = f"{real:.3f} ({min(seconds):.3f} to {max(seconds):.3f})"
        rows.append(
            [scheme, setting.mode, setting.stages, setting.ways, setting.chunks, f"{size:,}",
             spread, f"{predicted:.3f}", f"{100 * (predicted / real - 1):+.0f} %"]
        )  # fmt: skip
    head = ["scheme", "mode", "S", "G", "K", "bytes", "real s", "simulated s", "error"]
    report.table(head, rows)
    report.write()


if __name__ == "__main__":
    main()
