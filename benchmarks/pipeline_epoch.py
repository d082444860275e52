"""How long does an epoch of full-graph training take, in stages, graph- and tensor-parallel?

Two real gloo ranks, each pinned to its own core with one thread and in a network namespace of its
own, whose link is shaped by tc tbf in both directions or not at all. ResGCN+ of width 64 on random
graphs: "sparse" has 8 edges a node, 9 of 10 of them between near nodes (a cut is cheap); "dense"
has 48, half of them anywhere (it is not). Seconds are of the slower rank, median and range of
epochs in which the schemes take turns, after a first one of each; bytes are those of both ranks.
"graph / this" above 1 says how many times faster than graph-parallel; below 1 it is slower. The
pipeline in mode fast reads history; the others are exact. "model" columns are simulated from
layers that both ranks profile at once and the line measured between them: for two ranks, to be
compared with what was measured, and for four and eight, which nobody measured here.

    python benchmarks/pipeline_epoch.py [--rates 100mbit 1gbit none] [--repeats 3] [--quick]
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch.distributed as dist
from common.namespaces import why_not
from common.report import Report, median_spread
from common.schemes import (
    Scheme,
    block_graph,
    make_run,
    model_run,
    pin,
    profile,
    sent_bytes,
    take_turns,
)
from common.skip import skip
from common.world import run_over_links

from foregather.pipeline import measure_line
from foregather.units import format_bytes

#: name: (nodes, edges a node, share of them between near nodes)
GRAPHS = {"sparse": (8192, 8, 0.9), "dense": (4096, 48, 0.5)}
MODELLED = (2, 4, 8)


def schemes(ranks: int) -> dict[str, Scheme]:
    """What is compared on this number of ranks."""
    return {
        "graph-parallel": Scheme("nodes", "exact", 1, ranks, ranks),
        "tensor-parallel": Scheme("columns", "exact", 1, ranks, ranks),
        "pipeline, fast, K = 2 S": Scheme("nodes", "fast", ranks, 1, 2 * ranks),
        "pipeline, fast, K = 4 S": Scheme("nodes", "fast", ranks, 1, 4 * ranks),
        "pipeline, exact": Scheme("nodes", "exact", ranks, 1, 2 * ranks),
    }


def one_rank(folder: Path, depths: list[int], repeats: int, shrink: int) -> None:
    """All graphs, depths and schemes on this rank; the first one writes what was found."""
    dist.init_process_group("gloo")
    pin(dist.get_rank())
    found: list[dict[str, Any]] = []
    for kind, (nodes, degree, inside) in GRAPHS.items():
        graph = block_graph(nodes // shrink, degree, inside)
        for depth in depths:
            work, line = profile(graph, depth), measure_line()
            runs = {s: make_run(graph, s, depth, work) for s in schemes(2).values()}
            seconds = take_turns(runs, repeats)
            for name, scheme in schemes(2).items():
                told = {
                    ranks: model_run(graph, schemes(ranks)[name], work, line).seconds
                    for ranks in MODELLED
                    if schemes(ranks)[name].stages <= len(work.layers)
                }
                found.append(
                    {
                        "graph": kind,
                        "depth": depth,
                        "scheme": name,
                        "seconds": seconds[scheme],
                        "bytes": sent_bytes(runs[scheme]),
                        "model": told,
                        "line": line.rate,
                    }
                )
    if dist.get_rank() == 0:
        (folder / "found.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def table(rate: str, found: list[dict[str, Any]]) -> list[list[object]]:
    """Rows of one world; graph-parallel comes first in each graph and depth."""
    rows: list[list[object]] = []
    base = 1.0
    model: dict[str, float] = {}
    for one in found:
        middle = statistics.median(one["seconds"])
        if one["scheme"] == "graph-parallel":
            base, model = middle, one["model"]
        told = [
            f"{one['model'][str(r)]:.3g} ({model[str(r)] / one['model'][str(r)]:.2f})"
            if str(r) in one["model"]
            else ""
            for r in MODELLED
        ]
        rows.append(
            [
                rate,
                f"{one['line'] * 8 / 1e6:.0f}",
                one["graph"],
                one["depth"],
                one["scheme"],
                format_bytes(one["bytes"]),
                median_spread(one["seconds"]),
                f"{base / middle:.2f}",
                *told,
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", nargs="+", default=["100mbit", "1gbit", "none"])
    parser.add_argument("--depths", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--shrink", type=int, default=1, help="divide the nodes by this")
    parser.add_argument("--quick", action="store_true", help="small, and without a report")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder:
        one_rank(given.folder, given.depths, given.repeats, given.shrink)
        return
    if reason := why_not():
        skip(reason)
    if given.quick:
        given.depths, given.repeats, given.shrink, given.rates = [4], 1, 8, ["1gbit"]
    report, rows = Report("pipeline_epoch", __doc__), []
    with tempfile.TemporaryDirectory() as folder:
        options = ["--folder", folder, "--repeats", str(given.repeats)]
        options += ["--shrink", str(given.shrink), "--depths", *map(str, given.depths)]
        for rate in given.rates:
            run_over_links(__file__, 2, None if rate == "none" else rate, options)
            found = json.loads((Path(folder) / "found.json").read_text())
            rows += table(rate, found)
            print(*rows[-len(found) :], sep="\n", flush=True)
    head = ["link", "Mbit/s measured", "graph", "layers", "scheme", "bytes", "seconds",
            "graph / this", *(f"model, {r} ranks: s (graph / this)" for r in MODELLED)]  # fmt: skip
    report.table(head, rows)
    if not given.quick:
        report.write()


if __name__ == "__main__":
    main()
