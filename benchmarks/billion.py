"""Does a graph of the size of ogbn-papers100M train inside 6 GB, and at what cost?

111M nodes, 1.6B edges, 128 float16 columns: 36.8 GB of files, made by `foregather synth` and kept
in FOLDER for the next run (removed without one). GraphSAGE with two layers and 64 hidden columns
trains on minibatches of 1024 seeds with fan-out [10, 10], shuffled. "planned" is
`Loader(storage="disk")`: topology and features are read by plan. "map" is the same Loader with
everything mapped, bulks of one minibatch and MADV_RANDOM (by default the kernel reads ahead, and a
minibatch takes minutes): the page cache decides. Each runs in a process of its own inside a cgroup
of 6 GB (all page cache it causes included), after the cached pages of the graph were dropped. The
first bulks, which fill the cache, are left out of the seconds.

    python benchmarks/billion.py [FOLDER] [--nodes 111M] [--edges 1.6B] [--batches 256]
"""

import argparse
import json
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common.cgroup import Cgroup
from common.folder import working_folder
from common.report import Report
from common.skip import need_disk

from foregather import BatchContents, Graph
from foregather.units import format_bytes, format_count, parse_count, parse_size

LIMIT = 6_000_000_000
BATCH, FANOUT, HIDDEN = 1024, [10, 10], 64
MAP_SECONDS = 100.0


