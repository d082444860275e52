"""How many bytes does the pipeline save against graph-parallel training?

32 layers of width 100, 8 ranks, float32: bytes of an epoch over all ranks, rows, skip tensors,
boundary rows and weight sums included, as the planner counts them message by message. "pipeline" is
8 stages (32 chunks) in float32; its bytes do not depend on the cut. GCNII's first embedding, which
every layer reads, is made again on each stage from the features, which all ranks have ("relayed":
the same with it sent from stage to stage). "graph" is 8 ways of one stage, cut by METIS in four
ways: for fewest edges, balanced by edges (FullGraph's default, "edges") and by nodes (as the
authors cut, "nodes"), and by partition="metis-volume", balanced by edges ("volume") and its
objective balanced by nodes ("volume, nodes"); METIS is only asked for the fewest rows on graphs of
up to five million edges. "ratio" counts the authors' kind of cut, "least"
the cut that sends least, whatever its balance. L a / (S - 1) is the closed form of "ratio" without
weights: 32 alpha / 7. "bfloat16" halves the rows on the wire. The planner's counts are first
compared with the ledgers of 8 real gloo ranks on Cora, to the byte. The synthetic graph has
Reddit's mean degree (492) and a quarter of its nodes; 10 % of the sources are drawn from the whole
graph, the rest from a community of about 4,000 nodes. Dense: mean degree of 50 or more.

What rounding rows to bfloat16 does to training is measured too: GCNII of 32 layers and width 64 on
Cora and CiteSeer in 4 stages, mode fast, the same weights and dropout; loss of the last ten epochs
and test accuracy.

The published figures (volume of graph parallelism over that of the pipeline, 8 GPUs, 32 layers):
mean 10.27 over Squirrel, Flickr and Reddit with GCN, GraphSAGE and GCNII.

    FOREGATHER_DATA=... python benchmarks/pipeline_volume.py [--graphs cora,squirrel | all]
        [--only counted checked rounded] [--kept FILE]

Without --graphs, the dense real graphs are cut, which takes minutes; "all" takes much longer.
"""

import argparse
import importlib.util
import json
import math
import multiprocessing
import os
import socket
import time
from functools import cache, partial
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
from foregather.pipeline import FullGraph, Runtime, make_chunks
from foregather.pipeline.partition.cut import Cut, measure_cut
from foregather.pipeline.passes.segments import as_layers, cut_layers
from foregather.pipeline.planning.profile import LayerCost
from foregather.pipeline.planning.programs import rank_programs
from foregather.pipeline.planning.workload import Setting, Workload, workload_of

DEPTH, WIDTH, RANKS, CHUNKS, CLASSES, FEATURES = 32, 100, 8, 32, 16, 128
DENSE_REAL = ("squirrel", "tolokers", "blogcatalog", "actors_collab")
VOLUME_EDGES = 5_000_000  # the most that METIS is asked to cut for the fewest rows
REDDIT_NODES, REDDIT_DEGREE, DENSE = 232_965, 492, 50
SYNTHETIC = {"reddit density, mixing 0.1": 0.1}
CUTS = ("edges", "nodes", "volume", "volume, nodes")
ROUNDED = {"cora": (4, 60), "citeseer": (4, 60)}  # stages, epochs
PUBLISHED = ("gcn", "sage", "gcnii")


def layers_of(model: str, width_in: int, width: int) -> list[torch.nn.Module]:
    if model in ("gcn", "sage"):
        make = gcn_layers if model == "gcn" else sage_layers
        return [*make([width_in, *[width] * (DEPTH - 1), CLASSES])]
    make_deep = gcnii_layers if model == "gcnii" else resgcn_layers
    return [*make_deep(width_in, width, CLASSES, DEPTH)]


def work_of(
    graph: Graph, layers: list[torch.nn.Module], half: bool = False, again: bool = True
) -> Workload:
    """What the planner knows of layers, which it tries one by one: that takes most of the time."""
    runtime = Runtime(boundary="bfloat16" if half else None, initial_again=again)
    free = [LayerCost((0, 0, 0), (0, 0, 0), (0, 0))] * len(layers)
    return workload_of(graph, layers, runtime, free)


