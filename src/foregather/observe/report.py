"""report: the results of a training run as one self-contained page.

The page includes its charts and styles, has no script, and forbids all requests. Its inputs
(metrics, settings, traces) are untrusted text: only regular files of the folder within a size limit
are read, everything is escaped, nothing is executed, and missing parts are left out.
"""

import html
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from foregather.errors import FormatError
from foregather.files import make_inside, open_regular, read_regular, write_safely
from foregather.observe.svg import bar_chart, line_chart, timeline
from foregather.observe.typed_report import goal_rows, metric_of, typed_table
from foregather.units import format_bytes

__all__ = ["NOT_SCORED", "charts_of", "is_report", "read_run", "save_charts", "write_report"]

_EVENTS = 400  # of the timeline
_MOST, _MOST_SMALL = 1 << 28, 1 << 24  # bytes of metrics or a trace, and of settings
_NEEDED = ("epoch", "loss", "seconds", "peak_memory")
_KNOWN = (
    "train", "valid", "test", "best_epoch", "best_valid", "waited", "bytes", "rows", "hits",
    "blocks", "block_bound", "sent",
)  # fmt: skip
_SCORED = ("exact", "sampled")
NOT_SCORED = "not scored: no node of it has a label"
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 70rem }}
h1 {{ font-size: 1.4rem; overflow-wrap: anywhere }} h2 {{ font-size: 1.1rem }}
.charts {{ display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)) }}
.charts svg {{ width: 100%; height: auto; border: 1px solid #8884; border-radius: 6px }}
.wide {{ overflow-x: auto }} table {{ border-collapse: collapse }}
td, th {{ padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap }}
td:first-child, th:first-child {{ text-align: left }}
pre {{ overflow-x: auto; padding: .5rem; border: 1px solid #8884; border-radius: 6px; font-size: .8rem }}
</style></head><body>
"""  # noqa: E501 - style


def is_report(path: Path) -> bool:
    """Whether a file is a page made by `write_report`."""
    head = _HEAD.partition("{title}")[0].encode()
    try:
        with open_regular(path) as file:
            return file.read(len(head)) == head
    except (FormatError, OSError):
        return False


def read_run(folder: Path) -> dict[str, Any]:
    """Reads the parts of a run folder, by name; missing or damaged parts are None.

    Raises:
        FormatError: it is not the folder of a run.
        StorageError: a part exists but cannot be read.
    """
    if not os.path.lexists(folder / "config.toml"):
        raise FormatError(f"{folder} is not a run folder; name one made by foregather train")
    config = read_regular(folder / "config.toml", _MOST_SMALL).decode(errors="replace")
    facts: dict[str, Any] = {"name": folder.name, "config": config}
    for name in ("summary", "environment", "trace", "curve"):
        facts[name] = _json(_read(folder / f"{name}.json"))
    if not _numbers(facts["summary"], ()):
        facts["summary"] = None
    if not (
        isinstance(facts["curve"], list)
        and all(_numbers(point, ("memory", "blocks", "bound")) for point in facts["curve"])
    ):
        facts["curve"] = None
    lines = (_read(folder / "metrics.jsonl") or "").splitlines()
    facts["records"] = [r for r in map(_json, lines) if _numbers(r, _NEEDED)]
    return facts


def _numbers(value: Any, needed: Sequence[str]) -> bool:
    """Whether this is a dict that has the required entries and whose known entries are numbers."""
    if not isinstance(value, dict) or not all(name in value for name in needed):
        return False
    stages = value.get("stages", {})
    known = [value[name] for name in (*needed, *_KNOWN) if name in value]
    known += stages.values() if isinstance(stages, dict) else [None]
    return all(type(one) in (int, float) and abs(one) < 1e300 for one in known)


def _read(path: Path) -> str | None:
    """Returns the text; None if there is none, or not one of ours.

    A file that cannot be read is an error.
    """
    if not os.path.lexists(path):
        return None
    try:
        return read_regular(path, _MOST).decode(errors="replace")
    except FormatError:
        return None


def _json(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def charts_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """Draws the charts for which there is data, as SVG by name."""
    records: Sequence[dict[str, Any]] = facts["records"]
    charts: dict[str, str] = {}
    if records:
        points = {"loss": [(r["epoch"], r["loss"]) for r in records]}
        charts["loss"] = line_chart("Loss", "epoch", "loss", points, whole=True)
        names = {"train": "train (sampled)", "valid": _valid_title(records)}
        shown = {
            name: [(r["epoch"], r[key]) for r in records if key in r] for key, name in names.items()
        }
        shown = {name: points for name, points in shown.items() if points}
        if shown:
            title = metric_of(records)
            charts["scores"] = line_chart(title, "epoch", title, shown, whole=True)
        if stale := _staleness(records):
            title = "Staleness: history and gradient against the exact ones"
            charts["staleness"] = line_chart(title, "epoch", "error, cosine", stale, whole=True)
        bars = [_stages(record) for record in records]
        charts["stages"] = bar_chart("Where the training thread was", "epoch", "seconds", bars)
        behind = [_behind(record) for record in records]
        if any(behind):
            title = "Background threads, working ahead"
            charts["ahead"] = bar_chart(title, "epoch", "seconds of threads", behind)
    bounded = [record for record in records if "block_bound" in record and "blocks" in record]
    if bounded:
        lines = {
            "blocks read": [(r["epoch"], r["blocks"]) for r in bounded],
            "lower bound": [(r["epoch"], r["block_bound"]) for r in bounded],
        }
        title = "Reads against the lower bound"
        charts["bound"] = line_chart(title, "epoch", "blocks", lines, zero=True, whole=True)
    if facts.get("curve"):
        charts["curve"] = _curve(facts["curve"])
    if facts.get("trace"):
        charts["timeline"] = timeline("Pipeline of the first batches", _lanes(facts["trace"]))
    return charts


def _staleness(records: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """What full-graph epochs measured of their history, where they did."""
    read = [
        (record["epoch"], record["staleness"])
        for record in records
        if _numbers(record.get("staleness"), ("error", "cosine"))
    ]
    names = {"error": "error of history", "cosine": "cosine of the gradient"}
    return {told: [(e, s[name]) for e, s in read] for name, told in names.items()} if read else {}


def save_charts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Writes the charts to `plots` of a run folder, each completely or not at all.

    Raises:
        FormatError: `plots` is not a folder of the run.
        StorageError: the disk is full or not writable; existing charts are kept.
    """
    make_inside(folder / "plots")
    for name, chart in charts_of(facts).items():
        write_safely(folder / "plots" / f"{name}.svg", chart.encode())


def _stages(record: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of the training thread, by activity."""
    given = record.get("stages", {})
    names = ("wait", "forward", "backward", "step", "epoch", "evaluate")
    return {name: given[name] for name in names if name in given}


def _behind(record: Mapping[str, Any]) -> dict[str, float]:
    given = record.get("stages", {})
    return {name: given[name] for name in ("sample", "plan", "gather", "assemble") if name in given}


def _curve(points: Sequence[Mapping[str, float]]) -> str:
    lines = {
        "blocks read": [(p["memory"] / 1e6, p["blocks"]) for p in points],
        "lower bound": [(p["memory"] / 1e6, p["bound"]) for p in points if p["bound"] >= 0],
    }
    title = "Miss curve: reads per batch by cache size"
    count = points[0].get("batches")
    of = f" (of {count} sampled)" if type(count) is int and 0 < count < 1 << 40 else ""
    return line_chart(title, "cache (MB)", f"blocks per batch{of}", lines, zero=True)


def _lanes(trace: Any) -> dict[str, list[tuple[str, float, float]]]:
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    events = [e for e in events if isinstance(e, dict)] if isinstance(events, list) else []
    names = {
        str(e.get("tid")): str(e["args"].get("name"))
        for e in events
        if e.get("ph") == "M" and isinstance(e.get("args"), dict)
    }
    spans = [e for e in events if e.get("ph") == "X" and _numbers(e, ("ts", "dur"))]
    spans = [e for e in spans if str(e.get("name")) != "evaluate"][:_EVENTS]
    lanes: dict[str, list[tuple[str, float, float]]] = {}
    short = {"MainThread": "training"}
    for event in spans:
        thread = str(event.get("tid"))
        lane = short.get(names.get(thread, ""), f"ahead {thread}")
        span = (str(event.get("name")), event["ts"] / 1e6, event["dur"] / 1e6)
        lanes.setdefault(lane, []).append(span)
    return dict(list(lanes.items())[:6])


def write_report(folder: Path, facts: Mapping[str, Any]) -> str:
    """The page as text."""
    summary, records = facts.get("summary") or {}, facts["records"]
    title = f"foregather: {facts['name']}"
    parts = [_HEAD.format(title=html.escape(title)), f"<h1>{html.escape(title)}</h1>"]
    if records:
        parts.append(_overview(summary, records))
    else:
        parts.append("<p>No epoch is finished yet.</p>")
    parts.append(f'<div class="charts">{"".join(charts_of(facts).values())}</div>')
    if table := typed_table(records):
        parts.append(f"<h2>Batches by type and relation</h2>{table}")
    if records:
        parts.append(f"<h2>Epochs</h2>{_epochs(records)}")
    parts.append(f"<h2>Settings</h2><pre>{html.escape(facts['config'] or '')}</pre>")
    try:
        environment = json.dumps(facts.get("environment"), indent=1)
    except RecursionError:  # our environment files are never this deep
        environment = "null"
    parts.append(f"<h2>Environment</h2><pre>{html.escape(environment)}</pre></body></html>\n")
    return "".join(parts)


def _overview(summary: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> str:
    rows = [("epochs", str(len(records)))]
    if "best_epoch" in summary:
        chosen = summary.get("best_valid", summary.get("valid"))
        how = _scored({"scored": summary.get("best_valid_scored")})
        by = "" if chosen is None else f", valid {metric_of([summary])} {chosen:.4f} ({how})"
        rows.append(("best epoch", f"{summary['best_epoch']}{by}"))
    for name in ("valid", "test"):
        if name in summary and (name == "test" or "scored" in summary):
            shown = f"{metric_of([summary])} {summary[name]:.4f}"
            rows.append((f"{name} ({_scored(summary)})", shown))
        elif isinstance(bare := summary.get("not_scored"), list) and name in bare:
            rows.append((name, NOT_SCORED))
    rows += goal_rows(summary)
    rows.append(("training", f"{sum(r['seconds'] for r in records):.1f} s"))
    waited, total, hits = (
        sum(r.get(name, 0) for r in records) for name in ("waited", "rows", "hits")
    )
    if _has(records, "waited"):
        rows.append(("of which waiting for batches", f"{waited:.1f} s"))
    if _has(records, "bytes"):
        read = sum(r.get("bytes", 0) + _beside(r, "bytes") for r in records)
        rows.append(("read from disk", format_bytes(read)))
    if sent := sum(r.get("sent", 0) + _beside(r, "sent") for r in records):
        rows.append(("sent between ranks", format_bytes(sent)))
    if total:
        rows.append(("rows found in the cache", f"{hits / total:.1%}"))
    rows.append(("peak memory", format_bytes(max(r["peak_memory"] for r in records))))
    cells = "".join(
        f"<tr><td>{html.escape(a)}</td><td>{html.escape(str(b))}</td></tr>" for a, b in rows
    )
    return f'<div class="wide"><table>{cells}</table></div>'


def _scored(facts: Mapping[str, Any]) -> str:
    """How scores were computed; runs that do not say so had sampled scores unless set otherwise."""
    found = facts.get("scored")
    return found if found in _SCORED else "sampled"


def _beside(record: Mapping[str, Any], name: str) -> int:
    """What was moved for anything but the batches of an epoch."""
    beside = record.get("beside")
    value = beside.get(name, 0) if isinstance(beside, dict) else 0
    return value if type(value) is int and 0 <= value < 1 << 62 else 0


def _valid_title(records: Sequence[Mapping[str, Any]]) -> str:
    """With how it was found; not every epoch need have been validated."""
    found = [record for record in records if "valid" in record]
    return f"valid ({_scored(found[-1] if found else {})})"


def _has(records: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(name in record for record in records)


def _epochs(records: Sequence[Mapping[str, Any]]) -> str:
    """A row for each epoch, and a column for what any of them has."""

    def hits(record: Mapping[str, Any]) -> str:
        return f"{record['hits'] / record['rows']:.0%}" if record.get("rows") else ""

    rated = html.escape(metric_of(records))
    columns: list[tuple[str, str, Callable[[Mapping[str, Any]], str]]] = [
        ("epoch", "epoch", lambda r: str(r["epoch"])),
        ("loss", "loss", lambda r: f"{r['loss']:.4f}"),
        ("train", f"{rated}, train (sampled)", lambda r: f"{r['train']:.4f}"),
        ("valid", f"{rated}, {_valid_title(records)}", lambda r: f"{r['valid']:.4f}"),
        ("seconds", "seconds", lambda r: f"{r['seconds']:.2f}"),
        ("waited", "waiting", lambda r: f"{r['waited']:.2f}"),
        ("ran", "ran", lambda r: str(r["ran"])[:16]),
        ("bytes", "read", lambda r: format_bytes(r["bytes"])),
        ("hits", "hits", hits),
        ("sent", "sent", lambda r: format_bytes(r["sent"])),
        ("peak_memory", "peak", lambda r: format_bytes(r["peak_memory"])),
    ]
    shown = [column for column in columns if _has(records, column[0])]
    lines = ["<tr>" + "".join(f"<th>{title}</th>" for _, title, _ in shown) + "</tr>"]
    step = max(1, -(-len(records) // 200))  # a page stays small after thousands of epochs
    for record in records[::step]:
        cells = [text(record) if name in record else "" for name, _, text in shown]
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'
