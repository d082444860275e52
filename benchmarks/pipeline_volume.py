"""How many bytes does the pipeline save against graph-parallel training?

32 layers of width 100, 8 ranks, float32: bytes of an epoch over all ranks, rows, skip tensors,
boundary rows and weight sums included, as the planner counts them message by message. "pipeline" is
8 stages (32 chunks); its bytes do not depend on the cut. "graph" is 8 ways of one stage, cut by
METIS twice, balanced by edges (what FullGraph does) and by nodes (as the authors cut); "ratio"
counts the smaller of both, "by edges" the first. "lean" has bfloat16 boundaries, and GCNII's first
layer run again on each stage. The planner's counts are first compared with the ledgers of 8 real
gloo ranks on Cora, to the byte. The synthetic graphs have Reddit's mean degree (492) and a quarter
of its nodes; 1 % or 10 % of the sources are drawn from the whole graph, the rest from a community
of about 4,000 nodes. Dense: mean degree of 50 or more.

The published figures (volume of graph parallelism over that of the pipeline, 8 GPUs, 32 layers):
mean 10.27 over Squirrel, Flickr and Reddit with GCN, GraphSAGE and GCNII.

    FOREGATHER_DATA=... python benchmarks/pipeline_volume.py [--graphs cora,squirrel] [--kept FILE]
"""

import argparse
import importlib.util
import json
import math
import multiprocessing
import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.graphs import NAMES, load_graph
from common.report import Report
from common.skip import skip

from foregather import Graph
from foregather.graph.synthetic import synthetic_arrays
from foregather.nn import gcn_layers, gcnii_layers, resgcn_layers, sage_layers
from foregather.pipeline import FullGraph, Line, Runtime, make_chunks
from foregather.pipeline.partition.cut import Cut, measure_cut
from foregather.pipeline.passes.segments import as_layers, cut_layers
from foregather.pipeline.planning.profile import LayerCost
from foregather.pipeline.planning.programs import rank_programs
from foregather.pipeline.planning.simulate import simulate
from foregather.pipeline.planning.workload import Setting, workload_of

DEPTH, WIDTH, RANKS, CHUNKS, CLASSES = 32, 100, 8, 32, 16
REDDIT_NODES, REDDIT_DEGREE, DENSE = 232_965, 492, 50
SYNTHETIC = {"reddit density, mixing 0.01": 0.01, "reddit density, mixing 0.1": 0.1}
PUBLISHED = ("gcn", "sage", "gcnii")


def layers_of(model: str, width_in: int, width: int) -> list[torch.nn.Module]:
    if model in ("gcn", "sage"):
        make = gcn_layers if model == "gcn" else sage_layers
        return [*make([width_in, *[width] * (DEPTH - 1), CLASSES])]
    make_deep = gcnii_layers if model == "gcnii" else resgcn_layers
    return [*make_deep(width_in, width, CLASSES, DEPTH)]


def planned_bytes(graph: Graph, layers: list[torch.nn.Module], cut: Cut, lean: bool) -> int:
    """What the planner counts for the cut's number of ways: 8 ways of a stage, or 8 stages."""
    runtime = Runtime(boundary="bfloat16" if lean else None, initial_again=lean)
    free = [LayerCost((0, 0, 0), (0, 0, 0), (0, 0))] * len(layers)
    work = workload_of(graph, layers, runtime, free)
    stages = RANKS // cut.ways
    cuts = tuple(cut_layers(as_layers(layers), stages))
    mode = "exact" if cut.ways > 1 else "fast"
    setting = Setting("nodes", mode, stages, cut.ways, len(cut.nodes), cuts)
    return simulate(rank_programs(work, setting, cut), Line()).bytes


# ---- real ranks ------------------------------------------------------------------------------

RUNS = [("resgcn", 8, False), ("gcnii", 8, False), ("resgcn", 1, False), ("gcnii", 1, True)]