@cache
def usual_work(model: str, wide: int, half: bool, again: bool) -> Workload:
    """The same for layers over 128 features, which depends on no graph; features never cross."""
    row = np.zeros((1, FEATURES), np.float32)
    sample = Graph.from_edge_index(np.zeros((2, 0), np.int64), 1, x=row)
    return work_of(sample, layers_of(model, FEATURES, wide), half, again)


def planned_bytes(work: Workload, layers: list[torch.nn.Module], cut: Cut) -> int:
    """What the planner counts for the cut's number of ways: 8 ways of a stage, or 8 stages."""
    stages = RANKS // cut.ways
    cuts = tuple(cut_layers(as_layers(layers), stages))
    mode = "exact" if cut.ways > 1 else "fast"
    setting = Setting("nodes", mode, stages, cut.ways, len(cut.nodes), cuts)
    programs = rank_programs(work, setting, cut)
    return sum(action.bytes for program in programs for action in program if action.kind == "send")


# ---- real ranks ------------------------------------------------------------------------------

#: model, ways, bfloat16, first embedding made again
RUNS = [
    ("resgcn", 8, False, False),
    ("gcnii", 8, False, False),
    ("resgcn", 1, False, False),
    ("gcnii", 1, False, False),
    ("gcnii", 1, False, True),
    ("gcnii", 1, True, True),
]


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
    for number, (model, ways, half, again) in enumerate(RUNS):
        runtime = Runtime(boundary="bfloat16" if half else None, initial_again=again, ways=ways)
        mode = "exact" if ways > 1 else "fast"
        chunks = RANKS if ways > 1 else CHUNKS
        run = FullGraph(graph, small_layers(model, graph), chunks, mode, runtime=runtime)
        report = run.fit(2)[-1]
        counted = {k: v for k, v in report.sent.items() if k not in ("control", "state")}
        results.put((number, sum(counted.values()), sum(run.volume().values())))
    torch.distributed.barrier()


def rounded_rank(rank: int, port: int, results: Any, name: str, epochs: int) -> None:
    """The same training with rows in float32 and in bfloat16 between stages."""
    stages, _ = ROUNDED[name]
    os.environ.update(GLOO_SOCKET_IFNAME="lo", FOREGATHER_QUIET="1")
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=stages)
    graph = load_graph(name)
    for boundary in (None, "bfloat16"):
        torch.manual_seed(0)
        layers = gcnii_layers(
            graph.features.width, 64, int(graph.labels.max()) + 1, DEPTH, dropout=0.5
        )
        runtime = Runtime(boundary=boundary, initial_again=True)
        run = FullGraph(graph, layers, 4 * stages, "fast", runtime=runtime)
        losses = [report.loss for report in run.fit(epochs)]
        accuracy = run.evaluate("test")
        if rank == 0:
            results.put((boundary or "float32", float(np.mean(losses[-10:])), accuracy))
    torch.distributed.barrier()


def run_ranks(target: Any, size: int, answers: int, *given: Any) -> list[Any]:
    """Starts ranks and returns what they put in a queue."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    ranks = [context.Process(target=target, args=(r, port, results, *given)) for r in range(size)]
    for process in ranks:
        process.start()
    found = [results.get(timeout=900) for _ in range(answers)]
    for process in ranks:
        process.join(60)
    return found


def rounded(quick: bool) -> list[list[object]]:
    """What bfloat16 on the wire does to the loss; a quick run shows only that it can be found."""
    rows: list[list[object]] = []
    for name, (stages, epochs) in list(ROUNDED.items())[: 1 if quick else None]:
        epochs = min(epochs, 2) if quick else epochs
        load_graph(name)
        for boundary, loss, accuracy in run_ranks(rounded_rank, stages, 2, name, epochs):
            rows.append([name, epochs, boundary, f"{loss:.4f}", f"{100 * accuracy:.1f}"])
    return rows


def validate() -> list[list[object]]:
    """Ledgers of real ranks beside the planner's counts."""
    graph, rows = load_graph("cora"), []  # before there are ranks, which would skip one by one
    found = run_ranks(real_rank, RANKS, RANKS * len(RUNS))
    for number, (model, ways, half, again) in enumerate(RUNS):
        sent = sum(f[1] for f in found if f[0] == number)
        formula = next(f[2] for f in found if f[0] == number)
        chunks = make_chunks(graph, RANKS if ways > 1 else CHUNKS, abreast=ways)
        cut = measure_cut(graph, chunks, ways)
        layers = small_layers(model, graph)
        plan = planned_bytes(work_of(graph, layers, half, again), layers, cut)
        scheme = "graph" if ways > 1 else "pipeline"
        scheme += (", first embedding again" if again else "") + (", bfloat16" if half else "")
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


