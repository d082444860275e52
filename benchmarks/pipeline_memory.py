"""Does full-graph training in chunks fit where plain full-graph training does not?

ResGCN+ without dropout on a synthetic graph, float32, each run in a process of its own under a
memory limit (cgroup v1). "plain" is the same layers on the whole graph at once with torch's
autograd; "chunked" is FullGraph on one rank in mode exact. "peak" is the largest resident memory of
the process, "before" what it had with torch warm and the graph open; "formula" is what the planner
says beside the graph, to be compared with the difference (the planner has no recompute "dense"). A
killed run is one that the kernel ended at the limit. All train the same: the loss after the last
epoch is equal to rounding. Blocks from 128 KiB on are mapped one by one (MALLOC_MMAP_THRESHOLD_),
on both sides; in the runs called "as is" they are not: glibc then keeps holes between them.
Resident memory has the mapped files of torch in it; a limit does not count those that others have
read before, so a peak may be a little above the limit.

    python benchmarks/pipeline_memory.py [--nodes 40000] [--depth 24] [--limit 900MB]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from common.cgroup import Cgroup
from common.full_graph import Plain, few_nodes, resident
from common.report import Report
from common.skip import skip

from foregather import Graph
from foregather.graph.synthetic import synthesize
from foregather.nn import resgcn_layers
from foregather.pipeline import FullGraph, Runtime, make_chunks
from foregather.pipeline.partition.cut import measure_cut
from foregather.pipeline.planning.workload import Setting, memory_of, workload_of
from foregather.units import format_bytes, parse_size

WIDTH, CLASSES, EPOCHS = 64, 40, 2
RUNS = [("plain", 1, "none"), ("chunked", 1, "none"), ("chunked", 16, "none"),
        ("chunked", 16, "dense"), ("chunked", 16, "all"), ("chunked", 64, "all")]  # fmt: skip
AS_IS = [("plain, as is", 1, "none"), ("chunked, as is", 16, "all")]  # no malloc setting


def warm(depth: int) -> None:
    """A few nodes trained both ways: what torch loads and allocates once is there afterwards."""
    few = few_nodes(200, 64, CLASSES)
    Plain(few, resgcn_layers(64, WIDTH, CLASSES, depth, dropout=0.0), False, 0).epoch()
    FullGraph(few, resgcn_layers(64, WIDTH, CLASSES, depth, dropout=0.0), 2).fit(1)


def child(path: str, kind: str, chunks: int, recompute: str, depth: int) -> None:
    """One run; facts go to the standard output."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    graph = Graph.open(path)
    layers = resgcn_layers(graph.features.width, WIDTH, CLASSES, depth, dropout=0.0)
    warm(depth)
    facts: dict[str, Any] = {"before": resident()}
    if kind.startswith("plain"):
        run = Plain(graph, layers, False, 0)
        facts["loss"] = [run.epoch() for _ in range(EPOCHS)][-1]
    else:
        made = make_chunks(graph, chunks, "natural")
        cut = measure_cut(graph, made)
        work = workload_of(graph, layers, Runtime())
        setting = Setting("nodes", "exact", 1, 1, chunks, (0, len(layers)), recompute)
        if recompute != "dense":
            facts["formula"] = memory_of(work, setting, cut)
        chunked = FullGraph(
            graph, layers, chunks, partition="natural", runtime=Runtime(recompute=recompute)
        )
        facts["loss"] = chunked.fit(EPOCHS)[-1].loss
    facts["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(facts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=40_000)
    parser.add_argument("--depth", type=int, default=24)
    parser.add_argument("--limit", default="900MB")
    parser.add_argument("--quick", action="store_true", help="a small graph, three runs")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        path, kind, chunks, recompute = given.child
        child(path, kind, int(chunks), recompute, given.depth)
        return
    if given.quick:
        given.nodes, given.depth = 4_000, 8
    report = Report("pipeline_memory", __doc__)
    rows, limit = [], parse_size(given.limit)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "graph")
        synthesize(path, given.nodes, degree=16, features=64, classes=CLASSES, seed=0)
        wanted = [(run, None) for run in [*RUNS, *AS_IS]]
        wanted += [(run, limit) for run in RUNS if run[0] == "plain" or run[2] == "all"]
        for run, bound in wanted[:: len(wanted) // 2] if given.quick else wanted:
            rows.append(measure(path, run, bound, given.depth))
            print(rows[-1], flush=True)
    report.line(f"{given.nodes:,} nodes, mean degree 16, {given.depth} layers of width {WIDTH}.")
    head = ["limit", "run", "K", "recompute", "outcome", "loss", "before", "peak",
            "peak - before", "formula"]  # fmt: skip
    report.table(head, rows)
    report.write()


def measure(path: str, run: tuple[str, int, str], bound: int | None, depth: int) -> list[object]:
    """One run in a process of its own."""
    command = [sys.executable, __file__, "--depth", str(depth), "--child", path, *map(str, run)]
    with Cgroup(bound or 1 << 40) as group:
        if bound and not group.works:
            skip("a memory cgroup (v1) cannot be made here; run as root")
        environment = dict(os.environ)
        if run not in AS_IS:
            environment["MALLOC_MMAP_THRESHOLD_"] = "131072"
        done = subprocess.run(
            command, capture_output=True, text=True, preexec_fn=group.join, env=environment
        )
    name = [format_bytes(bound) if bound else "none", *run]
    if done.returncode:
        told = "killed" if done.returncode == -9 else done.stderr.strip().splitlines()[-1]
        return [*name, told, "", "", "", "", ""]
    facts = json.loads(done.stdout.splitlines()[-1])
    used = facts["peak"] - facts["before"]
    formula = format_bytes(facts["formula"]) if "formula" in facts else ""
    sizes = [format_bytes(facts["before"]), format_bytes(facts["peak"]), format_bytes(used)]
    return [*name, "done", f"{facts['loss']:.6f}", *sizes, formula]


if __name__ == "__main__":
    main()
