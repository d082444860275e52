"""How much faster is the step of a model, forward and backward, when it is accelerated?

One batch of a synthetic graph with a million nodes and 128 columns; PyG's models as they are, with
PyG's own trimming (counts of sampled nodes and edges), and accelerated by
`foregather.nn.accelerate`. All threads of torch. The three are interleaved; a ratio is between
medians: above 1, accelerated is faster. Losses of the same weights stand next to them.

    python benchmarks/step.py [--quick] [--rounds 5] [--date 2026-11-17]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common.report import Report, median_spread
from torch.nn import functional
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

from foregather import BatchContents, Features, Graph, Loader
from foregather.graph.synthetic import synthetic_arrays
from foregather.nn import accelerate

COLUMNS, CLASSES = 128, 40
DEEP, FLAT = [15, 10, 5], [10, 10]
#: Name, model, fan-outs and seeds.
CASES: list[tuple[str, Callable[[], torch.nn.Module], list[int], int]] = [
    ("SAGE 3 x 256", lambda: GraphSAGE(COLUMNS, 256, 3, CLASSES), DEEP, 1024),
    ("SAGE 3 x 128", lambda: GraphSAGE(COLUMNS, 128, 3, CLASSES), DEEP, 1024),
    ("SAGE 2 x 64", lambda: GraphSAGE(COLUMNS, 64, 2, CLASSES), FLAT, 1024),
    ("GCN 3 x 128", lambda: GCN(COLUMNS, 128, 3, CLASSES), DEEP, 256),
    ("GIN 3 x 128", lambda: GIN(COLUMNS, 128, 3, CLASSES), DEEP, 256),
    ("GAT 3 x 128, 4 heads", lambda: GAT(COLUMNS, 128, 3, CLASSES, heads=4), DEEP, 256),
]


def make_graph(nodes: int) -> Graph:
    made = synthetic_arrays(nodes, edges=20 * nodes, features=COLUMNS, classes=CLASSES)
    edges, x = len(made.indices), Features(made.features)
    return Graph(nodes, edges, made.indptr, made.indices, x, labels=made.labels)


def measure(graph: Graph, case: Any, rounds: int) -> list[object]:
    name, make, fanouts, seeds = case
    ids = np.random.default_rng(0).permutation(graph.num_nodes)[:seeds]
    loader = Loader(graph, fanouts, ids, seeds, contents=BatchContents(pyg=True))
    batch = next(iter(loader))
    loader.close()
    torch.manual_seed(0)
    model = make()
    fast, labels = accelerate(model), batch.y[: batch.batch_size]
    counts = {
        "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
        "num_sampled_edges_per_hop": batch.num_sampled_edges,
    }
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "plain": (model, {}),
        "trimmed": (model, counts),
        "accelerated": (fast, {}),
    }
    fast(batch)  # the proof
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    losses: dict[str, float] = {}
    for _ in range(rounds):
        for way, (call, more) in ways.items():
            model.zero_grad()
            start = time.perf_counter()
            scores = call(batch.x, batch.edge_index, **more)[: batch.batch_size]
            loss = functional.cross_entropy(scores, labels)
            loss.backward()
            seconds[way].append(time.perf_counter() - start)
            losses[way] = loss.item()
    assert fast.plain is None, fast.plain
    middle = {way: statistics.median(taken) for way, taken in seconds.items()}
    return [
        name,
        f"{len(batch.n_id):,} / {batch.edge_index.shape[1]:,}",
        *(median_spread(taken) for taken in seconds.values()),
        *(f"{middle[way] / middle['accelerated']:.1f}" for way in ("trimmed", "plain")),
        ", ".join(f"{loss:.5f}" for loss in losses.values()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small, without a report")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--date", help="of the report")
    given = parser.parse_args()
    graph = make_graph(5_000 if given.quick else 10**6)
    cases = [(name, make, fan, 64) for name, make, fan, _ in CASES] if given.quick else CASES
    report = Report("step", __doc__, given.date)
    report.line(f"{given.rounds} rounds; seconds as median (range).")
    head = ["model", "nodes / edges", "plain", "trimmed", "accelerated"]
    head += ["trimmed / accelerated", "plain / accelerated", "losses, in this order"]
    report.table(head, [measure(graph, case, given.rounds) for case in cases])
    report.line(
        "PyG's trimmed GCN normalises by the degrees of the trimmed edges, layer by layer, so its "
        "loss is another than the plain model's; the accelerated one has the plain model's."
    )
    if not given.quick:
        report.write()


if __name__ == "__main__":
    main()