def small_layers(model: str, graph: Graph) -> list[torch.nn.Module]:
    torch.manual_seed(0)
    return layers_of(model, graph.features.width, 16)


def real_rank(rank: int, port: int, results: Any) -> None:
    """One epoch of each run (a second one where the first begins with a sweep)."""
    os.environ.update(GLOO_SOCKET_IFNAME="lo", FOREGATHER_QUIET="1")
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=RANKS)
    graph = load_graph("cora")
    for number, (model, ways, lean) in enumerate(RUNS):
        runtime = Runtime(boundary="bfloat16" if lean else None, initial_again=lean, ways=ways)
        mode = "exact" if ways > 1 else "fast"
        chunks = RANKS if ways > 1 else CHUNKS
        run = FullGraph(graph, small_layers(model, graph), chunks, mode, runtime=runtime)
        report = run.fit(2)[-1]
        counted = {k: v for k, v in report.sent.items() if k not in ("control", "state")}
        results.put((number, sum(counted.values()), sum(run.volume().values())))
    torch.distributed.barrier()


def validate() -> list[list[object]]:
    """Ledgers of real ranks beside the planner's counts."""
    graph, rows = load_graph("cora"), []  # before there are ranks, which would skip one by one
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    ranks = [context.Process(target=real_rank, args=(r, port, results)) for r in range(RANKS)]
    for process in ranks:
        process.start()
    found = [results.get(timeout=500) for _ in range(RANKS * len(RUNS))]
    for process in ranks:
        process.join(60)
    for number, (model, ways, lean) in enumerate(RUNS):
        sent = sum(f[1] for f in found if f[0] == number)
        formula = next(f[2] for f in found if f[0] == number)
        chunks = make_chunks(graph, RANKS if ways > 1 else CHUNKS, abreast=ways)
        cut = measure_cut(graph, chunks, ways)
        plan = planned_bytes(graph, small_layers(model, graph), cut, lean)
        scheme = "graph" if ways > 1 else "pipeline" + (", lean" if lean else "")
        assert sent == formula == plan, (model, scheme, sent, formula, plan)
        rows.append([model, scheme, f"{sent:,}", f"{formula:,}", f"{plan:,}"])
    return rows


# ---- every graph -----------------------------------------------------------------------------


def topology(name: str) -> Graph:
    if name not in SYNTHETIC:
        return load_graph(name, features=False)
    made = synthetic_arrays(
        REDDIT_NODES // 4, degree=REDDIT_DEGREE, features=0, mixing=SYNTHETIC[name]
    )
    return Graph(made.indptr.size - 1, made.indices.size, made.indptr, made.indices)


def by_nodes(graph: Graph) -> Cut:
    """METIS balanced by nodes, as the authors cut."""
    import pymetis

    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    source = graph.indices.astype(np.int64)
    keep = source != target
    pairs = np.stack([source[keep], target[keep]])
    both = Graph.from_edge_index(pairs, graph.num_nodes, undirected=True)
    adjacency = pymetis.CSRAdjacency(both.indptr, both.indices.astype(np.int64))
    _, parts = pymetis.part_graph(RANKS, adjacency=adjacency, options=pymetis.Options(seed=0))
    chunks = make_chunks(graph, RANKS, np.asarray(parts), abreast=RANKS)
    return measure_cut(graph, chunks, RANKS)


def cell(name: str) -> dict[str, Any]:
    """Bytes of all models on one graph."""
    graph = topology(name)
    cuts = [measure_cut(graph, make_chunks(graph, RANKS, "metis", 0, RANKS), RANKS)]
    try:
        cuts.append(by_nodes(graph))
    except ValueError as error:  # METIS left a part empty
        print(name, error)
    cut = min(cuts, key=lambda c: c.alpha)
    width = 128  # features: the planner needs some; they never cross
    narrow = Graph.from_edge_index(np.zeros((2, 0), np.int64), graph.num_nodes)
    found: dict[str, Any] = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "alpha": [c.alpha for c in cuts],
    }
    whole = measure_cut(narrow, make_chunks(narrow, CHUNKS, "natural"), 1)
    del graph
    sample = Graph.from_edge_index(
        np.zeros((2, 0), np.int64), 1, x=np.zeros((1, width), np.float32)
    )
    for model in (*PUBLISHED, "resgcn"):
        layers = layers_of(model, width, WIDTH)
        found[model] = [
            planned_bytes(sample, layers, cut, False),
            planned_bytes(sample, layers, whole, False),
            planned_bytes(sample, layers, whole, True),
        ]
    return found


