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

import numpy as np
import torch
from common.cgroup import Cgroup
from common.report import Report
from common.skip import skip

from foregather import Graph
from foregather.graph.synthetic import synthesize, synthetic_arrays
from foregather.nn import resgcn_layers
from foregather.pipeline import FullGraph, Runtime, make_chunks
from foregather.pipeline.partition.chunk_topology import Topology
from foregather.pipeline.partition.cut import measure_cut
from foregather.pipeline.passes.aggregation import product
from foregather.pipeline.planning.workload import Setting, memory_of, workload_of
from foregather.units import format_bytes, parse_size

WIDTH, CLASSES, EPOCHS = 64, 40, 2
RUNS = [("plain", 1, "none"), ("chunked", 1, "none"), ("chunked", 16, "none"),
        ("chunked", 16, "dense"), ("chunked", 16, "all"), ("chunked", 64, "all")]  # fmt: skip
AS_IS = [("plain, as is", 1, "none"), ("chunked, as is", 16, "all")]  # no malloc setting


class Whole:
    """What a layer sees of the whole graph."""

    def __init__(self, place: Topology, rows: torch.Tensor) -> None:
        self.rows = self.own = rows
        self.count, self._place = rows.shape[0], place

    def aggregate(self, norm: str = "mean") -> torch.Tensor:
        """Weighted sums over in-neighbours."""
        return product(self.rows, self._place.matrix(0, norm))

    def dense(self, part: Any, *values: torch.Tensor) -> torch.Tensor:
        """`part(*values)`."""
        return part(*values)


def plain(graph: Graph, layers: list[Any]) -> float:
    """Epochs on the whole graph at once; the last loss."""
    place = Topology(graph, make_chunks(graph, 1), torch.float32, torch.device("cpu"))
    features = torch.from_numpy(graph.features[:])
    train = torch.from_numpy(graph.split("train"))
    labels = torch.from_numpy(graph.labels[graph.split("train")].astype("i8"))
    optimizer = torch.optim.Adam([p for layer in layers for p in layer.parameters()], 0.01)
    loss = torch.zeros(())
    for _ in range(EPOCHS):
        x, skips = features, {}
        for layer in layers:
            near = Whole(place, layer.message(x)) if layer.aggregates else None
            x = layer.update(x, near, **{name: skips[name] for name in layer.needs})
            if layer.gives:
                skips[layer.gives] = x
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(x[train], labels)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def resident() -> int:
    """Resident bytes now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def warm(depth: int) -> None:
    """A few nodes trained both ways: what torch loads and allocates once is there afterwards."""
    made = synthetic_arrays(200, degree=4, features=64, classes=CLASSES)
    pairs = np.stack([made.indices.astype("i8"), np.repeat(np.arange(200), np.diff(made.indptr))])
    rest = {"x": made.features, "y": made.labels, "splits": made.splits}
    few = Graph.from_edge_index(pairs, 200, **rest)
    plain(few, resgcn_layers(64, WIDTH, CLASSES, depth, dropout=0.0))
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
        facts["loss"] = plain(graph, layers)
    else:
        made = make_chunks(graph, chunks, "natural")
        cut = measure_cut(graph, made)
        work = workload_of(graph, layers, Runtime())
        setting = Setting("nodes", "exact", 1, 1, chunks, (0, len(layers)), recompute)
        if recompute != "dense":
            facts["formula"] = memory_of(work, setting, cut)
        run = FullGraph(
            graph, layers, chunks, partition="natural", runtime=Runtime(recompute=recompute)
        )
        facts["loss"] = run.fit(EPOCHS)[-1].loss
    facts["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(facts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=40_000)
    parser.add_argument("--depth", type=int, default=24)
    parser.add_argument("--limit", default="900MB")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        path, kind, chunks, recompute = given.child
        child(path, kind, int(chunks), recompute, given.depth)
        return
    report = Report("pipeline_memory", __doc__)
    rows, limit = [], parse_size(given.limit)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "graph")
        synthesize(path, given.nodes, degree=16, features=64, classes=CLASSES, seed=0)
        wanted = [(run, None) for run in [*RUNS, *AS_IS]]
        wanted += [(run, limit) for run in RUNS if run[0] == "plain" or run[2] == "all"]
        for run, bound in wanted:
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
