"""How much faster is the step of a typed model, forward and backward, when it is accelerated?

Batches of a synthetic graph with 400,000 nodes of three types, four relations and 64 columns (as
`foregather synth --types 3` makes them); PyG's models as they are, with PyG's own `trim_to_layer`,
and accelerated by `foregather.nn.accelerate`. All threads of torch. The three are interleaved, in
another order each round; a ratio is the median of the ratios of the rounds: above 1, accelerated is
faster. Losses of the same weights stand next to them.

    python benchmarks/typed_step.py [--quick] [--rounds 5] [--date 2026-11-17]
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common.report import Report, median_spread
from torch import nn
from torch.nn import functional
from torch_geometric.nn import GATConv, HeteroConv, HGTConv, SAGEConv
from torch_geometric.utils import trim_to_layer

from foregather import HeteroLoader
from foregather.graph.hetero.synthetic.make import synthetic_typed
from foregather.nn import accelerate

COLUMNS, CLASSES, SEEDED = 64, 8, "t0"
Layer = Callable[[Any, int, int], nn.Module]


def sage(graph: Any, wide: int, out: int) -> nn.Module:
    return HeteroConv({name: SAGEConv((wide, wide), out) for name in graph.edge_types})


def gat(graph: Any, wide: int, out: int) -> nn.Module:
    made = {
        name: GATConv((wide, wide), out, heads=4, concat=False, add_self_loops=False)
        for name in graph.edge_types
    }
    return HeteroConv(made)


def hgt(graph: Any, wide: int, out: int) -> nn.Module:
    return HGTConv(wide, out, (list(graph.nodes), list(graph.edge_types)), heads=4)


#: Name, layers, their width and number, fan-outs, seeds.
CASES: list[tuple[str, Layer, int, int, list[int], int]] = [
    ("HeteroConv of SAGE 2 x 64", sage, 64, 2, [10, 10], 512),
    ("HeteroConv of SAGE 3 x 128", sage, 128, 3, [10, 5, 5], 256),
    ("HeteroConv of GAT 2 x 64, 4 heads", gat, 64, 2, [10, 10], 512),
    ("HGT 2 x 64, 4 heads", hgt, 64, 2, [10, 10], 512),
]


class Model(nn.Module):
    """A map of each type, layers over all relations, and scores of one type."""

    def __init__(self, graph: Any, layer: Layer, wide: int, depth: int) -> None:
        super().__init__()
        self.inputs = nn.ModuleDict({name: nn.Linear(COLUMNS, wide) for name in graph.nodes})
        self.layers = nn.ModuleList(layer(graph, wide, wide) for _ in range(depth))
        self.scores = nn.Linear(wide, CLASSES)

    def forward(self, x_dict: Any, edges: Any, nodes: Any = None, counts: Any = None) -> Any:
        """Scores; with counts, trimmed by PyG."""
        h = {name: self.inputs[name](x).relu() for name, x in x_dict.items()}
        for place, layer in enumerate(self.layers):
            if nodes is not None:
                h, edges, _ = trim_to_layer(place, nodes, counts, h, edges)
            h = {name: rows.relu() for name, rows in layer(h, edges).items()}
        return self.scores(h[SEEDED])


def batch_of(graph: Any, fanouts: list[int], seeds: int) -> Any:
    ids = np.random.default_rng(0).permutation(graph.nodes[SEEDED].num_nodes)[:seeds]
    loader = HeteroLoader(graph, fanouts, (SEEDED, ids), seeds)
    try:
        return next(iter(loader))
    finally:
        loader.close()


def measure(graph: Any, case: Any, rounds: int) -> list[object]:
    name, layer, wide, depth, fanouts, seeds = case
    batch = batch_of(graph, fanouts, seeds)
    torch.manual_seed(0)
    model = Model(graph, layer, wide, depth)
    fast, labels = accelerate(model), batch[SEEDED].y[: batch[SEEDED].batch_size]
    counts = batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict
    ways: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "plain": (model, ()),
        "trimmed": (model, counts),
        "accelerated": (fast, ()),
    }
    for call, more in ways.values():  # the proof, and what is done once
        call(batch.x_dict, batch.edge_index_dict, *more)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    losses: dict[str, float] = {}
    for turn in range(rounds):
        for way in (*ways, *ways)[turn % 3 : turn % 3 + 3]:
            call, more = ways[way]
            model.zero_grad()
            start = time.perf_counter()
            scores = call(batch.x_dict, batch.edge_index_dict, *more)[: len(labels)]
            loss = functional.cross_entropy(scores, labels)
            loss.backward()
            seconds[way].append(time.perf_counter() - start)
            losses[way] = loss.item()
    assert fast.plain is None, fast.plain
    nodes = sum(store.num_nodes for store in batch.node_stores)
    edges = sum(store.edge_index.shape[1] for store in batch.edge_stores)
    return [
        name,
        f"{nodes:,} / {edges:,}",
        *(median_spread(taken) for taken in seconds.values()),
        *(paired(seconds[way], seconds["accelerated"]) for way in ("trimmed", "plain")),
        ", ".join(f"{losses[way]:.5f}" for way in ways),
    ]


def paired(slow: list[float], fast: list[float]) -> str:
    ratios = [one / other for one, other in zip(slow, fast, strict=True)]
    return f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small, without a report")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--date", help="of the report")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message="There exist node types")
    nodes = 5_000 if given.quick else 400_000
    graph = synthetic_typed(nodes, types=3, features=COLUMNS, classes=CLASSES)
    cases = [(*case[:5], 64) for case in CASES] if given.quick else CASES
    report = Report("typed_step", __doc__, given.date)
    report.line(f"{given.rounds} rounds; seconds and ratios as median (range).")
    head = ["model", "nodes / edges", "plain", "trimmed", "accelerated"]
    head += ["trimmed / accelerated", "plain / accelerated", "losses, in this order"]
    report.table(head, [measure(graph, case, given.rounds) for case in cases])
    if not given.quick:
        report.write()


if __name__ == "__main__":
    main()