def by_nodes(graph: Graph, volume: bool) -> Cut:
    """METIS balanced by nodes, as the authors cut, or by its volume objective."""
    import pymetis

    target = np.repeat(np.arange(graph.num_nodes), graph.in_degree())
    source = graph.indices.astype(np.int64)
    keep = source != target
    pairs = np.stack([source[keep], target[keep]])
    both = Graph.from_edge_index(pairs, graph.num_nodes, undirected=True)
    adjacency = pymetis.CSRAdjacency(both.indptr, both.indices.astype(np.int64))
    options, more = pymetis.Options(seed=0), {}
    if volume:
        options.objtype, more = 1, {"recursive": False}
    _, parts = pymetis.part_graph(RANKS, adjacency=adjacency, options=options, **more)
    chunks = make_chunks(graph, RANKS, np.asarray(parts), abreast=RANKS)
    return measure_cut(graph, chunks, RANKS)


def all_cuts(graph: Graph) -> dict[str, Cut]:
    """The cuts that are compared; METIS may leave a part empty when it balances nodes."""

    def by_edges(method: str) -> Cut:
        return measure_cut(graph, make_chunks(graph, RANKS, method, 0, RANKS), RANKS)

    makers = {
        "edges": partial(by_edges, "metis"),
        "nodes": partial(by_nodes, graph, False),
        "volume": partial(by_edges, "metis-volume"),
        "volume, nodes": partial(by_nodes, graph, True),
    }
    found = {}
    for word in [w for w in CUTS if graph.num_edges <= VOLUME_EDGES or "volume" not in w]:
        began = time.process_time()
        try:
            found[word] = makers[word]()
        except ValueError as error:
            print(word, error)
        print(f"{word}: {time.process_time() - began:.0f} s of processor time", flush=True)
    return found


def cell(name: str, wide: int = WIDTH) -> dict[str, Any]:
    """Bytes of all models on one graph, with hidden layers so wide."""
    graph = topology(name)
    cuts = all_cuts(graph)
    narrow = Graph.from_edge_index(np.zeros((2, 0), np.int64), graph.num_nodes)
    found: dict[str, Any] = {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "alpha": {word: cut.alpha for word, cut in cuts.items()},
        "balance": {
            word: max(cut.edges) / (sum(cut.edges) / len(cut.edges)) for word, cut in cuts.items()
        },
    }
    whole = measure_cut(narrow, make_chunks(narrow, CHUNKS, "natural"), 1)
    del graph
    for model in (*PUBLISHED, "resgcn"):
        layers = layers_of(model, FEATURES, wide)
        work = usual_work(model, wide, False, True)
        relayed = usual_work(model, wide, False, False) if model == "gcnii" else work
        found[model] = {
            "graph": {word: planned_bytes(work, layers, cut) for word, cut in cuts.items()},
            "pipeline": planned_bytes(work, layers, whole),
            "relayed": planned_bytes(relayed, layers, whole),
            "bfloat16": planned_bytes(usual_work(model, wide, True, True), layers, whole),
        }
    return found


def ratios_of(one: dict[str, Any], model: str) -> dict[str, float]:
    """Graph-parallel bytes over those of the pipeline."""
    found, cuts = one[model], one[model]["graph"]
    authors = cuts.get("nodes", cuts["edges"])
    return {
        "ratio": authors / found["pipeline"],
        "default cut": cuts["edges"] / found["pipeline"],
        "volume cut": cuts.get("volume", math.nan) / found["pipeline"],
        "least": min(cuts.values()) / found["pipeline"],
        "relayed": authors / found["relayed"],
        "bfloat16": authors / found["bfloat16"],
    }


def gigabytes(size: int | None) -> str:
    return "" if size is None else f"{size / 1e9:.3f}"


