"""How long does an epoch over ranks take, in the default mode and in the paper's, on real links?

A power-law graph (1M nodes, 20M edges, 32 float32 features); fan-out [15, 10, 5], 1024 seeds a
minibatch of each rank, every layer expands all nodes so far; an epoch of a few steps; the feature
rows by one all-to-all a minibatch in both modes. Each rank has a network namespace of its own, and
its link is shaped by tc tbf in both directions, or not at all. Seconds are wall-clock, from the
first step to the last, with one thread a rank, the next bulk sampled while this one is gathered; no
model is trained, which would be the same in both. With more ranks than cores wall-clock means
little without shaping: the ranks then wait for each other's turn, not for the links.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common.namespaces import Namespaces, why_not
from common.report import Report

from foregather import Graph, Loader
from foregather.dist import Grid
from foregather.dist.ledger import total
from foregather.graph.synthetic import synthesize
from foregather.sampling import Neighbor
from foregather.units import format_bytes

SEEDS = 1024
PORT = 29555
RULE = Neighbor([15, 10, 5], expand="per-layer")


def one_rank(folder: Path, steps: int, bulk: int) -> None:
    """Both modes; rank 0 writes what was found."""
    graph = Graph.open(folder / "graph")
    found = {}
    with Grid(timeout=300) as grid:
        seeds = np.random.default_rng(0).permutation(graph.num_nodes)[: steps * grid.size * SEEDS]
        for mode in ("owner", "paper"):
            options = {"sampler": RULE, "bulk": bulk, "threads": 1, "pyg": False, "mode": mode}
            loader = Loader(graph, None, seeds, SEEDS, grid=grid, prefetch=1, **options)
            grid.agree("start", mode)
            began, nodes = time.perf_counter(), 0
            for batch in loader:
                nodes += batch.num_nodes
            grid.agree("end", mode)
            seconds = time.perf_counter() - began
            table = loader.ranks.gather_ledger()
            features = total(table, ["features: ids", "features: rows"])
            found[mode] = {
                "seconds": seconds,
                "nodes": nodes,
                "features": features.bytes,
                "sampling": total(table).bytes - features.bytes,
                "messages": total(table).messages,
            }
        if grid.rank == 0:
            (folder / "found.json").write_text(json.dumps(found))


def run_world(size: int, rate: str | None, folder: Path, arguments: list[str]) -> dict:
    """One world in namespaces."""
    with Namespaces(size, rate) as spaces:
        script = [sys.executable, __file__, "--folder", str(folder), *arguments]
        own = {**os.environ, "OMP_NUM_THREADS": "1"}
        ranks = [
            subprocess.Popen(
                [*spaces.command(rank), *script], env={**own, **spaces.environment(rank, PORT)}
            )
            for rank in range(size)
        ]
        try:
            if any(process.wait(450) for process in ranks):
                raise SystemExit("a rank failed")
        finally:
            for process in ranks:
                process.kill()
                process.wait()
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
    args = parser.parse_args()
    if args.folder:
        one_rank(args.folder, args.steps, args.bulk)
        return
    if reason := why_not():
        raise SystemExit(f"this benchmark cannot run here: {reason}")
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        synthesize(folder / "graph", args.nodes, edges=args.edges, features=32, classes=2)
        options = ["--steps", str(args.steps), "--bulk", str(args.bulk)]
        for size in args.ranks:
            for rate in args.rates:
                found = run_world(size, None if rate == "none" else rate, folder, options)
                for mode, one in found.items():
                    ratio = found["paper"]["seconds"] / one["seconds"]
                    cells = [format_bytes(one["sampling"]), format_bytes(one["features"])]
                    times = [f"{one['seconds']:.1f}", f"{ratio:.2f}"]
                    rows.append([size, rate, mode, *cells, one["messages"], *times])
                print(rows[-2:], flush=True)
    report = Report("dist_epoch", __doc__)
    report.line(f"{args.steps} steps, bulks of {args.bulk}; bytes and messages over all ranks.")
    head = ["p", "link", "mode", "sampling", "features", "messages", "seconds", "paper / this"]
    report.table(head, rows)
    report.write()


if __name__ == "__main__":
    main()
