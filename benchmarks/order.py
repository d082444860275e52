"""Order: how much less is read when feature rows lie in an order, and batches are dealt by it?

One trace of sampled batches per graph (fan-out 10, 10; batches of 512; two bulks), planned for
every order in the cheapest way of reading, caches of 5, 10 and 25 % of the rows, rows of 32, 128
and 768 float32 columns. Bytes are those of the plans, which the executor reads exactly; seconds of
the first tables are of the disk, from its calibration. "useful" is a byte of a row that a batch
asks for. "near" deals other batches (Near(128, 16)), so its trace is another one. "ginex" is its
policy with the better of bulks of 32 and 64; larger ones are listed below each table. "limit" is
what no order can beat with this cache: the rows that Belady by rows misses, read without a gap at
the sequential rate.

The last table is measured: seconds of a batch from a Loader whose model costs nothing, features in
float16, interleaved, beside the same Loader in memory.

What dealing by locality does to accuracy is measured with GraphSAGE on ogbn_arxiv (surrogate
features, 1,024 input nodes a batch, one thread), every score exact; a seed gives the same first
weights in all ways, so differences are those of pairs.

    python benchmarks/order.py [FOLDER] [--nodes 1M] [--quick] [--only plan measure accuracy]
"""

import argparse
import itertools
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from common.folder import working_folder
from common.report import Report, median_spread

from foregather import BatchContents, BudgetError, Graph, Loader, Near, _core, reorder
from foregather.graph.order import find_order
from foregather.graph.order.find import to_places
from foregather.graph.synthetic import synthesize
from foregather.loader.near import Dealer
from foregather.observe.calibration import load_calibration
from foregather.plan import choose
from foregather.plan.baselines.policies import Setting, run_policy
from foregather.plan.cost import ASSUMED_DISK, plan_cost
from foregather.plan.planner import file_geometry, summarize, with_block
from foregather.sampling import Neighbor
from foregather.units import format_bytes, parse_count

FANOUT, BATCH = [10, 10], 512
ORDERS = ("ids", "bfs", "rcm", "metis", "hot", "communities", "hot+communities")
REAL = {"actors_collab": True, "cnr2000": False, "ogbn_arxiv": True}  # whether made undirected
POINTS = ((128, 0.1), (128, 0.05), (128, 0.25), (32, 0.1), (768, 0.1))  # all orders at the first
FEW = ("ids", "communities", "communities, near")

Trace = list[list[Any]]


def graphs(folder: Path, nodes: int, quick: bool) -> dict[str, Graph]:
    """Topologies; widths are of the plans alone."""
    found = {}
    for mixing in (0.1,) if quick else (0.1, 0.5):
        path = folder / f"synth_{nodes}_{mixing}"
        if not path.exists():
            shape = {"degree": 16, "features": 1, "classes": 16, "seed": 0}
            synthesize(path, nodes, mixing=mixing, **shape)
        found[f"synth, mixing {mixing}"] = Graph.open(path)
    data = Path(os.environ.get("FOREGATHER_DATA", "data"))
    for name, undirected in ({} if quick else REAL).items():
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


def superbatches(report: Report, name: str, graph: Graph, disk: Any) -> None:
    """Ginex's policy with larger bulks than the tables have, on a longer trace."""
    seeds = np.random.default_rng(0).permutation(graph.num_nodes)
    found = trace(graph, seeds, 256)
    flat = [one for bulk in found for one in bulk]
    geometry, slots = file_geometry(graph.num_nodes, 512), graph.num_nodes // 10
    said = []
    for size in (32, 64, 128, 256):
        if size <= len(flat):
            _, seconds = best_ginex(found, geometry, slots, disk, (size,))
            said.append(f"{size}: {seconds / len(flat):.5f}")
    report.line(
        f"**{name}, ginex with larger bulks**, 128 columns, 10 %, {len(flat)} batches; predicted "
        f"seconds of a batch by batches of a bulk: {', '.join(said)}."
    )


