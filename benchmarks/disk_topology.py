"""Sampling from a topology on disk: ordered passes against the memory map, under one limit.

Both sample the same minibatches of a synthetic graph inside a cgroup (v1, root) whose limit is a
fraction of the topology, from a cold page cache, in turns; digests must be equal. The map is the
in-memory kernel on the mapped folder, with the kernel's default read-ahead and with MADV_RANDOM; it
takes bulks of two minibatches, so that page cache and not results get the memory. Ours takes bulks
as stated. Both use all threads. Seconds are those of sampling; opening is apart. With the default
read-ahead a minibatch takes so long that it samples only as many as stated; rates are compared.

    python benchmarks/disk_topology.py              (measures once and writes the report)
    python benchmarks/disk_topology.py measure --folder F --fanout 10 10    (adds to F/runs.json)
    python benchmarks/disk_topology.py report --folder F                    (writes the report)
"""

import argparse
import ctypes
import json
import mmap
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from common.cgroup import Cgroup
from common.folder import working_folder
from common.report import Report, median_spread
from common.skip import skip

from foregather import Graph
from foregather.graph.synthetic import synthesize
from foregather.sampling.bulk import Bulk
from foregather.sampling.disk import DiskTopology
from foregather.sampling.neighbor import Neighbor
from foregather.units import format_bytes, parse_count, parse_size

BATCH = 1024
SYSTEMS = ("passes", "map", "map, MADV_RANDOM")


def seeds_of(graph, count):
    """Seeds of an epoch that is dealt in random order."""
    rng = np.random.default_rng(12)
    return [rng.integers(0, graph.num_nodes, BATCH) for _ in range(count)]


def advise_random(array):
    """MADV_RANDOM on the map behind an array."""
    first = array.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    size = array.ctypes.data + array.nbytes - first
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), mmap.MADV_RANDOM) != 0:
        raise OSError(ctypes.get_errno(), "madvise refused the map")


def child(args):
    """One run inside the cgroup; prints its facts."""
    started = time.perf_counter()
    graph = Graph.open(args.graph)
    sampler = Neighbor(args.fanout)
    seeds = seeds_of(graph, args.batches)
    if args.system == "passes":
        source = DiskTopology(graph, args.memory, backend=args.backend, block=args.block)
        bulk = args.bulk

        def sample(part, first):
            return source.sample_bulk(sampler, part, seed=5, first_batch=first)
    else:
        bulk = 2
        if args.system != "map":
            advise_random(graph.indices)
            advise_random(graph.indptr)

        def sample(part, first):
            return sampler.sample_bulk(graph, part, seed=5, first_batch=first)

    facts = {"open": time.perf_counter() - started, "edges": 0, "digests": []}
    seconds, first = [], 0
    while first < args.batches:
        part = seeds[first : first + bulk]
        started = time.perf_counter()
        made = sample(part, first)
        seconds.append(time.perf_counter() - started)
        facts["edges"] += sum(len(s.row) for s in made)
        facts["digests"] += [Bulk([s], 0, 0, 0).digest for s in made]
        first += len(part)
        del made
    facts |= {"seconds": sum(seconds), "bulks": seconds}
    facts["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    facts["read"] = int(Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])
    if args.system == "passes":
        facts["counters"], facts["backend"] = source.counters(), source.backend
        facts["shares"] = source.shares()
    print(json.dumps(facts))


def run(args, system):
    """One cold run of a system in its cgroup."""
    for name in ("indices.npy", "indptr.npy"):
        number = os.open(Path(args.graph) / name, os.O_RDONLY)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(number)
    command = [sys.executable, __file__, "child", "--system", system, "--graph", args.graph]
    batches = args.default_batches if system == "map" else args.batches
    command += ["--batches", str(batches), "--bulk", str(args.bulk), "--memory", args.memory]
    command += ["--fanout", *map(str, args.fanout)]
    command += ["--backend", args.backend] if args.backend else []
    command += ["--block", str(args.block)] if args.block else []
    with Cgroup(parse_size(args.limit)) as cgroup:
        if not cgroup.works:
            skip("a memory cgroup (v1) cannot be made here; run as root")
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=cgroup.join)
        if done.returncode:
            sys.exit(f"{system} failed ({done.returncode}): {done.stderr}")
        facts = json.loads(done.stdout)
        facts["peak"] = cgroup.read("memory.max_usage_in_bytes")
    return facts


