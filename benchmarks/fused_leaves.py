"""What do sums in place of leaf rows save: in memory, bytes and seconds; in memory, disk, 2 ranks?

A power-law graph with 128 float32 columns, fan-out [15, 10, 5]. "Rows" are batches with `x` of all
nodes and, so that both do the same work, the sums of in-neighbours' rows by the kernel of
`foregather.nn.aggregate` when a batch is taken, with its lists by target built there; "sums" are
batches of `leaves="sum"`. Each way runs in a process of its own, ways in turn, an epoch each;
seconds are of the wall clock, the first epoch (which loads) left out. Bytes of a batch are those of
its tensors; peak memory is what the process took beside the graph, torch and the interpreter: the
highest resident size less that before the first epoch (in memory the graph is there by then; from
disk the budget is the same for both ways, so that what batches do not take is cache). Bytes read
are of the feature file. Over ranks, "rows" send all rows, "sums" send rows and add them up, and
"sums of owners" is `RankOptions(leaves="auto")`; bytes are of rows and sums between ranks.

    python benchmarks/fused_leaves.py [--nodes 1000000] [--edges 20000000] [--rounds 5] [--quick]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common.report import Report, median_spread
from common.world import run_on_loopback

from foregather import BatchContents, Graph, Loader, RankOptions
from foregather.dist import Grid
from foregather.graph.synthetic import synthesize
from foregather.nn.aggregate import Neighborhoods, aggregate
from foregather.units import format_bytes

FANOUT, COLUMNS = [15, 10, 5], 128
PLACES = ("memory", "disk")
WAYS = ("rows", "sums")
RANK_WAYS = ("rows", "sums", "sums of owners")


def resident() -> int:
    """Bytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    """The highest number of them so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def summed(batch: Any) -> float:
    """One number of the sums, formed here if the batch has none."""
    if batch.neighbor_sum is not None:
        return float(batch.neighbor_sum[0, 0])
    targets = sum(batch.num_sampled_nodes[:-1])
    lists = Neighborhoods.of(batch.edge_index, batch.num_nodes, targets)
    return float(aggregate(batch.x, lists, "sum")[0, 0])


def epoch(loader: Loader) -> dict[str, Any]:
    """One epoch: seconds, bytes of the largest batch, and a check sum."""
    began, largest, check = time.perf_counter(), 0, 0.0
    for batch in loader:
        largest = max(largest, batch.nbytes)
        check += summed(batch)
        del batch
    return {"seconds": time.perf_counter() - began, "batch": largest, "check": check}


def contents(way: str) -> BatchContents:
    return BatchContents(labels="seeds", pyg=False, leaves="rows" if way == "rows" else "sum")


def input_nodes(graph: Graph, batches: int, seeds: int) -> np.ndarray:
    return np.random.default_rng(1).choice(graph.num_nodes, batches * seeds, replace=False)


def alone(folder: Path, place: str, way: str, options: argparse.Namespace) -> None:
    """One way in this process; prints what was found."""
    graph = Graph.open(folder / "graph")
    more: dict[str, Any] = {}
    if place == "disk":
        more = {"memory": options.memory, "storage": "features"}
    nodes = input_nodes(graph, options.batches, options.seeds)
    loader = Loader(graph, FANOUT, nodes, options.seeds, contents=contents(way), bulk=2, **more)
    loader._home.furnish(loader._maker)  # what stays in memory is there before it is counted
    before = resident()
    found = [epoch(loader) for _ in range(2)][1]
    found["peak"] = peak() - before
    found["read"] = loader.counters().get("features", {}).get("bytes", 0) // 2
    print(json.dumps(found))


def one_rank(folder: Path, options: argparse.Namespace) -> None:
    """All ways over ranks, in turn; rank 0 writes what was found."""
    graph, found = Graph.open(folder / "graph"), {way: [] for way in RANK_WAYS}
    with Grid(timeout=600) as grid:
        nodes = input_nodes(graph, options.batches, options.seeds)
        for _ in range(options.rounds):
            for way in RANK_WAYS:
                how = RankOptions(leaves="auto" if way == "sums of owners" else "rows")
                loader = Loader(
                    graph,
                    FANOUT,
                    nodes,
                    options.seeds,
                    contents=contents(way),
                    grid=grid,
                    ranks=how,
                    bulk=2,
                    threads=1,
                )
                facts = epoch(loader)
                assert loader.ranks is not None
                sent = loader.ranks.gather_ledger()
                kinds = ("features: ", "sums: ")
                facts["sent"] = sum(
                    entry.bytes for (_, _, what), entry in sent.items() if what.startswith(kinds)
                )
                facts["sums"] = loader.counters().get("sums", {}).get("summed", 0)
                found[way].append(facts)
                loader.close()
        if grid.rank == 0:
            (folder / "ranks.json").write_text(json.dumps(found))


def measure_alone(folder: Path, options: argparse.Namespace) -> dict[tuple[str, str], list[dict]]:
    found: dict[tuple[str, str], list[dict]] = {}
    for _ in range(options.rounds):
        for place in PLACES:
            for way in WAYS:
                command = [sys.executable, __file__, *sys.argv[1:], "--at", str(folder)]
                command += ["--place", place, "--way", way]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found.setdefault((place, way), []).append(json.loads(done.stdout))
    return found


def write_alone(report: Report, found: dict[tuple[str, str], list[dict]]) -> None:
    rows = []
    for (place, way), runs in found.items():
        plain = found[place, "rows"]
        ratio = [a["seconds"] / b["seconds"] for a, b in zip(plain, runs, strict=True)]
        rows.append(
            [
                place,
                way,
                format_bytes(max(run["batch"] for run in runs)),
                format_bytes(int(np.median([run["peak"] for run in runs]))),
                format_bytes(int(np.median([run["read"] for run in runs]))),
                median_spread([run["seconds"] for run in runs]),
                median_spread(ratio),
            ]
        )
        assert len({run["check"] for run in plain + runs}) == 1, "sums differ"
    head = ("features", "way", "largest batch", "peak", "read", "seconds", "times as fast")
    report.table(head, rows)


def write_ranks(report: Report, found: dict[str, list[dict]]) -> None:
    rows = []
    for way, runs in found.items():
        ratio = [a["seconds"] / b["seconds"] for a, b in zip(found["rows"], runs, strict=True)]
        rows.append(
            [
                way,
                format_bytes(max(run["batch"] for run in runs)),
                format_bytes(int(np.median([run["sent"] for run in runs]))),
                max(run["sums"] for run in runs),
                median_spread([run["seconds"] for run in runs]),
                median_spread(ratio),
            ]
        )
    head = ("2 ranks", "largest batch", "sent by all", "bulks as sums", "seconds", "times as fast")
    report.table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--seeds", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--memory", default="1600MB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--at", type=Path)
    parser.add_argument("--place", choices=PLACES)
    parser.add_argument("--way", choices=WAYS)
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.edges, options.seeds = 20_000, 200_000, 64
        options.batches, options.memory, options.rounds = 8, "100MB", 1
    if options.at is not None and options.place is not None:
        return alone(options.at, options.place, options.way, options)
    if options.at is not None:
        return one_rank(options.at, options)
    report = Report("fused_leaves", __doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        synthesize(folder / "graph", options.nodes, edges=options.edges, features=COLUMNS)
        write_alone(report, measure_alone(folder, options))
        run_on_loopback(__file__, 2, [*sys.argv[1:], "--at", name])
        write_ranks(report, json.loads((folder / "ranks.json").read_text()))
    report.write()


if __name__ == "__main__":
    main()