def geometric(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", default=",".join(DENSE_REAL), help="names, or all")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=[*PARTS])
    parser.add_argument("--kept", type=Path, help="JSON file of cells that are kept between runs")
    parser.add_argument("--quick", action="store_true", help="two epochs of the loss")
    given = parser.parse_args()
    torch.set_num_threads(1)  # layers are tried on a few nodes: threads would only wait
    if importlib.util.find_spec("pymetis") is None:
        skip("pymetis is not installed, and chunks are cut by METIS; pip install pymetis")
    names = [*NAMES, *SYNTHETIC] if given.graphs == "all" else given.graphs.split(",")
    names = names if "counted" in given.only else []
    kept: dict[str, Any] = {}
    if given.kept and given.kept.exists():
        kept = json.loads(given.kept.read_text())
    for name in names:
        if given.kept:
            given.kept.write_text(json.dumps(kept))
        if name not in kept:
            kept[name] = cell(name)
            print(name, kept[name]["alpha"], flush=True)
    for key, find in (("checked", validate), ("rounded", partial(rounded, given.quick))):
        if key not in kept and key in given.only:
            kept[key] = find()
            print(key, kept[key], flush=True)
        if given.kept:
            given.kept.write_text(json.dumps(kept))
    write_report(kept)


def write_report(kept: dict[str, Any]) -> None:
    """All tables."""
    report = Report("pipeline_volume", __doc__)
    if "checked" in kept:
        report.line("Real ranks on Cora, width 16, bytes of one epoch, equal to the byte:")
        report.table(["model", "scheme", "sent", "closed form", "planner"], kept["checked"])
    names = [n for n in (*NAMES, *SYNTHETIC) if n in kept]
    cuts = [
        [
            name,
            *(f"{kept[name]['alpha'][w]:.2f}" if w in kept[name]["alpha"] else "" for w in CUTS),
            *(f"{kept[name]['balance'][w]:.2f}" if w in kept[name]["alpha"] else "" for w in CUTS),
            *(gigabytes(kept[name]["gcn"]["graph"].get(w)) for w in ("edges", "volume")),
        ]
        for name in names
    ]
    report.line(
        "Rows that cross between 8 ways in one aggregation, over N (alpha), edges of the fullest "
        "way over the mean, and GB of a GCN epoch with the default cut and with metis-volume:"
    )
    head = ["graph", *(f"alpha, {w}" for w in CUTS), *(f"balance, {w}" for w in CUTS)]
    report.table([*head, "GB, edges", "GB, volume"], cuts)
    rows, dense = [], []
    for name in names:
        one = kept[name]
        degree = one["edges"] / one["nodes"]
        alpha = one["alpha"].get("nodes", one["alpha"]["edges"])
        for model in (*PUBLISHED, "resgcn"):
            ratios = ratios_of(one, model)
            if degree >= DENSE and model in PUBLISHED:
                dense.append((name, ratios))
            facts = [name, f"{one['nodes']:,}", f"{degree:.0f}", model]
            closed = f"{DEPTH * alpha / (RANKS - 1):.2f}"
            facts += [gigabytes(one[model]["pipeline"]), closed]
            rows.append([*facts, *(f"{r:.2f}" for r in ratios.values())])
    report.line("Counted by the planner (GB an epoch of the pipeline; ratios over it):")
    kinds = list(ratios_of(kept[names[0]], "gcn")) if names else []
    head = ["graph", "nodes", "mean degree", "model", "pipeline GB", "L a / (S - 1)"]
    report.table([*head, *kinds], rows)
    means = []
    sets = {"real": [r for n, r in dense if n not in SYNTHETIC], "all": [r for _, r in dense]}
    for word, found in ((word, found) for word, found in sets.items() if found):
        for kind in kinds:
            values = [one[kind] for one in found]
            means.append([word, kind, f"{geometric(values):.2f}", f"{np.mean(values):.2f}"])
    report.line(f"Dense graphs with {', '.join(PUBLISHED)} (published mean 10.27):")
    report.table(["graphs", "ratio", "geometric mean", "arithmetic mean"], means)
    if "rounded" in kept:
        report.line("GCNII, 32 layers, with rows between stages as they are and rounded:")
        report.table(["graph", "epochs", "rows", "loss", "test accuracy %"], kept["rounded"])
    report.write()


PARTS = ("counted", "checked", "rounded")


if __name__ == "__main__":
    main()
