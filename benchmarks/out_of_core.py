"""Out of core: how fast are feature rows gathered with a cache of a part of them, and an epoch?

One trace of sampled batches for all, one memory for all (cache, staging and two outputs; the trace
and the planner's tables are outside it for everybody), every run in a process of its own under a
cgroup limit of that memory plus a stated constant, with the page cache of the file dropped before.
"ginex" is its policy (row Belady, cold bulks, one 4 KiB read a missed row) on our executor, so that
the difference to "ours" is the plan alone; "ginex:128" has both bulks as one superbatch of 128
batches, which is kinder to it than ours. The map is read in five ways, each for some seconds, among
them random advice with 64 threads, which is the best a map can do, and torch's `index_select` with
two threads; all stay in the table. Training has a column with a model of no cost, which hides no
reading. A disk without a calibration is priced by assumed figures, and the report says so.

    python benchmarks/out_of_core.py [FOLDER] [--nodes 10M] [--quick]
"""

import argparse
import itertools
import json
import mmap
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from common.cgroup import Cgroup
from common.executed import ready
from common.folder import working_folder
from common.report import Report, median_spread

from foregather import BatchContents, Graph
from foregather.graph.synthetic import synthesize
from foregather.observe.calibration import load_calibration
from foregather.sampling import Neighbor
from foregather.units import format_bytes, parse_count

QUICK = "--quick" in sys.argv  # one round of few batches; children are told, too
MAP_SECONDS = 0.5 if QUICK else 6.0
CONSTANT = 700 << 20  # interpreter, torch, the trace and the planner's tables
BULK, BULKS, BATCH, FANOUT = 64, 2, 32 if QUICK else 512, [10, 10]
MAPS = (
    "map",
    "map, random advice",
    "map, 32 threads",
    "map, random advice, 64 threads",
    "map, random advice, index_select 2",
)
SYSTEMS = ("ours", "ginex", "ginex:128", *MAPS)


# ---- a run in its own process ------------------------------------------------------------------


def load_trace(folder: Path) -> list[list[Any]]:
    ids, ptr = np.load(folder / "trace.npy"), np.load(folder / "trace_ptr.npy")
    batches = [ids[a:b] for a, b in itertools.pairwise(ptr)]
    return [batches[k : k + BULK] for k in range(0, len(batches), BULK)]


def gather_by_map(folder: Path, system: str) -> dict[str, Any]:
    graph = Graph.open(folder / "graph")
    data = graph.features.data
    with open(folder / "graph" / "features.npy", "rb") as file:
        held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    if "random advice" in system:
        held.madvise(mmap.MADV_RANDOM)
    rows = np.frombuffer(held, data.dtype, data.size, offset=4096).reshape(data.shape)
    trace = [batch for bulk in load_trace(folder) for batch in bulk]
    out = np.empty((max(len(b) for b in trace), data.shape[1]), data.dtype)
    out[:] = 0
    if "index_select" in system:
        return {"seconds": gather_by_torch(rows, trace)}
    threads = next((count for count in (32, 64) if f"{count} threads" in system), 0)
    pool = ThreadPoolExecutor(threads) if threads else None
    # Faults can be slow, so a run is a time: what it gathered counts, from its second half on.
    piece, marks, done = (256 if pool is None else 2048), [(0.0, 0)], 0
    started = time.perf_counter()
    pieces = (ids[k : k + piece] for ids in trace for k in range(0, len(ids), piece))
    for ids in pieces:
        if pool is None:
            np.take(rows, ids, axis=0, out=out[: len(ids)])
        else:
            parts = [p for p in np.array_split(np.arange(len(ids)), threads) if len(p)]
            jobs = [pool.submit(np.take, rows, ids[p], 0, out[p[0] : p[-1] + 1]) for p in parts]
            for job in jobs:
                job.result()
        done += len(ids)
        marks.append((time.perf_counter() - started, done))
        if marks[-1][0] > MAP_SECONDS:
            break
    half = (len(marks) - 1) // 2
    taken, gathered = marks[-1][0] - marks[half][0], marks[-1][1] - marks[half][1]
    mean = sum(len(batch) for batch in trace) / len(trace)
    return {"seconds": taken / gathered * mean}