def best_ginex(
    batches: Trace, geometry: Any, slots: int, disk: Any, sizes: tuple[int, ...] = (32, 64)
) -> tuple[int, float]:
    flat = [one for bulk in batches for one in bulk]
    costs = []
    for size in sizes:
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
    """Plans the same epoch over every order of a graph and reports what the disk would read."""
    nodes, batches = graph.num_nodes, 64
    seeds = np.random.default_rng(0).permutation(nodes)
    by_chance = trace(graph, seeds, batches)
    places, spent = {}, {}
    for order in ORDERS:
        started = time.process_time()
        places[order] = to_places(find_order(graph, order))
        spent[order] = time.process_time() - started
        if order == "communities":
            print(f"{name}: communities in {spent[order]:.1f} CPU s", flush=True)
    line = np.argsort(places["communities"], kind="stable").astype(np.int64)
    dealt = np.empty(min(nodes, batches * BATCH), np.int64)
    Dealer(line, BATCH, Near()).fill(0, 0, 0, dealt)
    traces = {order: moved(by_chance, places[order]) for order in ORDERS}
    traces["communities, near"] = moved(trace(graph, dealt, batches), places["communities"])
    count = sum(map(len, by_chance))
    asked = {key: sum(len(one) for bulk in found for one in bulk) for key, found in traces.items()}
    rows = []
    first = POINTS[0]
    for width, share in POINTS[:1] if quick else POINTS:
        geometry, slots = file_geometry(nodes, 4 * width), max(1, int(nodes * share))
        today = 0.0
        for key, found in traces.items():
            if (width, share) != first and key not in FEW:
                continue
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
    memory = size.features.nbytes // 10 + least(ordered)
    batches = 12 if quick else 96
    ways: dict[str, tuple[Path, int | None, Any]] = {
        "memory": (plain, None, True),
        "disk, by id": (plain, memory, True),
        "disk, communities": (ordered, memory, True),
        "memory, near": (ordered, None, Near()),
        "disk, communities, near": (ordered, memory, Near()),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for _ in range(1 if quick else 5):
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
        f"batches; memory {format_bytes(memory)}: a tenth of the features beside the least that "
        "topology, bulks of 32 and batches take. Ratios are to the same batches from memory."
    )
    head = "where,s a batch,times in memory,s to the first,bytes per useful,rows a batch"
    report.table(head.split(","), rows)


def least(path: Path) -> int:
    """What a Loader takes without a cache."""
    contents = BatchContents(labels="seeds", pyg=False)
    try:
        Loader(
            Graph.open(path), FANOUT, None, BATCH, bulk=32, memory=1, storage="features",
            contents=contents,
        )  # fmt: skip
    except BudgetError as error:
        return int(error.least or 0)
    raise SystemExit("a budget of one byte was accepted")


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


