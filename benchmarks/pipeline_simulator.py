"""Does the planner's simulation predict real epochs?

Two real gloo ranks over loopback, each pinned to its own core with one thread, train ResGCN+ on a
random graph (60 % of its edges between near nodes). Both profile the layers at the same time, the
line between them is measured, and each scheme is simulated, and run: median and
range of epochs in which the schemes take turns, after a first one of each. Bytes must be equal;
seconds are compared. On a shared machine the error is that of its neighbours too: look at the load.

    python benchmarks/pipeline_simulator.py [--nodes 16000] [--depths 8 24] [--repeats 5] [--quick]
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import torch.distributed as dist
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
from common.world import run_on_loopback

from foregather.pipeline import measure_line

DEGREE, INSIDE = 16, 0.6
SCHEMES = [
    Scheme("nodes", "fast", 2, 1, 2),
    Scheme("nodes", "fast", 2, 1, 4),
    Scheme("nodes", "fast", 2, 1, 8),
    Scheme("nodes", "exact", 2, 1, 4),
    Scheme("nodes", "fast", 1, 2, 4),
    Scheme("nodes", "exact", 1, 2, 2),
    Scheme("columns", "exact", 1, 2, 2),
]


def one_rank(folder: Path, nodes: int, depths: list[int], repeats: int) -> None:
    """All schemes on this rank; the first one writes what was found."""
    dist.init_process_group("gloo")
    pin(dist.get_rank())
    graph = block_graph(nodes, DEGREE, INSIDE)
    found = []
    for depth in depths:
        work, line = profile(graph, depth), measure_line()
        runs = {scheme: make_run(graph, scheme, depth, work) for scheme in SCHEMES}
        seconds = take_turns(runs, repeats)
        for scheme, run in runs.items():
            told, size = model_run(graph, scheme, work, line), sent_bytes(run)
            if told.bytes != size:
                raise SystemExit(f"{scheme} sent {size} bytes, simulated {told.bytes}")
            found.append(
                [depth, scheme.name, scheme.stages, scheme.ways, scheme.chunks, size,
                 seconds[scheme], told.seconds, [line.rate, line.latency]]
            )  # fmt: skip
    if dist.get_rank() == 0:
        (folder / "found.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=16_000)
    parser.add_argument("--depths", type=int, nargs="+", default=[8, 24])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small, and without a report")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.quick:
        given.nodes, given.depths, given.repeats = 1280, [3], 2
    if given.folder:
        one_rank(given.folder, given.nodes, given.depths, given.repeats)
        return
    report = Report("pipeline_simulator", __doc__)
    with tempfile.TemporaryDirectory() as folder:
        options = ["--folder", folder, "--nodes", str(given.nodes), "--repeats", str(given.repeats)]
        run_on_loopback(__file__, 2, [*options, "--depths", *map(str, given.depths)])
        found = json.loads((Path(folder) / "found.json").read_text())
    rows, errors = [], []
    for depth, name, stages, ways, chunks, size, seconds, told, line in found:
        error = told / statistics.median(seconds) - 1
        errors.append(abs(error))
        rows.append(
            [depth, name, stages, ways, chunks, f"{size:,}", f"{line[0] / 1e9:.2f}",
             median_spread(seconds), f"{told:.3g}", f"{100 * error:+.0f} %"]
        )  # fmt: skip
    report.line(
        f"{given.nodes:,} nodes, mean degree {DEGREE}, width 64. Bytes of every scheme are equal "
        f"to the simulated ones. Error of seconds: median {100 * statistics.median(errors):.0f} %, "
        f"largest {100 * max(errors):.0f} %."
    )
    head = ["layers", "scheme", "S", "G", "K", "bytes", "line GB/s", "real s", "simulated s"]
    report.table([*head, "error"], rows)
    if given.quick:
        print(*rows, sep="\n")
    else:
        report.write()


if __name__ == "__main__":
    main()