def gather_by_torch(rows: Any, trace: list[Any]) -> float:
    """Seconds a batch of torch's own gather, two threads; its second half counts."""
    import warnings

    import torch

    torch.set_num_threads(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the map is read-only, and nothing is written
        held = torch.from_numpy(rows)
    marks, started = [(0.0, 0)], time.perf_counter()
    pieces = (ids[k : k + 2048] for ids in trace for k in range(0, len(ids), 2048))
    for ids in pieces:
        torch.index_select(held, 0, torch.from_numpy(ids.astype(np.int64)))
        marks.append((time.perf_counter() - started, marks[-1][1] + len(ids)))
        if marks[-1][0] > MAP_SECONDS:
            break
    half = (len(marks) - 1) // 2
    taken, gathered = marks[-1][0] - marks[half][0], marks[-1][1] - marks[half][1]
    return taken / gathered * sum(len(batch) for batch in trace) / len(trace)


def gather_by_plan(folder: Path, system: str, memory: int) -> dict[str, Any]:
    """Gathers by plan: "ginex", "ours" (what the cost model chooses), or a way that is forced.

    Those are "ours:repack", and "ours:65536" for rows read in blocks of that size.
    """
    from foregather.gather.disk import STAGING, DiskFeatures
    from foregather.gather.feature_file import FeatureFile
    from foregather.gather.repack import SWEEP_STAGING, WRITE_BYTES, RepackFeatures
    from foregather.plan import choose
    from foregather.plan.baselines.policies import Setting, run_policy
    from foregather.plan.cost import ASSUMED_DISK
    from foregather.plan.planner import announce
    from foregather.plan.repack import RepackPlanner

    file = FeatureFile.of(Graph.open(folder / "graph"))
    trace = load_trace(folder)
    known = load_calibration(folder / "graph")
    disk = known or ASSUMED_DISK
    most = max(len(b) for bulk in trace for b in bulk)
    room = memory - STAGING - 2 * most * file.row_bytes
    slots = room // file.row_bytes
    geometry, gap, depth, repack, cached = file.geometry(), 0, 128, False, "row"
    name, _, forced = system.partition(":")
    if name == "ginex" and forced:
        trace = [[batch for bulk in trace for batch in bulk]]
    if name == "ours":
        choice = choose(trace[:1], geometry, slots, known)
        best = choice.using("repack").best if forced == "repack" else choice.best
        repack = best.caching == "repack" and not forced.isdigit()
        cached = "row" if forced.isdigit() else best.caching
        gap, depth = best.merge_gap if not forced.isdigit() else 0, best.depth
        geometry = file.geometry(int(forced) if forced.isdigit() else best.block_bytes)
    started = time.perf_counter()
    if repack:
        slots = (room - SWEEP_STAGING - WRITE_BYTES) // file.row_bytes
        planner = RepackPlanner(file.geometry(), slots, merge_gap=gap)
        later = [*trace[1:], []]
        plans = [planner.plan(bulk, ahead) for bulk, ahead in zip(trace, later, strict=True)]
    else:
        setting = Setting(geometry, slots, gap, bounds=name == "ours")
        plans = list(run_policy("page" if cached == "page" else name, trace, setting))
    planning = time.perf_counter() - started
    make = RepackFeatures if repack else DiskFeatures
    with make(file, slots, depth=depth) as features:
        outs = [np.zeros((most, file.width), file.gathered_dtype) for _ in range(2)]
        started = time.perf_counter()
        for plan in ready(features, plans) if repack else plans:
            features.append(plan)
            for number, count in enumerate((plan.rows if repack else plan).num_rows):
                features.step_into(outs[number % 2][:count])
        seconds = time.perf_counter() - started
        counted = features.counters()
    announced = planner.announce if repack else announce
    total, cost = announced(plans[0], disk)
    for plan in plans[1:]:
        more = announced(plan, disk)
        total, cost = total + more[0], cost + more[1]
    assert (counted["requests"], counted["bytes"]) == (total.requests, total.bytes)
    batches = sum(len(bulk) for bulk in trace)
    way = f"{'blocks' if cached == 'page' else 'rows'} by {geometry.block_bytes >> 10} KiB"
    if repack:
        scratch = max(plan.repack.scratch.geometry.file_bytes for plan in plans if plan.repack)
        way = f"repack, {format_bytes(3 * scratch)} of scratch at most"
    return {
        "seconds": seconds / batches,
        "planning": planning / batches,
        "requests": total.requests / batches,
        "bytes": (total.bytes + counted.get("written", 0)) / batches,
        "hits": total.hits / total.rows,
        "ratio": None if repack else total.ratio,
        "way": way if name == "ours" else "rows, one read each",
        "assumed": known is None,
        "predicted": cost.seconds / batches,
        "waiting": counted["waiting"] / batches,
        "copying": counted["copying"] / batches,
        "sweeping": counted.get("sweeping", 0.0) / batches,
        "accesses": total.rows / planning,
    }


def train_epoch(folder: Path, name: str, memory: int | None, batches: int) -> dict[str, Any]:
    import torch

    from foregather import Loader
    from foregather.nn import SAGE

    torch.manual_seed(0)
    graph = Graph.open(folder / ("graph16" if "float16" in name else "graph"))
    if memory is None:  # everything in memory, touched before the clock starts
        kept = graph.features.data
        for first in range(0, len(kept), 1 << 18):
            kept[first : first + (1 << 18)].sum()
        graph.indices.sum()
    loader = Loader(
        graph, FANOUT, "train", BATCH, shuffle=True, bulk=32,
        contents=BatchContents(labels="seeds", pyg=False),
        memory=memory, storage="auto" if memory is None else "features",
    )  # fmt: skip
    model = SAGE([graph.features.width, 64, int(graph.labels[:1000].max()) + 2])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss, started, seconds = torch.zeros(()), 0.0, []
    for batch in loader:
        if batch.number == batches:
            break
        started = started or time.perf_counter()
        if "no model" in name:
            loss = batch.x[:1].float().sum()  # the batch is there; nothing hides how it came
            seconds.append(time.perf_counter())
            continue
        optimizer.zero_grad()
        scores = model(batch.x.float(), batch.edge_index)[: batch.batch_size]
        labels = batch.y[: batch.batch_size].clamp(min=0, max=scores.shape[1] - 1)
        loss = torch.nn.functional.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter())
    each = (seconds[-1] - seconds[len(seconds) // 4]) / (len(seconds) * 3 // 4)
    way = ""
    if loader.layout is not None:
        way = f"{loader.layout.caching} by {loader.layout.block >> 10} KiB"
    return {"seconds": each, "loss": float(loss), "batches": len(seconds), "way": way}


# ---- the harness --------------------------------------------------------------------------------


def run(folder: Path, system: str, memory: int | None, batches: int) -> dict[str, Any]:
    """One run in a child, under a limit where there is a memory."""
    for name in ("graph/features.npy", "graph/indices.npy", "graph16/features.npy"):
        with open(folder / name, "rb") as file:
            if memory is not None:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    command = [sys.executable, __file__, str(folder), "--child", system, "--batches", str(batches)]
    command += ["--quick"] if QUICK else []
    if memory is None:
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    command += ["--memory", str(memory)]
    with Cgroup(memory + CONSTANT) as group:
        done = subprocess.run(command, capture_output=True, preexec_fn=group.join)
        if done.returncode != 0:
            raise SystemExit(done.stderr.decode()[-2000:])
        peak = group.read("memory.max_usage_in_bytes")
    return {**json.loads(done.stdout), "peak": peak}


def prepare(folder: Path, nodes: int) -> Graph:
    """The graph and the trace, made once."""
    shape = {"degree": 16, "features": 128, "classes": 16, "seed": 0}
    for name, dtype in (("graph", "float32"), ("graph16", "float16")):
        if not (folder / name).exists():
            synthesize(folder / name, nodes, dtype=dtype, **shape)
    graph = Graph.open(folder / "graph")
    if not (folder / "trace.npy").exists():
        seeds = np.random.default_rng(0).permutation(graph.num_nodes)[: BULK * BULKS * BATCH]
        parts = np.split(seeds, BULK * BULKS)
        made = [
            Neighbor(FANOUT).sample_bulk(graph, parts[k : k + BULK], seed=0, first_batch=k)
            for k in range(0, len(parts), BULK)
        ]
        batches = [sample.node for bulk in made for sample in bulk]
        np.save(folder / "trace.npy", np.concatenate(batches))
        np.save(folder / "trace_ptr.npy", np.cumsum([0, *(len(b) for b in batches)]))
    return graph


def gather_table(report: Report, folder: Path, graph: Graph) -> None:
    """Every system at every memory, interleaved."""
    whole = graph.features.nbytes
    for share in (0.5,) if QUICK else (0.1, 0.05):
        memory = int(whole * share)
        found: dict[str, list[dict[str, Any]]] = {}
        for _ in range(1 if QUICK else 3):
            for system in SYSTEMS:
                found.setdefault(system, []).append(run(folder, system, memory, 0))
        best = {name: [r["seconds"] for r in runs] for name, runs in found.items()}
        ours = statistics.median(best["ours"])
        rows = [
            [
                name,
                runs[0].get("way", ""),
                median_spread(best[name]),
                f"{statistics.median(best[name]) / ours:.2f}",
                f"{runs[0].get('requests', 0):,.0f}" if "requests" in runs[0] else "",
                format_bytes(int(runs[0]["bytes"])) if "bytes" in runs[0] else "",
                f"{runs[0]['hits']:.0%}" if "hits" in runs[0] else "",
                f"{runs[0]['ratio']:.2f}" if runs[0].get("ratio") else "",
                f"{runs[0]['planning']:.4f}" if "planning" in runs[0] else "",
                format_bytes(max(r["peak"] or 0 for r in runs)),
            ]
            for name, runs in found.items()
        ]
        report.line(f"**Memory {share:.0%} of the features ({format_bytes(memory)})**, gather only")
        head = "system,way,s a batch,times ours,requests,bytes,hits,blocks/bound,planning s,peak"
        report.table(head.split(","), rows)


def epoch_table(report: Report, folder: Path, graph: Graph) -> None:
    """Training with a tenth of the features beside training in memory."""
    batches = 8 if QUICK else 128
    memory = graph.features.nbytes // 10 + graph.indices.nbytes + graph.indptr.nbytes + (400 << 20)
    found: dict[str, list[dict[str, Any]]] = {}
    limits = (("memory", None), ("a tenth", memory), ("a tenth, float16", memory))
    for _ in range(1 if QUICK else 3):
        for name, limit in limits:
            for model in ("", ", no model"):
                system = f"train:{name}{model}"
                found.setdefault(system, []).append(run(folder, system, limit, batches))
    report.line(
        f"**Training**, GraphSAGE with 64 hidden columns, {batches} batches; budget of the second: "
        f"{format_bytes(memory)} for topology, batches, plans and a cache of about a tenth of the "
        "features; features in float16 have the same budget. A model hides reading; the columns "
        "with a model of no cost show what a batch takes by itself. Losses of the last batch: "
        f"{[round(found[f'train:{name}'][0]['loss'], 6) for name, _ in limits]}."
    )
    middle = {k: statistics.median(r["seconds"] for r in runs) for k, runs in found.items()}
    rows = []
    for name, _ in limits:
        row = [name, found[f"train:{name}"][0]["way"]]
        for model in ("", ", no model"):
            seconds = [r["seconds"] for r in found[f"train:{name}{model}"]]
            ratio = middle[f"train:{name}{model}"] / middle[f"train:memory{model}"]
            row += [median_spread(seconds), f"{ratio:.2f}"]
        rows.append(row)
    head = ["where", "way", "s a batch", "times memory", "s, model of no cost", "times memory"]
    report.table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="kept; see working_folder")
    parser.add_argument("--nodes", default="10M")
    parser.add_argument("--quick", action="store_true", help="one round, few batches")
    parser.add_argument("--child")
    parser.add_argument("--memory", type=int)
    parser.add_argument("--batches", type=int, default=0)
    options = parser.parse_args()
    if options.child:
        if options.child.startswith("train:"):
            made = train_epoch(options.folder, options.child, options.memory, options.batches)
        elif options.child in MAPS:
            made = gather_by_map(options.folder, options.child)
        else:
            made = gather_by_plan(options.folder, options.child, options.memory)
        print(json.dumps(made))
        return
    with working_folder(options.folder) as folder:
        compare(folder, parse_count(options.nodes))


def compare(folder: Path, nodes: int) -> None:
    graph = prepare(folder, nodes)
    report = Report("out_of_core", __doc__)
    report.line(
        f"{graph.num_nodes:,} nodes with communities and shuffled ids, {graph.num_edges:,} edges, "
        f"{graph.features.width} columns of {graph.features.dtype} "
        f"({format_bytes(graph.features.nbytes)}); fan-out {FANOUT}, batch {BATCH}, "
        f"{BULKS} bulks of {BULK}; limit: memory + {format_bytes(CONSTANT)}."
    )
    if load_calibration(folder / "graph") is None:
        report.line("The disk was not measured: assumed figures decide; run foregather doctor.")
    gather_table(report, folder, graph)
    epoch_table(report, folder, graph)
    report.write()


if __name__ == "__main__":
    main()
