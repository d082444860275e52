"""How many bytes do features move over ranks, planned by the bulk and by minibatch as published?

A power-law graph of 1M nodes and 20M edges, 128 float32 features a node, fan-out [15, 10, 5], 1024
seeds a minibatch (seeds anywhere in the graph), bulks of 8 minibatches a rank, two bulks, the
second known while the first is planned. Bytes are payload of requests and rows over all ranks, by
the plans of all ranks (one process makes them all). That the plans are what real ranks send, to the
byte, is checked first on a smaller graph with real gloo ranks.

"Paper" is an all-to-allv for every minibatch inside the process column: ids of 4 bytes to the
owners, rows back, nothing kept. "The same memory" is what that needs beside the output: a rank
holds its block (c N/p rows), and while it exchanges, the rows of one minibatch that it receives and
those that it sends. Planned always has c = 1, and the rest of that memory as its budget: cache,
staging and the planner's tables.

The limit: with M rows of cache no policy can save more than M rows of a minibatch of which R are
remote, so paper / planned is at most R / (R - M), and "fewest" is the least number of rows that
any policy fetches with that cache, knowing the future.
"""

import argparse
import json
import resource
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from common.report import Report
from common.world import run_on_loopback

from foregather import Graph
from foregather.dist import FeatureBlock, FeatureExchange, Grid
from foregather.dist.baselines.fetch_paper import predict_paper
from foregather.dist.features.fetch_plan import FetchPlanner, predict
from foregather.dist.features.memory_split import shares
from foregather.dist.transport.ledger import total
from foregather.graph.synthetic import synthesize
from foregather.sampling import Neighbor
from foregather.units import format_bytes

FANOUT, SEEDS, WIDTH = [15, 10, 5], 1024, 128
ROW = 4 * WIDTH


def nodes_of(graph: Graph, rank: int, bulk: int, each: int, seeds: int) -> list[np.ndarray]:
    """Nodes of a rank's minibatches."""
    first = (bulk * 64 + rank) * each
    ids = [
        np.random.default_rng([1, first + i]).choice(graph.num_nodes, seeds, replace=False)
        for i in range(each)
    ]
    made = Neighbor(FANOUT).sample_bulk(graph, ids, seed=0, first_batch=first, threads=2)
    return [np.array(sample.node, np.uint32) for sample in made]


def matrix(rows: int) -> np.ndarray:
    return np.random.default_rng(2).standard_normal((rows, WIDTH), np.float32)


# ---- real ranks --------------------------------------------------------------------------------


def one_rank(folder: str, c: int, each: int, bulks: int, seeds: int) -> None:
    """Fetches in all ways; rank 0 writes what was found."""
    graph = Graph.open(folder)
    whole, found = matrix(graph.num_nodes), []
    with Grid(c, timeout=300) as grid:
        batches = [nodes_of(graph, grid.rank, bulk, each, seeds) for bulk in range(bulks)]
        batches.append([])
        block = FeatureBlock.of(whole, grid.num_rows, grid.row)
        for mode, memory, wire in ways(graph.num_nodes):
            exchange = FeatureExchange(grid, block, memory=memory, wire=wire, mode=mode)
            before, began = cpu(), time.perf_counter()
            for ids, ahead in pairwise(batches):
                for rows, nodes in zip(exchange.fetch(ids, ahead), ids, strict=True):
                    right = whole[nodes]
                    assert wire != "exact" or np.array_equal(rows.numpy(), right)
            exchange.close()
            took = [cpu() - before, time.perf_counter() - began]
            table = total(grid.gather_ledger(exchange.ledger))
            found.append([table.bytes, table.messages, *took, exchange.error.relative])
    if grid.rank == 0:
        Path(folder, "found.json").write_text(json.dumps(found))