def advise_random(array: Any) -> None:
    """Tells the kernel not to read ahead in the file an array is mapped from."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None) if not isinstance(array, memoryview) else array.obj
    if array is not None:
        array.madvise(mmap.MADV_RANDOM)


def train(folder: Path, system: str, memory: int, batches: int) -> dict[str, Any]:
    """Consecutive minibatches in this process; what they cost."""
    import torch

    from foregather import Loader
    from foregather.nn import SAGE

    torch.manual_seed(0)
    graph = Graph.open(folder / "graph")
    rest = {"shuffle": True, "seed": 0, "contents": BatchContents(labels="seeds", pyg=False)}
    if system == "planned":
        rest |= {"memory": memory, "storage": "disk"}
    else:
        rest |= {"bulk": 1}
        for array in (graph.features.data, graph.indices, graph.indptr, graph.labels):
            advise_random(array)
    opened = time.perf_counter()
    loader = Loader(graph, FANOUT, "train", BATCH, **rest)
    model = SAGE([graph.features.width, HIDDEN, int(graph.labels[:100_000].max()) + 2])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    waits, ends, nodes, edges, losses = [], [], [], [], []
    first, before = None, time.perf_counter()
    for batch in loader:
        waits.append(time.perf_counter() - before)
        optimizer.zero_grad()
        scores = model(batch.x.float(), batch.edge_index)[: batch.batch_size]
        labels = batch.y[: batch.batch_size].clamp(min=0, max=scores.shape[1] - 1)
        loss = torch.nn.functional.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        before = time.perf_counter()
        ends.append(before)
        nodes.append(len(batch.n_id))
        edges.append(batch.edge_index.shape[1])
        losses.append(float(loss.detach()))
        first = first or before
        if len(waits) == batches or (system == "map" and before - opened > MAP_SECONDS):
            break
    done = len(waits)
    steady = done // 4
    found = {
        "batches": done,
        "nodes": sum(nodes) / done,
        "edges": sum(edges) / done,
        "seconds": (ends[-1] - ends[steady]) / max(1, done - 1 - steady),
        "waited": sum(waits[steady + 1 :]) / max(1, done - 1 - steady),
        "first": first - opened,
        "loss": losses[-1],
        "losses": losses[: min(done, 8)],
    }
    if system == "planned":
        found |= {"layout": loader.layout.summary(), "explain": loader.explain()}
        found |= {"counters": loader.counters(), "bulk": loader.bulk}
    loader.close()
    return found


def files(folder: Path) -> list[Path]:
    """All files of the graph."""
    return [path for path in (folder / "graph").rglob("*") if path.is_file()]


def run(folder: Path, system: str, memory: int, batches: int) -> dict[str, Any]:
    """One run in a child inside the cgroup, on a cold page cache."""
    for path in files(folder):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    command = [sys.executable, __file__, str(folder), "--child", system]
    command += ["--memory", str(memory), "--batches", str(batches)]
    with Cgroup(LIMIT) as group:
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=group.join)
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        peak = group.read("memory.max_usage_in_bytes")
    return json.loads(done.stdout.splitlines()[-1]) | {"peak": peak}


def prepare(folder: Path, nodes: int, edges: int) -> Graph:
    """The graph, made once."""
    if not (folder / "graph").exists():
        need = nodes * (2 * 128 + 16) + 4 * edges
        folder.mkdir(parents=True, exist_ok=True)
        need_disk(folder, need * 5 // 4)
        command = [sys.executable, "-m", "foregather", "synth", str(folder / "graph"), "--json"]
        command += ["--nodes", str(nodes), "--edges", str(edges), "--dtype", "float16"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Graph.open(folder / "graph")


def stages(found: dict[str, Any]) -> list[list[str]]:
    """Seconds a minibatch by stage; the stages overlap."""
    done = found["counters"]["features"]["steps"]
    topology = dict(found["counters"]["topology"]["seconds"])
    wait = topology.pop("wait") + topology.pop("read", 0.0)
    rows = [
        ["sampling: drawing, relabelling", sum(topology.values()) / done],
        ["sampling: waiting for topology reads", wait / done],
        ["features: waiting for reads", found["counters"]["features"]["waiting"] / done],
        ["features: copying", found["counters"]["features"]["copying"] / done],
        ["model waited for its minibatch", found["waited"]],
        ["a minibatch, model included", found["seconds"]],
    ]
    return [[name, f"{1000 * seconds:.1f}"] for name, seconds in rows]


def tell(report: Report, planned: dict[str, Any], mapped: dict[str, Any]) -> None:
    """The tables."""
    features, topology = planned["counters"]["features"], planned["counters"]["topology"]
    done = features["steps"]
    report.line(
        f"Bulks of {planned['bulk']} minibatches; a minibatch has {planned['nodes']:,.0f} nodes "
        f"and {planned['edges']:,.0f} edges. {planned['layout']}."
    )
    head = ["", "planned", "map"]
    both = [planned, mapped]
    report.table(
        head,
        [
            ["minibatches run", *(str(one["batches"]) for one in both)],
            ["seconds a minibatch", *(f"{one['seconds']:.3f}" for one in both)],
            ["the model waited, seconds", *(f"{one['waited']:.3f}" for one in both)],
            ["first minibatch after, seconds", *(f"{one['first']:.1f}" for one in both)],
            ["peak of the cgroup", *(format_bytes(one["peak"]) for one in both)],
            ["feature requests a minibatch", f"{features['requests'] / done:,.0f}", ""],
            ["feature bytes a minibatch", format_bytes(features["bytes"] // done), ""],
            ["feature rows from the cache", f"{features['hits'] / features['rows']:.0%}", ""],
            ["topology requests a minibatch", f"{topology['requests'] / done:,.0f}", ""],
            ["topology bytes a minibatch", format_bytes(topology["bytes"] // done), ""],
        ],
    )
    same = planned["losses"][: len(mapped["losses"])] == mapped["losses"][: len(planned["losses"])]
    report.line(
        f"Map over planned: {mapped['seconds'] / planned['seconds']:.1f} times the seconds. The "
        f"first losses of both are {'equal bit for bit' if same else '**different**'}."
    )
    report.line("Milliseconds a minibatch by stage; stages overlap.")
    report.table(["stage", "ms"], stages(planned))
    report.line(f"What the loader says of the feature reads:\n\n```\n{planned['explain']}\n```")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="kept; see working_folder")
    parser.add_argument("--nodes", default="111M")
    parser.add_argument("--edges", default="1.6B")
    parser.add_argument("--batches", type=int, default=256)
    parser.add_argument("--memory", default="5GB")
    parser.add_argument("--child")
    options = parser.parse_args()
    memory = parse_size(options.memory)
    if options.child:
        print(json.dumps(train(options.folder, options.child, memory, options.batches)))
        return
    with working_folder(options.folder) as folder:
        compare(folder, options, memory)


def compare(folder: Path, options: argparse.Namespace, memory: int) -> None:
    graph = prepare(folder, parse_count(options.nodes), parse_count(options.edges))
    planned = run(folder, "planned", memory, options.batches)
    print(planned["seconds"], planned["layout"], flush=True)
    mapped = run(folder, "map", memory, options.batches)
    report = Report("billion", __doc__)
    size = sum(path.stat().st_size for path in files(folder))
    report.line(
        f"{format_count(graph.num_nodes)} nodes, {format_count(graph.num_edges)} edges, "
        f"{format_bytes(size)} of files; cgroup of {format_bytes(LIMIT)}, memory={options.memory}."
    )
    tell(report, planned, mapped)
    report.write()


if __name__ == "__main__":
    main()
