"""Training from disk beside its peers: who reads what, and how long does it take, on one trace?

One graph with communities and shuffled ids, one trace of sampled batches, one memory: a tenth of
the features beside the least that our Loader takes. Every measured system is a process in a cgroup
of what it holds after its imports, a constant for the model, and that memory; no file is in memory
when it begins; systems take turns.

Gather only: our plans; Ginex's policy with several superbatches, on our executor; maps with random
advice, by two and 64 threads of torch's `index_select` (without advice, a read-ahead of megabytes
makes a batch take half a minute: that map is left to `out_of_core.py`); a static cache and LRU
before a map; GraphBolt's reader of rows on disk, compiled from its repository, behind SIEVE, which
is its cache's policy. Whole training steps: PyG's NeighborLoader on memory maps (PyG+), with a
neighbour cache by out-/in-degree and static rows, Ginex's way, and ours, also with a model of no
cost. Counted, not run: MariusGNN's buffer of partitions and DiskGNN's packing and replay.

    python benchmarks/disk_peers.py [FOLDER] [--quick]
"""

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from common.report import Report, median_spread

from foregather.gather.disk import STAGING
from foregather.graph.order import find_order
from foregather.graph.order.find import to_places
from foregather.observe.calibration import load_calibration
from foregather.plan.baselines.peers import pack_and_replay, partition_buffer
from foregather.plan.cost import ASSUMED_DISK
from foregather.plan.planner import file_geometry
from foregather.units import format_bytes, format_number

OURS = "plan:ours"
GATHER = {
    OURS: "ours",
    "plan:ginex:64": "Ginex's policy, superbatch 64",
    "plan:ginex:128": "Ginex's policy, superbatch 128",
    "plan:ginex:256": "Ginex's policy, superbatch 256",
    "rows: GraphBolt": "GraphBolt's reader behind SIEVE",
    "rows: static": "static rows before a map, 64 threads",
    "rows: LRU": "LRU before a map, 64 threads",
    "rows: 64 threads": "map, random advice, 64 threads of index_select",
    "rows: 2 threads": "map, random advice, 2 threads of index_select",
}
WHOLE = {
    "ours": "ours",
    "PyG+": "PyG+, rows by 64 threads",
    "PyG+, own gather": "PyG+, PyG's own gather",
    "lists, static": "neighbour cache, static rows before a map",
    "ginex": "Ginex's way",
}
SHARE, PARTITIONS, EPOCHS = 0.1, 64, (1, 5, 50)


def gather(report: Report, case: Any, memory: int, quick: bool) -> None:
    """Rows of the trace, by every system."""
    from paper_ginex.runs import turns

    least = 32 if quick else 96
    found = turns(case, tuple(GATHER), "none", memory, 2 if quick else 3, least=least)
    base = statistics.median(one["seconds"] for one in found[OURS])
    rows = []
    for system, label in GATHER.items():
        runs = found[system]
        if any("error" in one for one in runs):
            rows.append([label, f"not run: {runs[-1].get('error', '')[:90]}", "", "", "", "", ""])
            continue
        seconds = [one["seconds"] for one in runs]
        last = runs[-1]
        more = ["", "", ""]
        if "requests" in last:
            read = format_bytes(int(last["bytes"]))
            more = [f"{last['requests']:,.0f}", read, f"{100 * last['misses']:.1f}"]
        ratio = f"{statistics.median(seconds) / base:.2f}"
        peak = format_bytes(last["peak"]) if last["peak"] else "no cgroup"
        rows.append([label, median_spread(seconds), ratio, *more, peak])
    report.line(
        f"**Rows only**, memory {format_bytes(memory)}: a tenth of the features, staging and two "
        f"outputs; all batches of the trace by plans, {least} by maps after the first ones"
    )
    report.line(f"Ours read {found[OURS][-1].get('way', '')}.")
    head = "system,s a batch,times ours,requests,bytes,misses / 100 rows,peak of cgroup"
    report.table(head.split(","), rows)


def whole(report: Report, case: Any, memory: int, quick: bool) -> None:
    """Training steps by every system."""
    from paper_ginex.runs import turns

    size = 32 if quick else 128
    rows = []
    for model in ("SAGE", "none"):
        found = turns(
            case,
            tuple(WHOLE),
            model,
            memory,
            1 if quick else 2,
            least=64 if quick else 256,
            superbatch=size,
        )
        base = [one.get("seconds", np.nan) for one in found["ours"]]
        for system, label in WHOLE.items():
            runs = found[system]
            if any("error" in one for one in runs):
                rows.append(
                    [model, label, f"not run: {runs[-1].get('error', '')[:90]}", "", "", ""]
                )
                continue
            seconds = [one["seconds"] for one in runs]
            ratio = f"{statistics.median(seconds) / statistics.median(base):.2f}"
            first = f"{statistics.median(one['first'] for one in runs):.2f}"
            each = f"{runs[-1]['rows']:,.0f}"
            rows.append([model, label, median_spread(seconds), ratio, first, each])
    report.line(
        "**Whole steps**: sampling from disk or from a map, rows, PyG's GraphSAGE with 64 hidden "
        f"columns (trimmed), or nothing; superbatches of {size} for Ginex; the "
        "first bulk or superbatch of each system is not timed."
    )
    head = "model,system,s a batch,times ours,s to the first,rows a batch"
    report.table(head.split(","), rows)


