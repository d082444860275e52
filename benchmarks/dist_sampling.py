"""How many bytes does sampling over ranks move, in the default mode and in the paper's?

A power-law graph of 1M nodes and 20M edges without edge weights, cut into block rows by edges;
fan-out [15, 10, 5], 1024 seeds a minibatch, every layer expands all nodes so far (the paper's
rule), one bulk. Both modes make the same minibatches (compared by digest). Bytes and messages are
payload as the ledger counts it, summed over all ranks; CPU seconds are of the slowest rank, for one
bulk, with one thread. The paper's mode sends ids of 4 bytes and no values, as the graph has none
(the published code sends 4 more bytes for each entry). "unpacked" is the default mode if every id,
degree and begin in it had 4 bytes: what is left without the packing of numbers. "formula" is the
paper's mode for c = 1 computed from the minibatches alone: a layer costs a rank, for each other
rank, 8 + 4 n bytes for n needed rows and 32 + 12 n + 4 (their edges) for the rows.

Weak scaling: one minibatch a rank. Strong scaling: 8 minibatches over all ranks. Wall-clock is not
given, as it means little with more ranks than cores.
"""

import argparse
import json
import resource
import sys
import tempfile
from pathlib import Path

import numpy as np
from common.report import Report
from common.world import run_on_loopback

from foregather.dist import DistSampler, Grid, Partition
from foregather.dist.transport.ledger import total
from foregather.graph.synthetic import synthesize
from foregather.sampling import Ladies, Neighbor
from foregather.units import format_bytes

FANOUT = [15, 10, 5]
SEEDS = 1024
TOTAL = 8  # minibatches of strong scaling
RULES = {
    "per-layer": Neighbor(FANOUT, expand="per-layer"),
    "once": Neighbor(FANOUT),
    "ladies": Ladies([512, 512]),
}


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def seeds_of(nodes: int, batch: int) -> np.ndarray:
    return np.random.default_rng([1, batch]).choice(nodes, SEEDS, replace=False)


def one_rank(folder: str, replications: list[int], sizes: list[int], rules: list[str]) -> None:
    """All cases of a world; rank 0 writes what was found."""
    found = []
    for c in replications:
        with Grid(c, timeout=300) as grid:
            part = Partition.open(folder, grid.num_rows, grid.row)
            for rule in rules:
                modes = ["owner", "paper"] if grid.size % (c * c) == 0 else ["owner"]
                samplers = {m: DistSampler(RULES[rule], part, grid, mode=m) for m in modes}
                # P of a grid row is not small: with c > 1 one minibatch a rank is enough.
                for each in sizes if c == 1 else sizes[:1]:
                    row = {"p": grid.size, "c": c, "rule": rule, "each": each}
                    for mode, sampler in samplers.items():
                        row[mode] = measure(sampler, each)
                    found.append(row)
    if grid.rank == 0:
        Path(folder, "found.json").write_text(json.dumps(found))


def measure(sampler: DistSampler, each: int) -> dict:
    grid = sampler.grid
    sampler.ledger.clear()
    first = grid.rank * each
    seeds = [seeds_of(sampler.topology.num_nodes, first + i) for i in range(each)]
    before = cpu()
    bulk = sampler.sample_bulk(seeds, seed=0, first_batch=first)
    seconds = cpu() - before
    table = grid.gather_ledger(sampler.ledger)
    grid.agree("digest for the log", "")
    store = grid.watch.store
    key = f"bench/{id_of(sampler)}/{each}"
    own = [seconds, bulk.digest, unpacked(sampler, bulk), formula(sampler, bulk)]
    store.set(f"{key}/{grid.rank}", json.dumps(own))
    grid.agree(f"end of {key}", "")
    parts = [json.loads(store.get(f"{key}/{rank}")) for rank in range(grid.size)]
    by_purpose: dict[str, list[int]] = {}
    for (_, _, purpose), entry in table.items():
        sums = by_purpose.setdefault(purpose, [0, 0])
        sums[0] += entry.bytes
        sums[1] += entry.messages
    return {
        "bytes": total(table).bytes,
        "messages": total(table).messages,
        "purposes": by_purpose,
        "seconds": max(part[0] for part in parts),
        "digests": [part[1] for part in parts],
        "unpacked": sum(part[2] for part in parts),
        "formula": sum(part[3] for part in parts),
    }


def id_of(sampler: DistSampler) -> str:
    return f"{sampler.mode}/{sampler.sampler!r}"


def unpacked(sampler: DistSampler, bulk) -> int:
    """Bytes of this rank's requests and replies if ids, degrees and begins had 4 bytes each."""
    starts, grid = sampler.topology.row_starts, sampler.grid
    if not isinstance(sampler.sampler, Neighbor):
        return 0
    low, high = starts[grid.row], starts[grid.row + 1]
    once, words = sampler.sampler.expand == "once", 0
    for layer in range(sampler.sampler.num_layers):
        pairs, edges = [], []
        for s in bulk:
            begin = s.num_nodes[layer - 1] if once and layer else 0
            rows = s.node[begin : s.num_nodes[layer]]
            span = slice(sum(s.num_edges[:layer]), sum(s.num_edges[: layer + 1]))
            target = s.node[s.col[span]]
            pairs.append(rows[(rows < low) | (rows >= high)])
            edges.append(s.edge[span][(target < low) | (target >= high)])
        words += sum(len(p) for p in pairs) + 2 * len(np.unique(np.concatenate(pairs)))
        words += len(np.unique(np.concatenate(edges)))
    return 4 * words


