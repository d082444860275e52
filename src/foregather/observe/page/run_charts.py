"""run_charts: the charts of one run, each with a sentence; only those that apply to it.

Where nothing was read according to a plan there is no chart of reads, and where one thread did one
thing there is no timeline.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from foregather.observe.charts.bars import bar_chart, flat_bars, show_seconds
from foregather.observe.charts.chart import Chart
from foregather.observe.charts.lines import Marked, line_chart
from foregather.observe.charts.matrix import MOST_CELLS, confusion, recall_bars
from foregather.observe.charts.palette import kind_of
from foregather.observe.charts.scale import nice_number
from foregather.observe.charts.timeline import timeline
from foregather.observe.page.about import baseline_of, final_score, scored, show_score
from foregather.observe.page.stage_charts import layer_staleness, links_chart, rank_timeline
from foregather.observe.page.typed_table import metric_of
from foregather.observe.read_run import is_numbers

__all__ = ["run_charts", "was_planned"]

_EVENTS = 400  # of the timeline
_LANES = 6
_MOST_BARS = 14  # as high as the other charts
_THREAD = ("wait", "forward", "backward", "step", "epoch", "evaluate")
_AHEAD = ("sample", "plan", "gather", "assemble")

Records = Sequence[Mapping[str, Any]]


def was_planned(facts: Mapping[str, Any]) -> bool:
    """Whether epochs read from disk according to plans, so that a miss curve applies."""
    return any("blocks" in record for record in facts["records"])


def run_charts(facts: Mapping[str, Any]) -> dict[str, Chart]:
    """Draws the charts for which there is data, by name."""
    records: Records = facts["records"]
    charts: dict[str, Chart | None] = {}
    if records:
        charts["scores"] = _scores(facts, records)
        charts["loss"] = _loss(records)
        charts["classes"] = _classes(facts.get("summary") or {})
        charts["stages"] = _stages(records)
        charts["ahead"] = _ahead(records)
        charts["phases"] = _phases(records)
        charts["staleness"] = _staleness(records)
        charts["layers"] = layer_staleness(records)
        charts["ranks"] = rank_timeline(records)
        charts["links"] = links_chart(records)
        charts["bound"] = _bound(records)
    if facts.get("curve") and was_planned(facts):
        charts["curve"] = _curve(facts["curve"])
    if facts.get("trace"):
        charts["timeline"] = _timeline(facts["trace"])
    return {name: chart for name, chart in charts.items() if chart is not None}


def _loss(records: Records) -> Chart | None:
    if len(records) < 2:
        return None  # one point is no curve; the loss is in the table
    points = [(r["epoch"], r["loss"]) for r in records]
    chart = line_chart("Loss", ("epoch", "loss"), {"loss": points}, whole=True)
    low = min(points, key=lambda point: point[1])
    return chart.saying(
        f"From {show_score(points[0][1])} to {show_score(points[-1][1])} on the training split; "
        f"the smallest is {show_score(low[1])}, in epoch {low[0]:.0f}."
    )


def _scores(facts: Mapping[str, Any], records: Records) -> Chart | None:
    found = [record for record in records if "valid" in record]
    valid = f"valid ({scored(found[-1] if found else {})})"
    shown = {
        name: [(r["epoch"], r[key]) for r in records if key in r]
        for key, name in (("train", "train (sampled)"), ("valid", valid))
    }
    shown = {name: points for name, points in shown.items() if points}
    if not shown:
        return None
    metric, summary, said = metric_of(records), facts.get("summary") or {}, []
    rings, levels = [], []
    best = next((r for r in found if r["epoch"] == summary.get("best_epoch")), None)
    if best is not None:
        name = f"best epoch, {best['epoch']:.0f}"
        rings.append((best["epoch"], best["valid"], name))
        said.append(f"Best validation {show_score(best['valid'])} in epoch {best['epoch']:.0f}")
    final = final_score(facts) if summary else None
    if final is not None and final[0] == "test":
        levels.append((final[1], "test"))
        how = "using every edge" if final[2] == "exact" else "sampled"
        said.append(
            f"{'its' if best else 'the'} weights reach {show_score(final[1])} on test, {how}"
        )
    title = metric[:1].upper() + metric[1:]
    if max(len(points) for points in shown.values()) > 1:
        marked = Marked(rings, levels)
        chart = line_chart(title, ("epoch", metric), shown, whole=True, marked=marked)
    else:
        chart = flat_bars(title, _only_scores(shown, levels, summary))
    sentence = "; ".join(said)
    return chart.saying(f"{sentence[:1].upper()}{sentence[1:]}." if sentence else "By epoch.")


def _only_scores(
    shown: Mapping[str, Sequence[tuple[float, float]]],
    levels: Sequence[tuple[float, str]],
    summary: Mapping[str, Any],
) -> list[tuple[str, str, float, str]]:
    """The scores of a run that has one of each, as bars, beside the baseline."""
    found = [(name, points[0][1]) for name, points in shown.items()]
    found += [(name, value) for value, name in levels]
    guess = baseline_of(summary, "test" if levels else "valid")
    found += [("baseline", guess)] if guess is not None else []
    return [(name, kind_of(name), value, show_score(value)) for name, value in found]


def _parts(record: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    given = record.get("stages", {})
    return {name: given[name] for name in names if name in given}


def _seconds(title: str, bars: Sequence[Mapping[str, float]]) -> Chart:
    """Stacked bars by epoch; of a single epoch, a bar for each part."""
    if len(bars) > 1:
        return bar_chart(title, ("epoch", ""), bars)
    parts = [(name, kind_of(name), value, show_seconds(value)) for name, value in bars[0].items()]
    return flat_bars(title, parts)


def _told(bars: Sequence[Mapping[str, float]]) -> str:
    """Shares of the whole, the largest first."""
    total: dict[str, float] = {}
    for bar in bars:
        for name, value in bar.items():
            total[name] = total.get(name, 0.0) + value
    whole = sum(total.values()) or 1.0
    ranked = sorted(total.items(), key=lambda one: -one[1])
    shares = ", ".join(f"{name} {value / whole:.0%}" for name, value in ranked[:5])
    return f"{show_seconds(whole)} in all: {shares}."


def _stages(records: Records) -> Chart | None:
    bars = [_parts(record, _THREAD) for record in records]
    if len({name for bar in bars for name in bar}) < 2:
        return None  # the seconds of an epoch are in the table
    chart = _seconds("Where the training thread was", bars)
    return chart.saying(_told(bars))


def _ahead(records: Records) -> Chart | None:
    bars = [_parts(record, _AHEAD) for record in records]
    if not any(bars):
        return None
    chart = _seconds("Threads that work ahead", bars)
    return chart.saying(f"They make batches while the model computes. {_told(bars)}")


def _phases(records: Records) -> Chart | None:
    """Seconds of a rank between computing and links; of phases the report has a table."""
    bars = [_on_links(record["phases"]) for record in records if record.get("phases")]
    if not bars:
        return None
    chart = _seconds("Computing, and waiting for links", bars)
    return chart.saying(f"Mean of the ranks. {_told(bars)}")


def _on_links(phases: Mapping[str, float]) -> dict[str, float]:
    """Seconds by phase as few bars; those of sampling are put together."""
    if "compute" in phases:
        return dict(phases)
    made: dict[str, float] = {}
    for name, spent in phases.items():
        phase, links, _ = name.partition(" (links)")
        told = phase if phase in _AHEAD else "sample"
        if links:
            told = "samples, links" if told == "sample" else "rows of features, links"
        made[told] = made.get(told, 0.0) + spent
    return made


def _staleness(records: Records) -> Chart | None:
    read = [
        (record["epoch"], record["staleness"])
        for record in records
        if is_numbers(record.get("staleness"), ("error", "cosine"))
    ]
    if not read:
        return None
    names = {"error": "error of history", "cosine": "cosine of the gradient"}
    lines = {told: [(e, s[name]) for e, s in read] for name, told in names.items()}
    chart = line_chart("Staleness", ("epoch", "error, cosine"), lines, whole=True)
    last = read[-1][1]
    return chart.saying(
        f"History and gradient against exact ones: at the end the history is {last['error']:.1%} "
        f"off, and the gradient's cosine is {last['cosine']:.4f}."
    )


def _bound(records: Records) -> Chart | None:
    bounded = [r for r in records if "block_bound" in r and "blocks" in r]
    read, least = sum(r["blocks"] for r in bounded), sum(r["block_bound"] for r in bounded)
    if not read:
        return None
    lines = {
        "blocks read": [(r["epoch"], r["blocks"]) for r in bounded],
        "lower bound": [(r["epoch"], r["block_bound"]) for r in bounded],
    }
    chart = line_chart(
        "Reads against the lower bound", ("epoch", "blocks"), lines, units=("", "count"),
        zero=True, whole=True,
    )  # fmt: skip
    over = f"{read / least:.2f} times the number" if least else "more than the number"
    return chart.saying(
        f"{nice_number(read)} blocks were read, {over} below which no cache of this size can come."
    )


def _curve(points: Sequence[Mapping[str, float]]) -> Chart:
    lines = {
        "blocks read": [(p["memory"], p["blocks"]) for p in points],
        "lower bound": [(p["memory"], p["bound"]) for p in points if p["bound"] >= 0],
    }
    count = points[0].get("batches")
    of = f" Planned for {count} sampled batches." if type(count) is int and 0 < count < 1e9 else ""
    chart = line_chart(
        "Miss curve: reads per batch by cache size",
        ("cache", "blocks per batch"),
        {name: one for name, one in lines.items() if one},
        units=("bytes", "count"),
        zero=True,
    )
    return chart.saying(f"What a batch reads, had the cache another size.{of}")


def _timeline(trace: Any) -> Chart | None:
    lanes = _lanes(trace)
    names = {name for events in lanes.values() for name, _, _ in events}
    if len(names) < 2:
        return None
    chart = timeline("Pipeline of the first batches", lanes)
    waits = sum(s for events in lanes.values() for name, _, s in events if name == "wait")
    return chart.saying(
        "What each thread did when, up to the first validation; point at a box for its time. The "
        f"training thread waited {show_seconds(waits)} here."
    )


def _lanes(trace: Any) -> dict[str, list[tuple[str, float, float]]]:
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    events = [e for e in events if isinstance(e, dict)] if isinstance(events, list) else []
    names = {
        str(e.get("tid")): str(e["args"].get("name"))
        for e in events
        if e.get("ph") == "M" and isinstance(e.get("args"), dict)
    }
    spans = [e for e in events if e.get("ph") == "X" and is_numbers(e, ("ts", "dur"))]
    scoring = [e["ts"] for e in spans if str(e.get("name")) == "evaluate"]
    first = min(scoring, default=math.inf)  # from then on, threads make the batches of validation
    spans = [e for e in spans if e["ts"] < first][:_EVENTS]
    lanes: dict[str, list[tuple[str, float, float]]] = {}
    threads: dict[str, str] = {}
    for event in spans:
        thread = str(event.get("tid"))
        if thread not in threads:
            ahead = sum(lane != "training" for lane in threads.values()) + 1
            main = names.get(thread) == "MainThread"
            threads[thread] = "training" if main else f"working ahead, thread {ahead}"
        span = (str(event.get("name")), event["ts"] / 1e6, event["dur"] / 1e6)
        lanes.setdefault(threads[thread], []).append(span)
    order = sorted(lanes, key=lambda lane: (lane != "training", lane))
    return {lane: lanes[lane] for lane in order[:_LANES]}


def _classes(summary: Mapping[str, Any]) -> Chart | None:
    """Which classes are taken for which; or, of many classes, how much of each is found."""
    found = summary.get("per_class")
    counts = _matrix(found.get("counts")) if isinstance(found, dict) else None
    if counts is None or found is None:
        return None
    split = str(found.get("split"))[:64]
    names = [str(number) for number in range(len(counts))]
    totals = [sum(line) for line in counts]
    shares = [counts[k][k] / totals[k] if totals[k] else 0.0 for k in range(len(counts))]
    there = [k for k in range(len(counts)) if totals[k]]
    if not there:
        return None
    worst = min(there, key=lambda k: shares[k])
    best = max(there, key=lambda k: shares[k])
    said = (
        f"Class {best} is found best ({shares[best]:.0%} of {nice_number(totals[best])} "
        f"{'node' if totals[best] == 1 else 'nodes'}), "
        f"class {worst} worst ({shares[worst]:.0%} of {nice_number(totals[worst])})."
    )
    if len(counts) <= MOST_CELLS:
        title = f"Which classes are taken for which ({split})"
        return confusion(title, counts, names).saying(said)
    ranked = sorted(there, key=lambda k: shares[k])
    half = _MOST_BARS // 2
    kept = ranked if len(ranked) <= _MOST_BARS else [*ranked[:half], *ranked[-half:]]
    bars = [(f"class {k}", shares[k], totals[k]) for k in kept]
    of = "" if len(kept) == len(ranked) else f", {half} worst and {half} best of {len(ranked)}"
    title = f"How much of each class is found ({split}{of})"
    return recall_bars(title, bars, "share of its nodes").saying(said)


def _matrix(given: Any) -> list[list[int]] | None:
    """A square of counts; None if it is anything else."""
    if not isinstance(given, list) or not 0 < len(given) <= 1000:
        return None
    for line in given:
        if not isinstance(line, list) or len(line) != len(given):
            return None
        if not all(type(one) is int and 0 <= one < 1 << 62 for one in line):
            return None
    return given