def simulated(report: Report, case: Any, trace: list[list[Any]], slots: int) -> None:
    """Policies of MariusGNN and DiskGNN, counted on the trace, in both orders of the rows."""
    disk = load_calibration(case.folder) or ASSUMED_DISK
    geometry = file_geometry(case.graph.num_nodes, 4 * case.graph.features.width)
    places = to_places(find_order(case.graph, "communities"))
    moved = [[places[ids] for ids in bulk] for bulk in trace]
    rows = []
    for order, given in (("by id", trace), ("by communities", moved)):
        made = partition_buffer(given, geometry, slots, PARTITIONS)
        rows.append(
            [
                f"MariusGNN: {PARTITIONS} partitions {order}",
                f"{made.requests:,}",
                format_bytes(made.bytes),
                f"{made.bytes / disk.sequential_read:.2f}",
                "0 bytes",
                f"{made.kept / made.rows:.0%} of the rows; the others are left out",
            ]
        )
    packed = pack_and_replay(trace, geometry, slots)
    for epochs in EPOCHS:
        seconds = (packed.bytes + (packed.scanned + packed.hot_bytes) / epochs) / (
            disk.sequential_read
        ) + packed.written / epochs / disk.sequential_write
        rows.append(
            [
                f"DiskGNN: packed once for {format_number(epochs, 'epoch')}",
                f"{packed.requests:,}",
                format_bytes(int(packed.moved(epochs))),
                f"{seconds:.2f}",
                format_bytes(packed.written),
                "all rows" + ("" if epochs == 1 else f"; the same batches in {epochs} epochs"),
            ]
        )
    report.line(
        f"**Counted, not run**, for all batches of the trace, {slots:,} rows of memory; seconds "
        "are of the disk at its sequential rates. DiskGNN's reordered cache on disk, which makes "
        "its files smaller, is left out. Each batch of MariusGNN is trained when the buffer holds "
        "most of its rows."
    )
    head = "policy,requests,bytes moved,disk seconds,disk space,what a batch gets"
    report.table(head.split(","), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the graph is made")
    parser.add_argument("--quick", action="store_true", help="a smaller graph, one round")
    parser.add_argument("--parts", nargs="+", default=["gather", "whole", "simulated"])
    options = parser.parse_args()
    if options.folder:
        os.environ["FOREGATHER_PAPER_FOLDER"] = str(options.folder)
    from paper_ginex.cases import FANOUT, get_case, save_trace
    from paper_ginex.end_to_end import need_pyg_lib
    from paper_ginex.runs import MODEL_BYTES, memory_of

    need_pyg_lib()
    case = get_case("communities", options.quick)
    count, bulk = 256, 64
    trace = case.trace(count, bulk)
    save_trace(case.folder, trace)
    memory = memory_of(case, SHARE)
    asked = sum(len(ids) for part in trace for ids in part) / count
    report = Report("disk_peers", __doc__)
    known = "calibrated" if load_calibration(case.folder) else "not calibrated, assumed figures"
    report.line(
        f"{case.about}, {format_bytes(case.graph.features.nbytes)} of features; {count} batches of "
        f"{case.batch} input nodes, fan-out {FANOUT}, {asked:,.0f} rows each, bulks of {bulk}. "
        f"Memory {format_bytes(memory)}, and {format_bytes(MODEL_BYTES)} for the model, above what "
        f"a process holds after its imports. The disk is {known}."
    )
    if options.quick:
        report.line("Small graph and few rounds (`--quick`).")
    if "gather" in options.parts:
        most = max(len(ids) for part in trace for ids in part)
        row = 4 * case.graph.features.width
        rows_only = int(SHARE * case.graph.features.nbytes) + STAGING + 2 * most * row
        gather(report, case, rows_only, options.quick)
    if "whole" in options.parts:
        whole(report, case, memory, options.quick)
    if "simulated" in options.parts:
        simulated(report, case, trace, int(SHARE * case.graph.num_nodes))
    report.write()


if __name__ == "__main__":
    main()
