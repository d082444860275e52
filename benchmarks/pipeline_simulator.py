"""Does the planner's simulation predict real epochs, and their bubbles?

Two and four real gloo ranks with one thread each, in network namespaces of their own whose links
are shaped by tc tbf in both directions, or not at all, train ResGCN+ of width 64 on a random graph
(60 % of its edges between near nodes). Ranks profile the layers at the same time (as many of them
as there are cores), the line between two of them is measured, and each scheme is simulated, and
run: median and range of epochs in which the schemes take turns, after a first one of each. Bytes
must be equal; seconds are compared. A measured bubble is the share of the ranks' time in which
their own thread used no processor: waiting for rows and, where there are more ranks than cores, for
a core. The simulated one is the share in which a rank computes nothing or waits for its share of a
core. "Of cores" is the share of the cores' time in which no rank computes. On a shared machine the
error is that of its neighbours too.

    python benchmarks/pipeline_simulator.py [--ranks 2 4] [--rates none 200mbit] [--depths 8 32 64]
        [--nodes 8000] [--repeats 3] [--quick]
"""

import argparse
import json
import os
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
    timed,
)
from common.skip import skip
from common.world import run_over_links

from foregather.pipeline import measure_line

DEGREE, INSIDE = 16, 0.6


def schemes(ranks: int) -> list[Scheme]:
    """What is run on this number of ranks; on four, two stages of two ways as well."""
    made = [
        Scheme("nodes", "fast", ranks, 1, ranks),
        Scheme("nodes", "fast", ranks, 1, 4 * ranks),
        Scheme("nodes", "exact", ranks, 1, 2 * ranks),
        Scheme("nodes", "exact", 1, ranks, ranks),
        Scheme("columns", "exact", 1, ranks, ranks),
    ]
    if ranks == 4:
        made += [Scheme("nodes", "fast", 2, 2, 4), Scheme("nodes", "fast", 2, 2, 8)]
    return made


def one_rank(folder: Path, nodes: int, depths: list[int], repeats: int) -> None:
    """All schemes on this rank; the first one writes what was found."""
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    pin(dist.get_rank(), ranks)
    graph = block_graph(nodes, DEGREE, INSIDE)
    cores = os.cpu_count() or 1
    found = []
    for depth in depths:
        work, line = profile(graph, depth), measure_line()
        runs = {scheme: make_run(graph, scheme, depth, work) for scheme in schemes(ranks)}
        for scheme, took in timed(runs, repeats).items():
            told, size = model_run(graph, scheme, work, line), sent_bytes(runs[scheme])
            if told.bytes != size:
                raise SystemExit(f"{scheme} sent {size} bytes, simulated {told.bytes}")
            shared = ranks / min(ranks, cores)
            found.append(
                {
                    "depth": depth,
                    "scheme": scheme.name,
                    "shape": [scheme.stages, scheme.ways, scheme.chunks],
                    "bytes": size,
                    "seconds": [seconds for seconds, _ in took],
                    "bubble": statistics.median(bubble for _, bubble in took),
                    "told": told.seconds,
                    "told_bubble": told.bubble,
                    "shared": shared,
                    "rate": line.rate,
                }
            )
    if dist.get_rank() == 0:
        (folder / "found.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def of_cores(bubble: float, shared: float) -> float:
    """The share of the cores' time in which nothing is computed."""
    return 1 - (1 - bubble) * shared


def row(ranks: int, rate: str, one: dict[str, Any]) -> list[object]:
    """One line of the table."""
    error = one["told"] / statistics.median(one["seconds"]) - 1
    bubbles = [one["bubble"], one["told_bubble"]]
    shares = [*bubbles, *(of_cores(bubble, one["shared"]) for bubble in bubbles)]
    return [
        ranks,
        rate,
        f"{one['rate'] * 8 / 1e6:.0f}",
        one["depth"],
        one["scheme"],
        " x ".join(map(str, one["shape"][:2])),
        one["shape"][2],
        f"{one['bytes']:,}",
        median_spread(one["seconds"]),
        f"{one['told']:.3g}",
        f"{100 * error:+.0f} %",
        *(f"{100 * share:.0f} %" for share in shares),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8_000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rates", nargs="+", default=["none", "200mbit"])
    parser.add_argument("--depths", type=int, nargs="+", default=[8, 32, 64])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kept", type=Path, help="JSON file of what is kept between runs")
    parser.add_argument("--quick", action="store_true", help="small, and without a report")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder:
        one_rank(given.folder, given.nodes, given.depths, given.repeats)
        return
    if reason := why_not():
        skip(reason)
    if given.quick:
        given.nodes, given.depths, given.repeats, given.rates = 1280, [3], 1, ["none"]
    kept: dict[str, Any] = {}
    if given.kept and given.kept.exists():
        kept = json.loads(given.kept.read_text())
    for ranks in given.ranks:
        for rate in given.rates:
            with tempfile.TemporaryDirectory() as folder:
                options = ["--folder", folder, "--nodes", str(given.nodes)]
                options += ["--repeats", str(given.repeats), "--depths", *map(str, given.depths)]
                run_over_links(__file__, ranks, None if rate == "none" else rate, options)
                found = json.loads((Path(folder) / "found.json").read_text())
            kept.setdefault(f"{ranks} {rate}", []).extend(found)
            print(*(row(ranks, rate, one) for one in found), sep="\n", flush=True)
            if given.kept:
                given.kept.write_text(json.dumps(kept))
    if not given.quick:
        write_report(given.nodes, kept)


def write_report(nodes: int, kept: dict[str, Any]) -> None:
    """The table, and how far off the simulation was, for each number of ranks."""
    report, rows = Report("pipeline_simulator", __doc__), []
    errors: dict[str, list[float]] = {}
    for key, found in kept.items():
        ranks, rate = key.split()
        for one in found:
            rows.append(row(int(ranks), rate, one))
            error = abs(one["told"] / statistics.median(one["seconds"]) - 1)
            for name in (f"{ranks} ranks", f"link {rate}", f"{one['depth']} layers", "all"):
                errors.setdefault(name, []).append(error)
    report.line(
        f"{nodes:,} nodes, mean degree {DEGREE}, width 64, {os.cpu_count()} cores. Bytes of every "
        "scheme are equal to the simulated ones. Error of seconds:"
    )
    report.table(
        ["where", "cells", "median", "largest"],
        [
            [name, len(e), f"{100 * statistics.median(e):.0f} %", f"{100 * max(e):.0f} %"]
            for name, e in errors.items()
        ],
    )
    head = ["ranks", "link", "Mbit/s measured", "layers", "scheme", "S x G", "K", "bytes"]
    head += ["real s", "simulated s", "error", "bubble measured", "simulated"]
    report.table([*head, "measured, of cores", "simulated, of cores"], rows)
    report.write()


if __name__ == "__main__":
    main()