def exchanged_more(one: dict[str, Any], model: str) -> int:
    """Bytes that graph-parallel training sends more where chunks are balanced by edges."""
    layers = as_layers(layers_of(model, 128, WIDTH))
    weights = sum(p.numel() for layer in layers for p in layer.parameters())
    rows = one[model][0] - 2 * (RANKS - 1) * weights * 4
    return round(rows * (one["alpha"][0] / min(one["alpha"]) - 1))


def geometric(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", default=",".join([*NAMES, *SYNTHETIC]).replace(", ", "; "))
    parser.add_argument("--kept", type=Path, help="JSON file of cells that are kept between runs")
    given = parser.parse_args()
    if importlib.util.find_spec("pymetis") is None:
        skip("pymetis is not installed, and chunks are cut by METIS; pip install pymetis")
    names = [n.replace("; ", ", ") for n in given.graphs.split(",")]
    kept: dict[str, Any] = {}
    if given.kept and given.kept.exists():
        kept = json.loads(given.kept.read_text())
    if "checked" not in kept:
        kept["checked"] = validate()
    for name in names:
        if given.kept:
            given.kept.write_text(json.dumps(kept))
        if name not in kept:
            kept[name] = cell(name)
            print(name, kept[name], flush=True)
    if given.kept:
        given.kept.write_text(json.dumps(kept))
    report = Report("pipeline_volume", __doc__)
    report.line("Real ranks on Cora, width 16, bytes of one epoch, equal to the byte:")
    report.table(["model", "scheme", "sent", "closed form", "planner"], kept["checked"])
    rows, dense = [], []
    for name in [n for n in (*NAMES, *SYNTHETIC) if n in kept]:
        one = kept[name]
        degree = one["edges"] / one["nodes"]
        alphas = " / ".join(f"{a:.2f}" for a in one["alpha"])
        for model in (*PUBLISHED, "resgcn"):
            whole, pipe, lean = one[model]
            edged = whole + exchanged_more(one, model)
            ratios = [whole / pipe, edged / pipe, whole / lean]
            if degree >= DENSE and model in PUBLISHED:
                dense.append((name, ratios))
            sizes = [f"{size / 1e9:.3f}" for size in (whole, pipe)]
            facts = [name, one["nodes"], f"{degree:.0f}", alphas]
            rows.append([*facts, model, *sizes, *(f"{ratio:.2f}" for ratio in ratios)])
    report.line("Counted by the planner (alpha: by edges / by nodes; GB an epoch):")
    head = ["graph", "nodes", "mean degree", "alpha_8", "model", "graph GB", "pipeline GB"]
    report.table([*head, "ratio", "ratio by edges", "ratio, lean"], rows)
    sets = {"real": [r for n, r in dense if n not in SYNTHETIC], "all": [r for _, r in dense]}
    means = []
    for word, ratios in sets.items():
        for kind, values in zip(
            ("ratio", "by edges", "lean"), zip(*ratios, strict=True), strict=True
        ):
            mean = geometric(list(values))
            means.append([word, kind, f"{mean:.2f}", f"{np.mean(values):.2f}"])
    report.line(f"Dense graphs with {', '.join(PUBLISHED)} (published mean 10.27):")
    report.table(["graphs", "ratio", "geometric mean", "arithmetic mean"], means)
    report.write()


if __name__ == "__main__":
    main()
