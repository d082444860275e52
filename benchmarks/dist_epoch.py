"""How long does an epoch over ranks take, in the default mode and in the paper's, on real links?

A power-law graph (1M nodes, 20M edges, 32 float32 features); fan-out [15, 10, 5], 1024 seeds a
minibatch of each rank, every layer expands all nodes so far; an epoch of a few steps; the feature
rows by plan under the Loader's own budget in the default mode, by one all-to-allv a minibatch in
the paper's. Each rank has a network namespace of its own, and its link is shaped by tc tbf in both
directions, or not at all. Seconds are of the wall clock, from the first step to the last, median
and range of epochs in which the modes take turns, with one thread a rank, the next bulk sampled
while this one is gathered; no model is trained, which would be the same in both. CPU seconds are of
the slowest rank. With more ranks than cores wall-clock means little: the ranks then wait for each
other's turn as well as for the links.

A rank of the default mode has 64 MiB and the planner's tables for rows of others, and keeps them
from bulk to bulk and from epoch to epoch; one of the paper's has the rows of one minibatch.
"""

import argparse
import json
import resource
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from common.namespaces import why_not
from common.report import Report, median_spread
from common.skip import skip
from common.world import run_over_links

from foregather import BatchContents, Graph, Loader, RankOptions
from foregather.dist import Grid
from foregather.dist.transport.ledger import total
from foregather.graph.synthetic import synthesize
from foregather.sampling import Neighbor
from foregather.units import format_bytes

SEEDS = 1024
MODES = ("owner", "paper")
RULE = Neighbor([15, 10, 5], expand="per-layer")


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def one_rank(folder: Path, steps: int, bulk: int, repeats: int) -> None:
    """Both modes; rank 0 writes what was found."""
    graph = Graph.open(folder / "graph")
    found: dict[str, dict] = {}
    with Grid(timeout=300) as grid:
        seeds = np.random.default_rng(0).permutation(graph.num_nodes)[: steps * grid.size * SEEDS]
        loaders = {}
        for mode in MODES:
            options = {"sampler": RULE, "bulk": bulk, "threads": 1, "prefetch": 1}
            options |= {"contents": BatchContents(pyg=False), "ranks": RankOptions(mode=mode)}
            loaders[mode] = Loader(graph, None, seeds, SEEDS, grid=grid, **options)
            found[mode] = {"seconds": [], "cpu": []}
        for epoch in range(repeats):
            for mode, loader in loaders.items():
                loader.set_epoch(epoch)
                grid.agree("start", mode)
                began, used = time.perf_counter(), cpu()
                for _ in loader:
                    pass
                found[mode]["cpu"].append(largest(cpu() - used))
                found[mode]["seconds"].append(time.perf_counter() - began)
        for mode, loader in loaders.items():
            table = loader.ranks.gather_ledger()
            purposes = {purpose for _, _, purpose in table if purpose.startswith("features")}
            features = total(table, sorted(purposes)).bytes if purposes else 0
            found[mode]["features"] = features // repeats
            found[mode]["sampling"] = (total(table).bytes - features) // repeats
            found[mode]["messages"] = total(table).messages // repeats
        if grid.rank == 0:
            (folder / "found.json").write_text(json.dumps(found))


def largest(value: float) -> float:
    """Over all ranks."""
    made = torch.tensor([value])
    torch.distributed.all_reduce(made, torch.distributed.ReduceOp.MAX)
    return float(made)


def run_world(size: int, rate: str | None, folder: Path, arguments: list[str]) -> dict:
    """One world in namespaces."""
    run_over_links(__file__, size, rate, ["--folder", str(folder), *arguments], 450)
    return json.loads((folder / "found.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rates", nargs="+", default=["1gbit", "none"])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--bulk", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="JSON of rows that were measured before")
    args = parser.parse_args()
    if args.folder:
        one_rank(args.folder, args.steps, args.bulk, args.repeats)
        return
    if reason := why_not():
        skip(reason)
    rows: list[list] = []
    if args.keep and args.keep.exists():
        rows = json.loads(args.keep.read_text())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        synthesize(folder / "graph", args.nodes, edges=args.edges, features=32, classes=2)
        options = ["--steps", str(args.steps), "--bulk", str(args.bulk)]
        options += ["--repeats", str(args.repeats)]
        for size in args.ranks:
            for rate in args.rates:
                if any(row[:2] == [size, rate] for row in rows):
                    continue
                found = run_world(size, None if rate == "none" else rate, folder, options)
                for mode, one in found.items():
                    middle = statistics.median(one["seconds"])
                    ratio = statistics.median(found["paper"]["seconds"]) / middle
                    cells = [format_bytes(one["sampling"]), format_bytes(one["features"])]
                    cells += [one["messages"], f"{statistics.median(one['cpu']):.1f}"]
                    cells += [median_spread(one["seconds"]), f"{ratio:.2f}"]
                    rows.append([size, rate, mode, *cells])
                print(rows[-2:], flush=True)
                if args.keep:
                    args.keep.write_text(json.dumps(rows))
    report = Report("dist_epoch", __doc__)
    report.line(f"{args.steps} steps, bulks of {args.bulk}; bytes and messages over all ranks.")
    head = ["p", "link", "mode", "sampling", "features", "messages", "CPU s", "seconds"]
    head.append("paper / this")
    report.table(head, rows)
    report.write()


if __name__ == "__main__":
    main()
