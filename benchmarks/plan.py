"""How fast is planning, and how far from the least possible are its reads?

`speed`: accesses planned a second on one core, against the number of accesses and of rows; the
batches are random rows of a power law over shuffled ids, and the look-ahead, which is walked too,
is as long as the bulk. `reads`: reads on a sampled trace (a synthetic graph with communities, a
power law and shuffled ids, fan-outs 10 and 5) for all policies at 5, 10 and 25 % memory, beside
the lower bounds. A ratio is reads of the policy / bound at the block size of `ours`.

    python benchmarks/plan.py                         (both)
    python benchmarks/plan.py speed [--rounds 5] [--date 2026-11-16]
    python benchmarks/plan.py reads [--nodes 1M] [--date 2026-11-16]
"""

import argparse
import statistics
import time

import numpy as np
from common.report import Report, median_spread

from foregather import _core
from foregather.cli.bench import Bench
from foregather.plan.baselines.compare import trace_bound
from foregather.plan.baselines.policies import POLICIES, Setting, run_policy
from foregather.plan.choice import choose
from foregather.plan.planner import file_geometry, summarize
from foregather.units import format_bytes, format_count, parse_count

ROW_BYTES = 512
SHARES = (0.05, 0.1, 0.25)
BLOCKS = (4096, 16384, 32768)
PRICED_ROUNDS = 15


def power_law(num_rows: int, steps: int, size: int, seed: int) -> list[np.ndarray]:
    """Batches of distinct rows; half of them from a power law, half from anywhere."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(num_rows).astype(np.uint32)
    batches = []
    for _ in range(steps):
        hot = (num_rows * rng.random(size // 2) ** 4).astype(np.int64)
        ids = np.unique(np.concatenate([hot, rng.integers(0, num_rows, size // 2)]))
        batches.append(names[rng.permutation(ids)])
    return batches


def measure(num_rows: int, steps: int, size: int, block: int, bounds: bool, rounds: int) -> list:
    trace = power_law(num_rows, 3 * steps, size, 0)
    bulks = [trace[k * steps : (k + 1) * steps] for k in range(3)]
    geometry, slots = file_geometry(num_rows, ROW_BYTES, block), num_rows // 10
    accesses = sum(map(len, bulks[1]))
    wall, cpu = [], []
    planner = _core.Planner(geometry, slots, bounds=bounds)
    planner.plan(bulks[0], bulks[1])
    for _ in range(rounds):
        start, used = time.perf_counter(), time.thread_time()
        plan = planner.plan(bulks[1], bulks[2])
        cpu.append(accesses / (time.thread_time() - used) / 1e6)
        wall.append(accesses / (time.perf_counter() - start) / 1e6)
    print(num_rows, accesses, block, bounds, statistics.median(wall), statistics.median(cpu))
    reads = plan.counts()["requests"] / accesses
    most = _core.planner_bytes(geometry, slots, 2 * accesses, 2 * steps)
    return [
        format_count(num_rows),
        f"{accesses:,}",
        f"{block >> 10} KiB",
        "yes" if bounds else "no",
        f"{100 * reads:.1f}",
        median_spread(wall),
        f"{statistics.median(cpu):.3g}",
        format_bytes(most),
    ]


def speed(report: Report, rounds: int) -> None:
    report.line(
        "Planning speed, million accesses of the planned bulk a second; cache of 10 % of the rows, "
        "warm, one thread. CPU is by the thread's own clock: other work shared the cores, so wall "
        "time is an upper bound, and caches and memory were shared in both."
    )
    cases = [(10_000_000, steps, 80_000, 32768, False) for steps in (8, 16, 32, 64)]
    cases += [(1_000_000, 32, 80_000, 32768, False), (10_000_000, 32, 80_000, 32768, True)]
    cases += [(10_000_000, 32, 80_000, 4096, False)]
    report.table(
        ["rows", "accesses", "block", "bounds", "requests/100", "M/s (range)", "M/s CPU", "memory"],
        [measure(*case, rounds) for case in cases],
    )


def reads(report: Report, nodes: int, bulk: int) -> None:
    """Reports requests and lower bounds of a sampled trace, by block size and cache share."""
    bench = Bench("cache", nodes=str(nodes), bulk=bulk, bulks=2, batch_size=256)
    trace = bench._trace(bench._graph())
    rows = sum(len(batch) for bulk in trace for batch in bulk)
    touched = len(np.unique(np.concatenate([batch for bulk in trace for batch in bulk])))
    report.line(
        f"Reads on a sampled trace: {format_count(nodes)} nodes, rows of {ROW_BYTES} bytes, "
        f"2 bulks of {bulk} batches, {rows:,} accesses, {touched / nodes:.0%} of the rows touched. "
        "Requests and bounds are per 100 accesses. The block bound supposes that a block takes the "
        "memory of one row, so "
        "with large blocks or much memory it comes down to reading every touched block once. The "
        "priced bound (csrc/plan/bounds/priced_bound.hpp) counts a slot for every row: no "
        "plan with this memory reads fewer blocks than that."
    )
    table = []
    for block in BLOCKS:
        geometry = file_geometry(nodes, ROW_BYTES, block)
        for share in SHARES:
            slots = int(nodes * share)
            _, least = trace_bound(trace, geometry, slots)
            flat = [batch for bulk in trace for batch in bulk]
            priced = 0
            if block == BLOCKS[0]:
                empty = np.empty(0, np.uint32)
                priced = _core.priced_bound(geometry, flat, slots, empty, PRICED_ROUNDS)
            for name in POLICIES if block == BLOCKS[0] else ("page", "ours"):
                start = time.perf_counter()
                plans = run_policy(name, trace, Setting(geometry, slots))
                parts = [summarize(plan) for plan in plans]
                total = parts[0] + parts[1]
                table.append(
                    [
                        f"{block >> 10} KiB",
                        f"{share:.0%}",
                        name,
                        f"{100 * total.misses / rows:.1f}",
                        f"{100 * total.requests / rows:.1f}",
                        f"{100 * least / rows:.1f}",
                        f"{total.requests / least:.2f}",
                        f"{100 * priced / rows:.1f}" if priced else "",
                        f"{total.requests / priced:.2f}" if priced else "",
                        format_bytes(total.bytes),
                        f"{time.perf_counter() - start:.2f}",
                    ]
                )
    report.table(
        [
            *("block", "memory", "policy", "misses", "requests", "block bound", "ratio"),
            *("priced bound", "ratio", "bytes", "plan s"),
        ],
        table,
    )
    choice = choose(trace, file_geometry(nodes, ROW_BYTES), int(0.1 * nodes))
    report.line(f"What the cost model says at 10 % memory:\n\n```\n{choice.explain()}\n```")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", choices=["speed", "reads"], default=["speed", "reads"])
    parser.add_argument("--nodes", default="1M")
    parser.add_argument("--bulk", type=int, default=128, help="batches, for reads")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--date", default=None)
    options = parser.parse_args()
    for what in options.what:
        report = Report(f"plan_{what}", __doc__, options.date)
        if what == "speed":
            speed(report, options.rounds)
        else:
            reads(report, parse_count(options.nodes), options.bulk)
        report.write()


if __name__ == "__main__":
    main()