def formula(sampler: DistSampler, bulk) -> int:
    """Bytes of the paper's mode for this rank's minibatches, without lengths, for c = 1."""
    grid, part, rule = sampler.grid, sampler.topology, sampler.sampler
    if grid.replication > 1 or not isinstance(rule, Neighbor):
        return 0
    degree = np.load(Path(part_folder(), "indptr.npy"), mmap_mode="r")
    made = 0
    for layer in range(rule.num_layers):
        begin = [s.num_nodes[layer - 1] if rule.expand == "once" and layer else 0 for s in bulk]
        rows = [s.node[b : s.num_nodes[layer]] for s, b in zip(bulk, begin, strict=True)]
        needed = np.unique(np.concatenate(rows)).astype(np.int64)
        low, high = part.row_starts[grid.row], part.row_starts[grid.row + 1]
        needed = needed[(needed < low) | (needed >= high)]
        edges = int((degree[needed + 1] - degree[needed]).sum())
        made += (grid.size - 1) * 40 + 16 * len(needed) + 4 * edges
    return made


def part_folder() -> str:
    """The folder of the graph, as the command line says."""
    return sys.argv[sys.argv.index("--folder") + 1]


def run_world(size: int, folder: Path, arguments: list[str]) -> list[dict]:
    run_on_loopback(__file__, size, ["--folder", str(folder), *arguments], 900)
    return json.loads((folder / "found.json").read_text())


def lines(found: list[dict]) -> list[list[object]]:
    rows = []
    for row in found:
        own, paper = row["owner"], row.get("paper")
        cells = [row["p"], row["c"], row["rule"], row["each"], format_bytes(own["bytes"])]
        cells += [format_bytes(own["unpacked"]) if own["unpacked"] else "", own["messages"]]
        cells.append(f"{own['seconds']:.2f}")
        if paper is None:
            rows.append([*cells, "", "", "", "", ""])
            continue
        assert own["digests"] == paper["digests"], "the modes differ"
        payload = paper["bytes"] - paper["purposes"].get("lengths", [0])[0]
        assert not paper["formula"] or paper["formula"] == payload, "the formula is wrong"
        cells += [format_bytes(paper["bytes"])]
        cells += [format_bytes(paper["formula"]) if paper["formula"] else ""]
        cells += [paper["messages"], f"{paper['seconds']:.2f}"]
        rows.append([*cells, f"{paper['bytes'] / own['bytes']:.1f}" if own["bytes"] else ""])
    return rows


MODES = ("owner", "paper")
SCALING = ["mode", "sampler", "p", "minibatches a rank", "bytes a rank", "messages a rank", "CPU s"]


def scaling(row: dict, mode: str) -> list[object]:
    one, p = row[mode], row["p"]
    cells = [format_bytes(one["bytes"] // p), one["messages"] // p, f"{one['seconds']:.2f}"]
    return [mode, row["rule"], p, row["each"], *cells]


HEAD = [
    "p",
    "c",
    "sampler",
    "minibatches a rank",
    "default",
    "unpacked",
    "messages",
    "CPU s",
    "paper",
    "formula",
    "messages",
    "CPU s",
    "paper / default",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--each", type=int, nargs="+", default=[4])
    parser.add_argument("--replications", type=int, nargs="+", default=[1])
    parser.add_argument("--keep", type=Path, help="JSON of worlds that were measured before")
    parser.add_argument("--rules", nargs="+", default=["per-layer", "ladies"])
    args = parser.parse_args()
    if args.folder:
        one_rank(args.folder, args.replications, args.each, args.rules)
        return
    report = Report("dist_sampling", __doc__)
    found: list[dict] = []
    if args.keep and args.keep.exists():
        found = json.loads(args.keep.read_text())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "graph")
        synthesize(folder, args.nodes, edges=args.edges, features=0, classes=2)
        for size in args.ranks:
            if any(row["p"] == size for row in found):
                continue
            replications = ["1", "2"] if size % 4 == 0 else ["1"]
            sizes = sorted({1, max(1, TOTAL // size), *(args.each if size >= 4 else [])})
            options = ["--replications", *replications, "--each", *map(str, sizes)]
            found += run_world(size, folder, [*options, "--rules", *args.rules])
            if args.keep:
                args.keep.write_text(json.dumps(found))
    report.table(HEAD, lines(found))
    for name, wanted in (("Weak", lambda p: 1), ("Strong", lambda p: TOTAL // p)):
        report.line(f"{name} scaling, c = 1:")
        own = [r for r in found if r["c"] == 1 and r["each"] == wanted(r["p"])]
        report.table(SCALING, [scaling(row, mode) for mode in MODES for row in own])
    report.line("By purpose, bytes and messages, 1 minibatch a rank, the largest p, c = 1:")
    for row in found:
        if row["p"] == max(args.ranks) and row["c"] == 1 and row["each"] == args.each[0]:
            for mode in ("owner", "paper"):
                sent = row[mode]["purposes"].items()
                rows = [[mode, row["rule"], p, f"{b:,}", m] for p, (b, m) in sorted(sent)]
                report.table(["mode", "sampler", "purpose", "bytes", "messages"], rows)
    report.write()


if __name__ == "__main__":
    main()
