"""sweeps: seconds and misses over the size of the cache, of the superbatch, and of a row."""

import itertools
import statistics
import sys
from typing import Any

from common.executed import Executed, announced, plan_trace, recut, run_trace
from common.figures import Figure, Holds, Series

from foregather.gather.feature_file import FeatureFile
from foregather.observe.calibration import load_calibration
from foregather.plan.cost import ASSUMED_DISK
from foregather.units import format_bytes

from .cases import Case, get_case
from .end_to_end import COMMAND

__all__ = ["cache_size", "feature_width", "superbatch"]

WAYS = {"static": "static", "lru": "LRU", "ginex": "Ginex's policy", "ours": "foregather"}


def measured(
    case: Case, ways: dict[str, Any], slots: int, rounds: int
) -> dict[str, tuple[float, Executed]]:
    """Ways by turns on their traces: median seconds of a batch, and the last run."""
    file, disk = FeatureFile.of(case.graph), load_calibration(case.folder)
    found: dict[str, list[Executed]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, trace in ways.items():
            found[way].append(run_trace(way.partition(":")[0], trace, file, slots, disk))
            print("sweep", case.name, slots, way, found[way][-1], file=sys.stderr, flush=True)
    return {way: (statistics.median(r.seconds for r in f), f[-1]) for way, f in found.items()}


def as_row(x: str, label: str, seconds: float, one: Executed) -> list[str]:
    """One point of a table."""
    read = format_bytes(int(one.bytes))
    return [x, label, f"{seconds:.4g}", f"{100 * one.misses:.1f}", f"{one.requests:,.0f}", read]


HEAD = ["policy", "s a batch", "misses / 100 rows", "requests", "bytes"]


def cache_size(quick: bool) -> Figure:
    """5 to 50 % of the rows in the cache."""
    case = get_case("communities", quick)
    count, bulk, size = (32, 32, 32) if quick else (128, 64, 128)
    trace = case.trace(count, bulk)
    shares = (0.05, 0.1, 0.25, 0.5)
    lines: dict[str, list[float]] = {way: [] for way in WAYS}
    rows, misses = [], []
    for share in shares:
        given = {way: recut(trace, size) if way == "ginex" else trace for way in WAYS}
        found = measured(case, given, int(share * case.graph.num_nodes), 1 if quick else 3)
        for way, (seconds, one) in found.items():
            lines[way].append(seconds)
            rows.append(as_row(f"{share:.0%}", WAYS[way], seconds, one))
        misses.append([found[way][1].misses for way in ("lru", "ginex")])
    ahead = all(ginex <= lru for lru, ginex in misses)
    faster = [a / b for a, b in zip(lines["ginex"], lines["ours"], strict=True)]
    return Figure(
        key="cache_size",
        paper="ginex",
        title="Seconds over the size of the cache",
        setting=f"{case.about}; {count} batches of {case.batch} in bulks of {bulk}, superbatches "
        f"of {size} for Ginex; the same executor, direct reads, one trace.",
        published=["ginex-throughput-mean"],
        x_label="rows in the cache, %",
        y_label="seconds of a batch, rows only",
        kind="line",
        series=[
            Series(WAYS[way], [100 * s for s in shares], seconds) for way, seconds in lines.items()
        ],
        columns=["cache", *HEAD],
        rows=rows,
        holds="yes" if ahead else "partly",
        explanation="Belady misses less than LRU at "
        + ("every size" if ahead else "some sizes only: its superbatches begin cold")
        + f"; ours takes {min(faster):.2f} to {max(faster):.2f} times fewer seconds than Ginex's "
        "policy, because it reads blocks.",
        command=COMMAND,
    )


def superbatch(quick: bool) -> Figure:
    """Superbatches of 8 to 512: misses of all, and seconds of some in the quick form."""
    case = get_case("communities", quick)
    count, batch = 512, 16 if quick else 64
    trace = case.trace(count, 512, batch)
    sizes = (8, 16, 32, 64, 128, 256, 512)
    timed = (8, 64, 512) if quick else sizes
    slots, file = case.graph.num_nodes // 20, FeatureFile.of(case.graph)
    ways = {"ginex": "cold (Ginex)", "carried": "carried over", "ours": "foregather"}
    disk = load_calibration(case.folder)
    lines: dict[str, list[float]] = {way: [] for way in ways}
    rows = []
    for size in sizes:
        cut = recut(trace, size)
        if size in timed:
            for way, (seconds, one) in measured(case, dict.fromkeys(ways, cut), slots, 1).items():
                lines[way].append(100 * one.misses)
                rows.append(as_row(str(size), ways[way], seconds, one))
            continue
        for way in ways:
            said = announced(plan_trace(way, cut, file, slots, disk), disk or ASSUMED_DISK)
            lines[way].append(100 * said["misses"])
            each = f"{said['requests'] / count:,.0f}", format_bytes(int(said["bytes"] / count))
            rows.append([str(size), ways[way], "not run", f"{100 * said['misses']:.1f}", *each])
    online = {
        name: 100 * announced(plan_trace(name, trace, file, slots), ASSUMED_DISK)["misses"]
        for name in ("lru", "sieve")
    }
    cold = lines["ginex"]
    falls = all(b <= a for a, b in itertools.pairwise(cold))
    late = [size for size, miss in zip(sizes, cold, strict=True) if miss > online["sieve"]]
    return Figure(
        key="superbatch",
        paper="ginex",
        title="Misses over the size of a superbatch",
        setting=f"{case.about}; a cache of 5 %, {count} batches of {batch} input nodes. Online: "
        + ", ".join(f"{name} {miss:.1f}" for name, miss in online.items())
        + " misses for each 100 rows. Free riders, which ours keeps from blocks that it reads, are "
        "no misses.",
        published=["ginex-readme-ginex"],
        x_label="batches of a superbatch",
        y_label="misses for each 100 rows",
        kind="line",
        series=[Series(ways[way], [*sizes], miss) for way, miss in lines.items()],
        columns=["superbatch", *HEAD],
        rows=rows,
        holds="yes" if falls else "partly",
        explanation="A longer superbatch misses less. Cold superbatches "
        + (f"of {late[-1]} or fewer miss more than SIEVE, which knows nothing." if late else
           "miss less than SIEVE at every size.")
        + " The cache that is carried over, and the next bulk in sight, flatten the line.",
        command=COMMAND,
    )  # fmt: skip


def feature_width(quick: bool) -> Figure:
    """32 to 1024 columns, the same share of rows in the cache."""
    widths = (32, 128, 512, 1024) if quick else (32, 64, 128, 256, 512, 1024)
    count, bulk, size = (32, 32, 32) if quick else (128, 64, 128)
    ways = ("lru", "ginex", "ours")
    lines: dict[str, list[float]] = {way: [] for way in ways}
    rows = []
    for width in widths:
        case = get_case(f"plain:{width}", True)
        trace = case.trace(count, bulk)
        given = {way: recut(trace, size) if way == "ginex" else trace for way in ways}
        found = measured(case, given, case.graph.num_nodes // 10, 1 if quick else 3)
        for way, (seconds, one) in found.items():
            lines[way].append(seconds)
            rows.append(as_row(str(width), WAYS[way], seconds, one))
    ratio = [a / b for a, b in zip(lines["ginex"], lines["ours"], strict=True)]
    grows = lines["ginex"][-1] >= lines["ginex"][0]
    holds: Holds = "yes" if grows else "partly"
    return Figure(
        key="feature_width",
        paper="ginex",
        title="Seconds over the width of a row",
        setting=f"{case.about.replace(f'{widths[-1]} columns', 'so many columns')}, no "
        f"communities; a tenth of the rows in the cache, {count} batches of {case.batch}.",
        published=["ginex-throughput-mean"],
        x_label="columns of float32",
        y_label="seconds of a batch, rows only",
        kind="line",
        series=[Series(WAYS[way], [*widths], seconds) for way, seconds in lines.items()],
        columns=["columns", *HEAD],
        rows=rows,
        holds=holds,
        explanation="A page of 4 KiB is read for a row of up to 1024 columns, so Ginex's seconds "
        "hardly depend on the width until rows outgrow pages. Ours takes "
        + ", ".join(f"{r:.2f} ({w})" for r, w in zip(ratio, widths, strict=True))
        + " times fewer seconds by columns: blocks pay where many rows fit in one.",
        command=COMMAND,
    )
