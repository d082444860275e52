"""typed: how fast is typed and temporal sampling beside pyg-lib's kernel?

Both systems sample the same minibatches in turns, in one run: same graph, input rows, fan-outs and
times; the nodes and edges each of them sampled stand beside its time, so that equal work can be
seen. pyg-lib runs in every way that might be its best, and a bar counts against the best of them.
Times and ratios are medians (least to most) over rounds, ratios paired by round: how many times as
long as ours the other takes, so below 1 ours loses.

Sections: `typed`, a synthetic graph of 5 types and 8 relations; `uniform` and `last`, nycflights13
as RelBench samples it: the input rows are flights, each with a tree that sees what was there before
its departure; 512 a batch, fan-outs 128 and 64. `few` is the same with fan-outs 16 and 8; `rules`
sets LABOR and the layer-wise samplers beside neighbour sampling.

    FOREGATHER_PYG_LIB     a library with pyg-lib's sampler, where the package pyg_lib is not there
    FOREGATHER_DATA        the folder of the real graphs

    python benchmarks/typed.py [--quick] [--only typed last] [--rounds 7] [--append]
"""

import argparse
import sys

import numpy as np
from beside.found import find_peers
from beside.rounds import HEAD, Row, keep
from beside.typed import TypedCase, measure_rules, measure_typed
from common.report import Report
from common.typed_graphs import load_flights, synthetic_types

from foregather.graph.hetero import HeteroGraph
from foregather.sampling import HeteroNeighbor

SECTIONS = ("typed", "uniform", "last", "few", "rules")
LEAST_ROUNDS = 5  # fewer make no report


def synthetic_case(quick: bool, batches: int) -> TypedCase:
    """Input nodes of the largest type."""
    nodes, edges = (20_000, 300_000) if quick else (5_000_000, 80_000_000)
    graph = synthetic_types(nodes, edges)
    size = 64 if quick else 1024
    order = np.random.default_rng(1).permutation(graph.nodes["t0"].num_nodes)
    seeds = [order[k * size : (k + 1) * size] for k in range(batches)]
    name = "20k nodes, 300k edges" if quick else "5M nodes, 80M edges"
    return TypedCase(
        f"{name}, {size} rows, fan-outs 10, 10",
        graph,
        HeteroNeighbor([10, 10]),
        "t0",
        seeds,
        8,
    )


def flights_case(
    graph: HeteroGraph, strategy: str, fanouts: list[int], quick: bool, batches: int
) -> TypedCase:
    """Flights in the order of a random epoch over the training split."""
    size = 64 if quick else 512
    rng = np.random.default_rng(2)
    train = rng.permutation(graph.nodes["flight"].splits["train"]).astype(np.int64)
    return TypedCase(
        f"nycflights13, {size} rows, fan-outs {', '.join(map(str, fanouts))}",
        graph,
        HeteroNeighbor(fanouts, time="node", temporal_strategy=strategy),
        "flight",
        [train[k * size : (k + 1) * size] for k in range(batches)],
        5,
    )


def measure(section: str, rounds: int, quick: bool) -> list[Row]:
    """The rows of a section, or none where its graph is not there."""
    peers = find_peers(wants_dgl=False)
    for sentence in peers.missing:
        if sentence.startswith("pyg-lib"):
            print(f"left out: {sentence}", flush=True)
    if section == "typed":
        return measure_typed(section, synthetic_case(quick, 2 if quick else 16), peers, rounds)
    if section == "rules":
        return measure_rules(section, synthetic_case(quick, 2 if quick else 8), rounds)
    flights, batches = load_flights(), 2 if quick else 32
    if section == "few":
        rows = []
        for strategy in ("uniform", "last"):
            case = flights_case(flights, strategy, [16, 8], quick, batches)
            rows += measure_typed(f"{section}, {strategy}", case, peers, rounds)
        return rows
    case = flights_case(flights, section, [128, 64], quick, batches)
    return measure_typed(section, case, peers, rounds)


def main() -> int:
    """Measures what was asked for, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small graphs, two rounds, no report")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--append", action="store_true", help="keep other sections of the report")
    given = parser.parse_args()
    rounds = 2 if given.quick else given.rounds
    if rounds < LEAST_ROUNDS and not given.quick:
        parser.error(f"a report needs at least {LEAST_ROUNDS} rounds; --quick takes two")
    report = Report("typed", __doc__)
    rows = [row for section in given.only for row in measure(section, rounds, given.quick)]
    if given.quick:
        print("Bars are for the sizes of a whole run, not for these.")
        return 0
    report.line(f"{rounds} rounds after one that warms up; peers: {find_peers(False).versions()}.")
    report.table(HEAD, keep(rows, report.path, SECTIONS) if given.append else rows)
    report.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