def accuracy(report: Report, folder: Path, quick: bool) -> None:
    """The same training with nodes dealt by chance and by locality."""
    data = Path(os.environ.get("FOREGATHER_DATA", "data"))
    if not (data / "ogbn_arxiv_surrogate_x.npz").exists():
        report.line("**Accuracy**: skipped, since ogbn_arxiv is not in FOREGATHER_DATA.")
        return
    if not (folder / "arxiv_communities").exists():
        with np.load(data / "ogbn_arxiv.npz") as arrays:
            x = np.load(data / "ogbn_arxiv_surrogate_x.npz")["x"]
            parts = {"train": "train_idx", "valid": "val_idx", "test": "test_idx"}
            splits = {name: arrays[key].astype(np.int64) for name, key in parts.items()}
            edges, y = arrays["edge_index"], arrays["y"].astype(np.int64)
            Graph.from_edge_index(
                edges, len(y), x=x.astype(np.float32), y=y, splits=splits, undirected=True
            ).save(folder / "arxiv", overwrite=True)
        reorder(folder / "arxiv", folder / "arxiv_communities", "communities")
    graph = Graph.open(folder / "arxiv_communities")
    ways = {
        "by chance": True,
        "Near(128, 16)": Near(),
        "Near(1024, 1)": Near(1024, 1),
    }
    epochs, seeds, most = (1, 1, 4) if quick else (10, 3, None)
    kept = folder / f"accuracy_{epochs}_{most}.json"  # so that it can be stopped and continued
    known = json.loads(kept.read_text()) if kept.exists() else {}
    for seed, (name, shuffle) in itertools.product(range(seeds), ways.items()):
        if f"{seed} {name}" not in known:
            known[f"{seed} {name}"] = train(graph, folder, shuffle, (epochs, most), seed)
            kept.write_text(json.dumps(known))
            print(f"seed {seed}, {name}: {known[f'{seed} {name}']}", flush=True)
    found = {name: [known[f"{seed} {name}"] for seed in range(seeds)] for name in ways}
    base = [test for _, test in found["by chance"]]
    rows = []
    for name, scores in found.items():
        valid, test = zip(*scores, strict=True)
        less = [100 * (mine - theirs) for mine, theirs in zip(test, base, strict=True)]
        said = f"{statistics.mean(less):+.2f} ({min(less):+.2f} to {max(less):+.2f})"
        told = "" if name == "by chance" else said
        rows.append([name, median_spread(valid), median_spread(test), told])
    report.line(
        f"**Accuracy**, ogbn_arxiv with surrogate features, GraphSAGE of two layers and 128 hidden "
        f"columns, {epochs} epochs, median and range of {seeds} seeds; the last column is test "
        "accuracy in points against the same seed by chance, mean and range."
    )
    report.table(["input nodes dealt", "valid", "test", "test against chance"], rows)


def train(
    graph: Graph, folder: Path, shuffle: Any, length: tuple[int, int | None], seed: int
) -> tuple[float, float]:
    """Scores after this many epochs of at most this many batches."""
    import torch

    from foregather import infer
    from foregather.nn import SAGE

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = SAGE([graph.features.width, 128, 40])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    contents = BatchContents(labels="seeds", pyg=False)
    loader = Loader(graph, FANOUT, "train", 1024, shuffle=shuffle, seed=seed, contents=contents)
    epochs, most = length
    for _ in range(epochs):
        for batch in itertools.islice(loader, most):
            optimizer.zero_grad()
            scores = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(scores, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
    loader.close()
    infer(model, graph, folder / "scores.npy", overwrite=True)
    right = np.load(folder / "scores.npy").argmax(1) == np.asarray(graph.labels)
    valid, test = (float(right[graph.split(name)].mean()) for name in ("valid", "test"))
    return valid, test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="kept; see working_folder")
    parser.add_argument("--nodes", default="1M")
    parser.add_argument("--quick", action="store_true", help="one graph, one point, one round")
    parts = ("plan", "measure", "accuracy")
    parser.add_argument("--only", nargs="*", choices=parts, default=parts, help="these parts")
    options = parser.parse_args()
    whole = len(options.only) == len(parts)
    report = Report("order" if whole else f"order_{'_'.join(options.only)}", __doc__)
    with working_folder(options.folder) as folder:
        fill(report, folder, options)
    report.write()


def fill(report: Report, folder: Path, options: argparse.Namespace) -> None:
    nodes, disk = parse_count(options.nodes), load_calibration(folder)
    report.line("the disk was measured" if disk else "the disk was not measured: default figures")
    if "plan" in options.only:
        for name, graph in graphs(folder, nodes, options.quick).items():
            plan_graph(report, name, graph, disk or ASSUMED_DISK, options.quick or "0.5" in name)
            superbatches(report, name, graph, disk or ASSUMED_DISK)
            report.write()  # what is there is kept if the rest is stopped
    if "measure" in options.only:
        measure(report, folder, nodes, options.quick)
    if "accuracy" in options.only:
        accuracy(report, folder, options.quick)


if __name__ == "__main__":
    main()