def ways(rows: int) -> list[tuple]:
    """Mode, budget and wire format of the checks."""
    return [
        ("paper", None, "exact"),
        ("planned", rows * ROW // 10 + (16 << 20), "exact"),
        ("planned", rows * ROW // 2 + (16 << 20), "exact"),
        ("planned", rows * ROW // 10 + (16 << 20), "float16"),
        ("planned", rows * ROW // 10 + (16 << 20), "int8"),
    ]


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_world(size: int, folder: Path, arguments: list[str]) -> list[list]:
    run_on_loopback(__file__, size, ["--folder", str(folder), *arguments], 500)
    return json.loads((folder / "found.json").read_text())


def check(args: argparse.Namespace, folder: Path) -> list:
    """Real ranks against the prediction."""
    graph, rows = Graph.open(folder), []
    for shape in args.checks:
        size, c = map(int, shape.split("x"))
        sampled = [
            [nodes_of(graph, rank, bulk, args.check_each, args.check_seeds) for rank in range(size)]
            for bulk in range(2)
        ]
        options = ["--replication", str(c), "--check-each", str(args.check_each)]
        found = run_world(size, folder, [*options, "--check-seeds", str(args.check_seeds)])
        for (mode, memory, wire), (sent, messages, used, took, off) in zip(
            ways(graph.num_nodes), found, strict=True
        ):
            each = {"exact": ROW, "float16": 2 * WIDTH, "int8": 4 + WIDTH}[wire]
            if mode == "paper":
                said = paper_sent(sampled, size, c, graph.num_nodes, each)
            else:
                said, _, _ = planned_sent(sampled, size, c, graph.num_nodes, each, memory)
            assert said == (sent, messages), (size, c, mode, wire, said, sent, messages)
            budget = "" if memory is None else format_bytes(memory)
            error = "" if wire == "exact" else f"{off:.1e}"
            cells = [size, c, mode, budget, wire, f"{sent:,}", messages, "equal", error]
            rows.append([*cells, f"{used:.2f}", f"{took:.2f}"])
    head = ["p", "c", "mode", "budget", "wire", "bytes", "messages", "predicted", "error"]
    text = (
        f"Real gloo ranks on one machine, a graph of {graph.num_nodes:,} nodes, "
        f"{args.check_each} minibatches of {args.check_seeds} seeds a rank and bulk; the error is "
        "relative (root of the squares), of rank 0; seconds are of rank 0 and say little where "
        "ranks share cores."
    )
    return [[text, [*head, "CPU s", "s"], rows]]


# ---- by plan -----------------------------------------------------------------------------------


def paper_sent(sampled: list, size: int, c: int, count: int, each: int) -> tuple[int, int]:
    """Bytes and messages of the published exchange."""
    starts = np.arange(size // c + 1) * count // (size // c)
    nbytes = messages = 0
    for bulk in sampled:
        for column in range(c):
            needs = [
                np.array([np.diff(np.searchsorted(np.sort(ids), starts)) for ids in bulk[rank]])
                for rank in range(column, size, c)
            ]
            sent = total(predict_paper(needs, each))
            nbytes, messages = nbytes + sent.bytes, messages + sent.messages
    return nbytes, messages


def planned_sent(
    sampled: list, size: int, c: int, count: int, each: int, memory: int, slots: int | None = None
) -> tuple[tuple[int, int], int, int]:
    """Bytes and messages of the planned exchange, rows that crossed, and the fewest rows."""
    blocks = size // c
    starts = np.arange(blocks + 1) * count // blocks
    held, staging = shares(memory, count, each, blocks - 1)
    bounded = slots is not None
    nbytes = messages = crossed = fewest = 0
    for column in range(c):
        ranks = range(column, size, c)
        planners = [
            FetchPlanner(starts, place, held if slots is None else slots, bounds=bounded)
            for place in range(blocks)
        ]
        for bulk, batches in enumerate(sampled):
            later = sampled[bulk + 1] if bulk + 1 < len(sampled) else [[]] * size
            plans = [p.plan(batches[r], later[r]) for p, r in zip(planners, ranks, strict=True)]
            sent = total(predict(plans, each, staging))
            nbytes, messages = nbytes + sent.bytes, messages + sent.messages
            crossed += sum(plan.core.counts()["misses"] for plan in plans)
            fewest += sum(plan.core.block_bound for plan in plans)  # a row is a block
    return (nbytes, messages), crossed, fewest


def same_memory(sampled: list, count: int, size: int) -> list:
    """Paper with c = 1 and 2 against planned with the rest of its memory as the budget."""
    nodes, batches = totals(sampled)
    rows = []
    for c in (1, 2):
        paper = paper_sent(sampled, size, c, count, ROW)
        remote = nodes / batches * (1 - c / size)
        for name, buffers in (("received", 1), ("received and sent", 2)):
            memory = int((buffers * remote + (c - 1) * count / size) * ROW)
            own, _, _ = planned_sent(sampled, size, 1, count, ROW, memory)
            slots, _ = shares(memory, count, ROW, size - 1)
            cells = [c, name, format_bytes(memory + count // size * ROW), f"{slots:,}"]
            cells += [format_bytes(paper[0]), paper[1], format_bytes(own[0]), own[1]]
            rows.append([*cells, f"{paper[0] / own[0]:.2f}"])
    head = ["paper's c", "buffers counted", "memory a rank", "slots", "paper", "messages"]
    text = f"p = {size}: a minibatch has {nodes / batches:,.0f} nodes. At the same memory (bar: 2):"
    return [[text, [*head, "planned", "messages", "paper / planned"], rows]]


def totals(sampled: list) -> tuple[int, int]:
    """Nodes of all minibatches, and how many those are."""
    sizes = [len(ids) for bulk in sampled for part in bulk for ids in part]
    return sum(sizes), len(sizes)


def some_cached(sampled: list, count: int, size: int) -> list:
    """Caches of a share of the features, with the limit for any policy."""
    nodes, batches = totals(sampled)
    paper, rows = paper_sent(sampled, size, 1, count, ROW), []
    remote = nodes / batches * (1 - 1 / size)
    for share, wire in (
        (0.1, "exact"),
        (0.1, "float16"),
        (0.1, "int8"),
        (0.5, "exact"),
    ):
        each = {"exact": ROW, "float16": 2 * WIDTH, "int8": 4 + WIDTH}[wire]
        slots = min(count, int(share * count * ROW / each))
        memory = slots * each + (128 << 20)  # only for the rounds
        own, crossed, fewest = planned_sent(sampled, size, 1, count, each, memory, slots)
        limit = remote / (remote - slots) if slots < remote else float("inf")
        cells = [f"{share:.0%}", wire, f"{slots:,}", format_bytes(own[0])]
        cells += [f"{paper[0] / own[0]:.2f}", f"{limit * ROW / each:.2f}"]
        rows.append([*cells, f"{crossed:,}", f"{fewest:,}"])
    text = (
        f"p = {size}: with a cache of some of the features (bar: 4), against c = 1, which moves "
        f"{format_bytes(paper[0])}:"
    )
    head = ["cache", "wire", "slots", "planned", "paper / planned", "limit", "rows", "fewest"]
    return [[text, head, rows]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder")
    parser.add_argument("--replication", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--each", type=int, default=8)
    parser.add_argument("--keep", type=Path, help="JSON of finished parts")
    parser.add_argument("--checks", nargs="+", default=["2x1", "4x1", "4x2"], help="p x c")
    parser.add_argument("--check-each", type=int, default=4)
    parser.add_argument("--check-seeds", type=int, default=128)
    args = parser.parse_args()
    if args.folder:
        one_rank(args.folder, args.replication, args.check_each, 2, args.check_seeds)
        return
    report = Report("dist_features", __doc__)
    found = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        small, large = Path(temporary, "small"), Path(temporary, "large")
        if "check" not in found:
            synthesize(small, args.nodes // 10, edges=args.edges // 10, features=0, classes=2)
            keep(args, found, "check", check(args, small))
        synthesize(large, args.nodes, edges=args.edges, features=0, classes=2)
        graph = Graph.open(large)
        for size in args.ranks:
            if f"{size} some" in found:
                continue
            sampled = [
                [nodes_of(graph, rank, bulk, args.each, SEEDS) for rank in range(size)]
                for bulk in range(2)
            ]
            for name, table in (("same", same_memory), ("some", some_cached)):
                if f"{size} {name}" not in found:
                    keep(args, found, f"{size} {name}", table(sampled, args.nodes, size))
    for part in found.values():
        for text, head, rows in part:
            report.line(text)
            report.table(head, rows)
    report.write()


def keep(args: argparse.Namespace, found: dict, name: str, tables: list) -> None:
    """So that a run that was interrupted goes on where it was."""
    found[name] = tables
    if args.keep:
        args.keep.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
