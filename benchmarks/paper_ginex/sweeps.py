"""sweeps: seconds and misses over the size of the cache, of the superbatch, and of a row."""

import itertools
import statistics
import sys
from dataclasses import asdict
from typing import Any

from common.executed import announced, plan_trace, recut, run_trace
from common.facts import Facts
from common.figures import Figure, Holds, Series

from foregather.gather.feature_file import FeatureFile
from foregather.observe.calibration import load_calibration
from foregather.plan.cost import ASSUMED_DISK
from foregather.units import format_bytes

from .cases import Case, get_case
from .end_to_end import COMMAND, SUPERBATCHES, told_losses

__all__ = ["cache_size", "feature_width", "superbatch"]

WAYS = {"static": "static", "lru": "LRU", "ginex": "Ginex's policy", "ours": "foregather"}
COLD = {"ginex": "cold (Ginex)", "carried": "carried over", "ours": "foregather"}
HEAD = ["policy", "s a batch", "misses / 100 rows", "requests", "bytes"]
SHARES = (0.05, 0.1, 0.25, 0.5)
SIZES, TIMED = (8, 16, 32, 64, 128, 256, 512), (8, 64, 512)  # the latter in the quick form
WIDTHS = (32, 64, 128, 256, 512, 1024)
QUICK = (256, 32, 8)  # batches of a trace, of a bulk, input nodes of a batch
WHOLE = (256, 64, 128)
ROUNDS = 3  # ways by turns; the median stands


