"""Order: how much less is read when feature rows lie in an order, and batches are dealt by it?

One trace of sampled batches per graph (fan-out 10, 10; batches of 512; two bulks), planned for
every order in the cheapest way of reading, caches of 5, 10 and 25 % of the rows, rows of 32, 128
and 768 float32 columns. Bytes are those of the plans, which the executor reads exactly; seconds of
the first tables are of the disk, from its calibration. "useful" is a byte of a row that a batch
asks for. "near" deals other batches (Near(128, 16)), so its trace is another one. "ginex" is its
policy with the best of bulks of 32, 64 and all batches; "limit" is what no order can beat with this
cache: the rows that Belady by rows misses, read without a gap at the sequential rate.

The last table is measured: seconds of a batch from a Loader whose model costs nothing, features in
float16, interleaved, beside the same Loader in memory.

    python benchmarks/order.py FOLDER [--nodes 1M] [--quick] [--measure-only | --plan-only]
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from common.report import Report, median_spread

from foregather import BatchContents, Graph, Loader, _core
from foregather.graph.order import find_order, reorder
from foregather.graph.order.find import to_places
from foregather.graph.synthetic import synthesize
from foregather.loader.near import Dealer, Near
from foregather.observe.calibration import load_calibration
from foregather.plan import choose
from foregather.plan.baselines.policies import Setting, run_policy
from foregather.plan.cost import ASSUMED_DISK, plan_cost
from foregather.plan.planner import file_geometry, summarize, with_block
from foregather.sampling import Neighbor
from foregather.units import format_bytes, parse_count

FANOUT, BATCH = [10, 10], 512
ORDERS = ("ids", "bfs", "hot", "communities", "hot+communities")
REAL = {"actors_collab": True, "cnr2000": False, "ogbn_arxiv": True}  # whether made undirected
POINTS = ((128, 0.05), (128, 0.1), (128, 0.25), (32, 0.1), (768, 0.1))

Trace = list[list[Any]]


def graphs(folder: Path, nodes: int) -> dict[str, Graph]:
    """Topologies; widths are of the plans alone."""
    found = {}
    for mixing in (0.1, 0.5):
        path = folder / f"synth_{nodes}_{mixing}"
        if not path.exists():
            shape = {"degree": 16, "features": 1, "classes": 16, "seed": 0}
            synthesize(path, nodes, mixing=mixing, **shape)
        found[f"synth, mixing {mixing}"] = Graph.open(path)
    data = Path(os.environ.get("FOREGATHER_DATA", "data"))
    for name, undirected in REAL.items():
        if (data / f"{name}.npz").exists():
            with np.load(data / f"{name}.npz") as arrays:
                given = arrays["edge_index"], int(arrays["num_nodes"])
            found[name] = Graph.from_edge_index(*given, undirected=undirected)
    return found


def trace(graph: Graph, seeds: Any, batches: int) -> Trace:
    parts = [seeds[k : k + BATCH] for k in range(0, min(len(seeds), batches * BATCH), BATCH)]
    half = -(-len(parts) // 2)
    return [
        [s.node.copy() for s in Neighbor(FANOUT).sample_bulk(graph, part, seed=0, first_batch=k)]
        for k, part in ((0, parts[:half]), (half, parts[half:]))
        if part
    ]


def moved(batches: Trace, places: Any) -> Trace:
    return [[np.ascontiguousarray(places[one]) for one in bulk] for bulk in batches]


def best_ginex(batches: Trace, geometry: Any, slots: int, disk: Any) -> tuple[int, float]:
    flat = [one for bulk in batches for one in bulk]
    costs = []
    for size in sorted({32, 64, len(flat)}):
        bulks = [flat[k : k + size] for k in range(0, len(flat), size)]
        cost = plan_cost(run_policy("ginex", bulks, Setting(geometry, slots)), disk)
        costs.append((cost.seconds, cost.bytes))
    seconds, read = min(costs)
    return read, seconds


def limit(batches: Trace, geometry: Any, slots: int, disk: Any) -> tuple[int, float]:
    """Bytes and seconds below which no order comes with this look-ahead and cache."""
    planner = _core.Planner(with_block(geometry, 4096), slots, riders=False, bounds=False)
    later = [*batches[1:], []]
    plans = [planner.plan(bulk, ahead) for bulk, ahead in zip(batches, later, strict=True)]
    read = sum(summarize(plan).misses for plan in plans) * geometry.row_bytes
    return read, read / disk.sequential_read


def plan_graph(report: Report, name: str, graph: Graph, disk: Any, quick: bool) -> None:
    nodes, batches = graph.num_nodes, 32 if quick else 64
    seeds = np.random.default_rng(0).permutation(nodes)
    by_chance = trace(graph, seeds, batches)
    places, spent = {}, {}
    for order in ORDERS:
        started = time.process_time()
        places[order] = to_places(find_order(graph, order))
        spent[order] = time.process_time() - started
    line = np.argsort(places["communities"], kind="stable").astype(np.int64)
    dealt = np.empty(min(nodes, batches * BATCH), np.int64)
    Dealer(line, BATCH, Near()).fill(0, 0, 0, dealt)
    traces = {order: moved(by_chance, places[order]) for order in ORDERS}
    traces["communities, near"] = moved(trace(graph, dealt, batches), places["communities"])
    count = sum(map(len, by_chance))
    asked = {key: sum(len(one) for bulk in found for one in bulk) for key, found in traces.items()}
    rows = []
    for width, share in POINTS[1:2] if quick else POINTS:
        geometry, slots = file_geometry(nodes, 4 * width), max(1, int(nodes * share))
        today = 0.0
        for key, found in traces.items():
            way = choose(found, geometry, slots, disk).best
            today = today or way.seconds
            rows.append(
                [
                    f"{width}, {share:.0%}",
                    key,
                    f"{way.caching}, {way.block_bytes >> 10} KiB",
                    *cells(way.bytes, way.seconds, today, asked[key], count, geometry.row_bytes),
                ]
            )
        plain = traces["ids"]
        for key, (read, seconds) in (
            ("ginex", best_ginex(plain, geometry, slots, disk)),
            ("limit, any order", limit(plain, geometry, slots, disk)),
            ("limit, near", limit(traces["communities, near"], geometry, slots, disk)),
        ):
            of = asked["communities, near" if key == "limit, near" else "ids"]
            rows.append(
                [
                    f"{width}, {share:.0%}",
                    key,
                    "",
                    *cells(read, seconds, today, of, count, geometry.row_bytes),
                ]
            )
    found = ", ".join(f"{order} {spent[order]:.1f}" for order in ORDERS[1:])
    report.line(
        f"**{name}**: {nodes:,} nodes, {graph.num_edges:,} edges; {count} batches ask for "
        f"{asked['ids'] / count:,.0f} rows each, near {asked['communities, near'] / count:,.0f}; "
        f"CPU seconds of finding an order: {found}."
    )
    head = "columns and memory,rows lie by,way,bytes per useful,s a batch,times fewer seconds"
    report.table(head.split(","), rows)


def cells(
    read: int, seconds: float, today: float, rows: int, batches: int, row_bytes: int
) -> list[str]:
    return [
        f"{read / (rows * row_bytes):.2f}",
        f"{seconds / batches:.5f}",
        f"{today / seconds:.2f}" if seconds else "",
    ]


def measure(report: Report, folder: Path, nodes: int, quick: bool) -> None:
    """Loaders over folders, with a model of no cost."""
    plain, ordered = folder / f"half_{nodes}", folder / f"half_{nodes}_communities"
    if not plain.exists():
        shape = {"degree": 16, "features": 128, "classes": 16, "seed": 0, "mixing": 0.1}
        synthesize(plain, nodes, dtype="float16", **shape)
    if not ordered.exists():
        reorder(plain, ordered, "communities")
    size = Graph.open(plain)
    held = size.indices.nbytes + size.indptr.nbytes + (400 << 20)
    memory = size.features.nbytes // 10 + held
    batches = 48 if quick else 96
    ways: dict[str, tuple[Path, int | None, Any]] = {
        "memory": (plain, None, True),
        "disk, by id": (plain, memory, True),
        "disk, communities": (ordered, memory, True),
        "memory, near": (ordered, None, Near()),
        "disk, communities, near": (ordered, memory, Near()),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for _ in range(2 if quick else 5):
        for name, way in ways.items():
            found[name].append(loop(*way, batches))
    base = {
        "": statistics.median(one["seconds"] for one in found["memory"]),
        "near": statistics.median(one["seconds"] for one in found["memory, near"]),
    }
    rows = []
    for name, runs in found.items():
        seconds = [one["seconds"] for one in runs]
        own = base["near" if "near" in name else ""]
        rows.append(
            [
                name,
                median_spread(seconds),
                f"{statistics.median(seconds) / own:.2f}",
                f"{runs[0]['first']:.2f}",
                f"{runs[0]['per_useful']:.2f}",
                f"{runs[0]['rows']:,.0f}",
            ]
        )
    report.line(
        f"**Measured**, {nodes:,} nodes x 128 float16, mixing 0.1, batches of {BATCH}, {batches} "
        f"batches; memory {format_bytes(memory)}: a tenth of the features beside topology and "
        "batches. Ratios are to the same batches from memory."
    )
    head = "where,s a batch,times in memory,s to the first,bytes per useful,rows a batch"
    report.table(head.split(","), rows)


def loop(path: Path, memory: int | None, shuffle: Any, batches: int) -> dict[str, float]:
    graph = Graph.open(path)
    if memory is not None:
        with open(path / "features.npy", "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    options = {} if memory is None else {"memory": memory, "storage": "features"}
    contents = BatchContents(labels="seeds", pyg=False)
    loader = Loader(
        graph, FANOUT, None, BATCH, shuffle=shuffle, bulk=32, contents=contents, **options
    )
    started, marks, rows = time.perf_counter(), [], 0
    for batch in loader:
        marks.append(time.perf_counter() - started)
        rows += len(batch.n_id)
        if len(marks) == batches:
            break
    counted = loader.counters().get("features", {}) if memory is not None else {}
    loader.close()
    quarter = len(marks) // 4
    read = counted.get("bytes", 0) + counted.get("written", 0)
    return {
        "seconds": (marks[-1] - marks[quarter]) / (len(marks) - 1 - quarter),
        "first": marks[0],
        "per_useful": read / (rows * graph.features.width * graph.features.dtype.itemsize),
        "rows": rows / len(marks),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("order"))
    parser.add_argument("--nodes", default="1M")
    parser.add_argument("--quick", action="store_true", help="one point, fewer rounds")
    parser.add_argument("--measure-only", action="store_true")
    parser.add_argument("--plan-only", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    nodes = parse_count(options.nodes)
    report = Report("order_loop" if options.measure_only else "order", __doc__)
    disk = load_calibration(options.folder)
    report.line("the disk was measured" if disk else "the disk was not measured: default figures")
    if not options.measure_only:
        for name, graph in graphs(options.folder, nodes).items():
            plan_graph(report, name, graph, disk or ASSUMED_DISK, options.quick)
    if not options.plan_only:
        measure(report, options.folder, nodes, options.quick)
    report.write()


if __name__ == "__main__":
    main()