def measure(args):
    """Rounds of all systems in turns, appended to the file of runs."""
    graph = Path(args.folder) / "graph"
    if not graph.exists():
        synthesize(graph, parse_count(args.nodes), degree=args.degree, features=0)
    args.graph = str(graph)
    path = Path(args.folder) / "runs.json"
    runs = json.loads(path.read_text()) if path.exists() else []
    keys = ("fanout", "batches", "bulk", "memory", "limit")
    for turn in range(args.rounds):
        order = SYSTEMS[turn % 3 :] + SYSTEMS[: turn % 3]
        for system in order:
            if args.only and system != args.only:
                continue
            if system == "map" and turn >= args.default_rounds:
                continue
            facts = run(args, system)
            runs.append({"system": system, **{k: getattr(args, k) for k in keys}, **facts})
            print(turn, system, args.fanout, f"{facts['seconds']:.2f} s", file=sys.stderr)
            if not args.only:
                path.write_text(json.dumps(runs))
    if args.only:
        shown = {k: v for k, v in runs[-1].items() if k not in ("bulks", "digests")}
        print(json.dumps(shown, indent=1))


def report(args):
    """The report from the file of runs."""
    runs = json.loads((Path(args.folder) / "runs.json").read_text())
    graph = Graph.open(Path(args.folder) / "graph")
    out = Report("disk_topology", __doc__)
    out.line(
        f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, ids shuffled; indices "
        f"{format_bytes(graph.indices.nbytes)}, indptr {format_bytes(graph.indptr.nbytes)}. "
        f"Minibatches of {BATCH} random seeds. Median (least to most). "
        "The host's own cache under the virtual disk is out of our hands, and other work may have "
        "run on the machine; both move the seconds of both sides."
    )
    if args.note:
        out.line(args.note)
    for fanout in sorted({tuple(r["fanout"]) for r in runs}):
        chosen = [r for r in runs if tuple(r["fanout"]) == fanout]
        most = max((r["digests"] for r in chosen), key=len)
        assert all(r["digests"] == most[: len(r["digests"])] for r in chosen), "samples differ"
        one = chosen[0]
        out.line(
            f"**Fan-out {list(fanout)}**, {one['batches']} minibatches, ours in bulks of "
            f'{one["bulk"]} with `memory="{one["memory"]}"`, cgroup limit {one["limit"]}, '
            f"every minibatch with the same digest in all runs:"
        )
        rows, middle = [], {}
        for system in SYSTEMS:
            mine = [r for r in chosen if r["system"] == system]
            if not mine:
                rows.append([system, 0, *["not run: too long"] * 6])
                continue
            rates = [r["edges"] / r["seconds"] / 1e6 for r in mine]
            middle[system] = statistics.median(rates)
            rows.append(
                [
                    system,
                    len(mine),
                    len(mine[0]["digests"]),
                    median_spread([r["seconds"] for r in mine]),
                    median_spread(rates),
                    format_bytes(statistics.median(r["read"] for r in mine)),
                    format_bytes(max(r["peak"] for r in mine)),
                    median_spread([r["open"] for r in mine]),
                ]
            )
        head = ["system", "runs", "minibatches", "seconds", "M edges/s", "bytes read (kernel)"]
        head += ["peak of cgroup", "seconds to open"]
        out.table(head, rows)
        best = max(middle[name] for name in SYSTEMS[1:] if name in middle)
        out.line(f"Ours has {middle['passes'] / best:.1f} times the rate of the better map.")
        ours = [r for r in chosen if r["system"] == "passes"][-1]
        count, parts = ours["counters"], ours["counters"]["seconds"]
        out.line(
            f"Our last run ({ours['backend']}): {count['requests']:,} requests, "
            f"{format_bytes(count['bytes'])}, {count['passes']} passes, "
            f"{count['hits'] / count['picks']:.0%} of {count['picks']:,} picks and "
            f"{count['block_hits'] / count['blocks']:.0%} of {count['blocks']:,} blocks in the "
            "cache; seconds by phase: "
            + ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
            + f"; cache {format_bytes(ours['shares']['cache'])}."
        )
    out.write()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", nargs="?", default="both", choices=["both", "measure", "report", "child"]
    )
    parser.add_argument("--folder", type=Path, help="where graph and runs are kept")
    parser.add_argument("--nodes", default="20M")
    parser.add_argument("--degree", type=int, default=30)
    parser.add_argument("--fanout", type=int, nargs="+", default=[10, 10])
    parser.add_argument("--batches", type=int, default=32)
    parser.add_argument("--default-batches", type=int, default=1)
    parser.add_argument("--default-rounds", type=int, default=5)
    parser.add_argument("--bulk", type=int, default=16)
    parser.add_argument("--memory", default="400MB")
    parser.add_argument("--limit", default="700MB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backend")
    parser.add_argument("--block", type=int)
    parser.add_argument("--only", help="one system, printed and not kept")
    parser.add_argument("--note", help="a remark about the runs, for the report")
    parser.add_argument("--system")
    parser.add_argument("--graph")
    args = parser.parse_args()
    if args.what == "child":
        child(args)
        return
    with working_folder(args.folder) as args.folder:
        if args.what != "report":
            measure(args)
        if args.what != "measure":
            report(args)


if __name__ == "__main__":
    main()