def measured(case: Case, ways: dict[str, Any], slots: int, rounds: int) -> dict[str, Any]:
    """Ways by turns on their traces: the last run of each, with its median seconds of a batch."""
    file, disk = FeatureFile.of(case.graph), load_calibration(case.folder)
    found: dict[str, list[Any]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, trace in ways.items():
            found[way].append(run_trace(way, trace, file, slots, disk))
            print("sweep", case.name, slots, way, found[way][-1], file=sys.stderr, flush=True)
    return {
        way: {**asdict(runs[-1]), "seconds": statistics.median(one.seconds for one in runs)}
        for way, runs in found.items()
    }


def best_superbatch(case: Case, trace: Any, slots: int) -> int:
    """The superbatch with which Ginex's policy reads fewest rows; each read is a page or more."""
    file, disk = FeatureFile.of(case.graph), load_calibration(case.folder) or ASSUMED_DISK

    def reads(size: int) -> int:
        plans = plan_trace("ginex", recut(trace, size), file, slots, disk)
        return int(announced(plans, disk)["requests"])

    return min(SUPERBATCHES, key=reads)


def compared(case: Case, quick: bool, ways: tuple[str, ...], slots: int) -> dict[str, Any]:
    """Ways on one trace, Ginex's with its best superbatch."""
    count, bulk, batch = QUICK if quick else WHOLE
    trace = case.trace(count, bulk, batch)
    size = best_superbatch(case, trace, slots)
    given = {way: recut(trace, size) if way == "ginex" else trace for way in ways}
    return {**measured(case, given, slots, ROUNDS), "superbatch": size}


def as_row(x: str, label: str, one: dict[str, Any]) -> list[str]:
    """One point of a table."""
    read, spent = format_bytes(int(one["bytes"])), one.get("seconds")
    cells = [f"{100 * one['misses']:.1f}", f"{one['requests']:,.0f}", read]
    return [x, label, "not run" if spent is None else f"{spent:.4g}", *cells]


def label_of(way: str, point: dict[str, Any]) -> str:
    """The name of a way in a table."""
    return f"{WAYS[way]}, superbatch {point['superbatch']}" if way == "ginex" else WAYS[way]


def trace_told(quick: bool) -> str:
    count, bulk, batch = QUICK if quick else WHOLE
    sizes = ", ".join(map(str, SUPERBATCHES))
    return (
        f"{count} batches of {batch} in bulks of {bulk}; Ginex's policy with that superbatch of "
        f"{sizes} with which it reads least; the same executor, direct reads, one trace"
    )


# ---- the size of the cache ---------------------------------------------------------------------


def by_cache(quick: bool) -> dict[str, Any]:
    """5 to 50 % of the rows in the cache."""
    case = get_case("communities", quick)
    nodes = case.graph.num_nodes
    points = [compared(case, quick, tuple(WAYS), int(share * nodes)) for share in SHARES]
    return {"about": case.about, "points": points}


def cache_size(facts: Facts, quick: bool) -> Figure:
    """5 to 50 % of the rows in the cache."""
    found = facts(by_cache, quick)
    points, percents = found["points"], [100 * share for share in SHARES]
    rows = [
        as_row(f"{share:.0%}", label_of(way, point), point[way])
        for share, point in zip(SHARES, points, strict=True)
        for way in WAYS
    ]
    misses = [(point["lru"]["misses"], point["ginex"]["misses"]) for point in points]
    fewer = [p for p, (lru, ginex) in zip(percents, misses, strict=True) if ginex < lru]
    more = [p for p, (lru, ginex) in zip(percents, misses, strict=True) if ginex > lru]
    same = [p for p in percents if p not in fewer and p not in more]
    told = [
        f"{words} at {', '.join(f'{p:g}' for p in sizes)} %"
        for words, sizes in (
            ("reads fewer rows than LRU", fewer),
            ("as many, as every row is read once by both,", same),
            ("more, as its superbatches begin cold,", more),
        )
        if sizes
    ]
    faster = [point["ginex"]["seconds"] / point["ours"]["seconds"] for point in points]
    holds: Holds = "no" if len(more) == len(points) else "partly" if more or not fewer else "yes"
    return Figure(
        key="cache_size",
        paper="ginex",
        title="Seconds over the size of the cache",
        setting=f"{found['about']}; {trace_told(quick)}. Rows that a static cache and Ginex's read "
        "before the first batch are misses, too.",
        published=[],
        x_label="rows in the cache, %",
        y_label="seconds of a batch, rows only",
        kind="line",
        series=[Series(WAYS[w], [*percents], [p[w]["seconds"] for p in points]) for w in WAYS],
        columns=["cache", *HEAD],
        rows=rows,
        holds=holds,
        explanation=f"Belady, prefill counted, {'; '.join(told)}. Ginex's policy takes "
        f"{min(faster):.2f} to {max(faster):.2f} times the seconds of ours"
        + (", which reads blocks." if min(faster) > 1 else "."),
        command=COMMAND,
    )


# ---- the size of a superbatch ------------------------------------------------------------------


def by_superbatch(quick: bool) -> dict[str, Any]:
    """Superbatches of 8 to 512: misses of all, and seconds of some in the quick form."""
    case = get_case("communities", quick)
    count, batch = 512, 8 if quick else 64
    trace = case.trace(count, 512, batch)
    slots, file = case.graph.num_nodes // 20, FeatureFile.of(case.graph)
    disk, points = load_calibration(case.folder), []
    for size in SIZES:
        cut = recut(trace, size)
        if size in TIMED or not quick:
            points.append(measured(case, dict.fromkeys(COLD, cut), slots, ROUNDS))
            continue
        point = {}
        for way in COLD:
            said = announced(plan_trace(way, cut, file, slots, disk), disk or ASSUMED_DISK)
            point[way] = {
                "misses": said["misses"],
                "requests": said["requests"] / count,
                "bytes": said["bytes"] / count,
            }
        points.append(point)
    online = {
        name: 100 * announced(plan_trace(name, trace, file, slots), ASSUMED_DISK)["misses"]
        for name in ("lru", "sieve")
    }
    about = f"{case.about}; a cache of 5 %, {count} batches of {batch} input nodes"
    return {"about": about, "points": points, "online": online}


def superbatch(facts: Facts, quick: bool) -> Figure:
    """Superbatches of 8 to 512: misses of all, and seconds of some in the quick form."""
    found = facts(by_superbatch, quick)
    points, online = found["points"], found["online"]
    rows = [
        as_row(str(size), COLD[way], point[way])
        for size, point in zip(SIZES, points, strict=True)
        for way in COLD
    ]
    lines = {way: [100 * point[way]["misses"] for point in points] for way in COLD}
    cold, carried = lines["ginex"], lines["carried"]
    falls = all(b <= a for a, b in itertools.pairwise(cold))
    rises = all(b >= a for a, b in itertools.pairwise(cold))
    late = [size for size, miss in zip(SIZES, cold, strict=True) if miss > online["sieve"]]
    told = "falls at every step" if falls else "rises" if rises else "does not fall at every step"
    flat = [line[0] - line[-1] for line in (cold, carried)]
    slower = spent_by(points, "ginex")[-1][1] > spent_by(points, "ginex")[0][1]
    return Figure(
        key="superbatch",
        paper="ginex",
        title="Size of a superbatch: misses and seconds",
        setting=f"{found['about']}. Online: "
        + ", ".join(f"{name} {miss:.1f}" for name, miss in online.items())
        + " misses for each 100 rows. Rows that Ginex reads before the first batch of a superbatch "
        "are misses, too; free riders, which ours keeps from blocks that it reads, are not. Where "
        "ours repacks, every row is read from the scratch file, so that requests and bytes are "
        "what to compare.",
        published=[],
        x_label="batches of a superbatch",
        y_label="misses for each 100 rows",
        kind="line",
        series=[Series(COLD[way], [*SIZES], miss) for way, miss in lines.items()],
        columns=["superbatch", *HEAD],
        rows=rows,
        holds="no" if rises else "yes" if falls and not slower else "partly",
        explanation=f"What cold superbatches miss {told} with their size, from {cold[0]:.1f} to "
        f"{cold[-1]:.1f} of 100 rows. "
        + (
            f"Those of {late[-1]} or fewer miss more than SIEVE, which knows nothing. "
            if late
            else "They miss less than SIEVE at every size. "
        )
        + f"A cache that is carried over misses {carried[0]:.1f} to {carried[-1]:.1f}: "
        + ("it depends less on the size." if flat[1] < flat[0] else "it depends as much on it.")
        + f" {_seconds_told(points)}",
        command=COMMAND,
    )


def spent_by(points: list[dict[str, Any]], way: str) -> list[tuple[int, float]]:
    """Sizes that were run, with seconds of a batch."""
    pairs = zip(SIZES, points, strict=True)
    return [(size, point[way]["seconds"]) for size, point in pairs if "seconds" in point[way]]


def _seconds_told(points: list[dict[str, Any]]) -> str:
    """Seconds of the sizes that were run, and where ours takes more than cold superbatches."""
    lines = [
        f"{COLD[way]} "
        + ", ".join(f"{seconds:.4f} ({size})" for size, seconds in spent_by(points, way))
        for way in COLD
    ]
    cold, own = (dict(spent_by(points, way)) for way in ("ginex", "ours"))
    ratios = {f"size {size}": own[size] / seconds for size, seconds in cold.items()}
    return f"Seconds of a batch by size: {'; '.join(lines)}. " + told_losses(ratios, COLD["ginex"])


# ---- the width of a row ------------------------------------------------------------------------


def by_width(quick: bool) -> dict[str, Any]:
    """32 to 1024 columns, the same share of rows in the cache."""
    widths, points, about = (WIDTHS[::2] + WIDTHS[-1:] if quick else WIDTHS), [], ""
    for width in widths:
        case = get_case(f"plain:{width}", True)
        slots = case.graph.num_nodes // 10
        points.append(compared(case, quick, ("lru", "ginex", "ours"), slots))
        about = case.about.replace(f"{width} columns", "so many columns")
    return {"about": about, "widths": widths, "points": points}


def feature_width(facts: Facts, quick: bool) -> Figure:
    """32 to 1024 columns, the same share of rows in the cache."""
    found = facts(by_width, quick)
    widths, points, ways = found["widths"], found["points"], ("lru", "ginex", "ours")
    rows = [
        as_row(str(width), label_of(way, point), point[way])
        for width, point in zip(widths, points, strict=True)
        for way in ways
    ]
    spent = {way: [point[way]["seconds"] for point in points] for way in ways}
    ratio = [a / b for a, b in zip(spent["ginex"], spent["ours"], strict=True)]
    lost = [width for width, one in zip(widths, ratio, strict=True) if one < 1]
    grows = spent["ginex"][-1] >= spent["ginex"][0]
    holds: Holds = "partly" if lost or not grows else "yes"
    return Figure(
        key="feature_width",
        paper="ginex",
        title="Seconds over the width of a row",
        setting=f"{found['about']}, no communities; a tenth of the rows in the cache; "
        f"{trace_told(quick)}.",
        published=[],
        x_label="columns of float32",
        y_label="seconds of a batch, rows only",
        kind="line",
        series=[Series(WAYS[way], [*widths], seconds) for way, seconds in spent.items()],
        columns=["columns", *HEAD],
        rows=rows,
        holds=holds,
        explanation="Seconds of Ginex's policy over ours, by columns: "
        + ", ".join(f"{r:.2f} ({w})" for r, w in zip(ratio, widths, strict=True))
        + ". A page of 4 KiB is read for a row of up to 1024 columns; from the narrowest to the "
        f"widest row Ginex's seconds {'grow' if grows else 'do not grow'} "
        f"({spent['ginex'][0]:.4f} and {spent['ginex'][-1]:.4f} s). "
        + _why_lost(lost, widths, points),
        command=COMMAND,
    )


def _why_lost(lost: list[int], widths: list[int], points: list[dict[str, Any]]) -> str:
    """Where Ginex's policy is ahead of ours, and what the counts say."""
    if not lost:
        return "Ours is ahead at every width."
    point = points[widths.index(lost[-1])]
    ours, theirs = point["ours"], point["ginex"]
    return (
        f"We lose at {', '.join(map(str, lost))} columns: with {lost[-1]} ours reads "
        f"{format_bytes(int(ours['bytes']))} a batch in {ours['requests']:,.0f} requests, Ginex's "
        f"{format_bytes(int(theirs['bytes']))} in {theirs['requests']:,.0f}. Blocks pay where many "
        "rows fit in one; the choice counts disk and copying by the rates of a calibration, which "
        "this disk did not keep to here."
    )
