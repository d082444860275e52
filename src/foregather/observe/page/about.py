"""about: what a page says first: which graph, model, task and device; and the headline figures.

All facts are untrusted: what has not the expected kind is left out, and callers escape the text.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foregather.observe.charts.bars import show_seconds
from foregather.observe.page.typed_table import MOST_NAME, metric_of
from foregather.units import format_bytes

__all__ = [
    "Figure",
    "about",
    "baseline_of",
    "beside",
    "figures",
    "final_score",
    "scored",
    "setting",
    "show_score",
]

_SCORED = ("exact", "sampled")
_GRAPH = re.compile(r"Graph\((.*?)(?:, splits|, labels|;|\))")


@dataclass(frozen=True)
class Figure:
    """A headline figure.

    Attributes:
        what: is measured.
        value: of it.
        beside: what to compare it with.
        number: the same as a number, to compare runs; None where there is none.
    """

    what: str
    value: str
    beside: str = ""
    number: float | None = None


def setting(facts: Mapping[str, Any], section: str, key: str) -> Any:
    """A setting of the run; None if it has none of this name."""
    table = facts.get("settings", {})
    part = table.get(section) if isinstance(table, dict) else None
    return part.get(key) if isinstance(part, dict) else None


def _words(value: Any) -> str:
    return value[:MOST_NAME] if isinstance(value, str) else ""


def about(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Graph, model, training, task, device and date, as far as they are known."""
    found = facts.get("environment")
    known: Mapping[str, Any] = found if isinstance(found, dict) else {}
    summary = facts.get("summary") or {}
    rows = [
        ("Graph", _graph(facts, known)),
        ("Model", _model(facts)),
        ("Training", _training(facts)),
        ("Task", _task(summary, known)),
        ("Device", _device(known)),
        ("Last epoch", str(facts.get("date", ""))),
    ]
    return [(name, value) for name, value in rows if value]


def _graph(facts: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    path = facts.get("settings", {}).get("graph")
    name = re.split(r"[\\/]", path.rstrip("/"))[-1][:MOST_NAME] if isinstance(path, str) else ""
    graph = known.get("graph")
    text = graph.get("text") if isinstance(graph, dict) else None
    inside = _GRAPH.search(text) if isinstance(text, str) else None
    shown = inside[1][:200] if inside else ""
    return ": ".join(part for part in (name, shown) if part)


def _model(facts: Mapping[str, Any]) -> str:
    kind, hidden = _words(setting(facts, "model", "kind")), setting(facts, "model", "hidden")
    layers = setting(facts, "model", "layers")
    fanouts = setting(facts, "sampler", "fanouts")
    if setting(facts, "train", "method") != "full-graph" and isinstance(fanouts, list):
        layers = len(fanouts)
    parts = [kind.rpartition(":")[2]]
    if type(layers) is int and 0 < layers < 1 << 20:
        parts.append("1 layer" if layers == 1 else f"{layers} layers")
    if type(hidden) is int and 0 < hidden < 1 << 31:
        parts.append(f"{hidden} columns")
    return ", ".join(part for part in parts if part)


def _training(facts: Mapping[str, Any]) -> str:
    if setting(facts, "train", "method") == "full-graph":
        return "full graph"
    fanouts, size = setting(facts, "sampler", "fanouts"), setting(facts, "train", "batch_size")
    parts = [_words(setting(facts, "sampler", "kind"))]
    if isinstance(fanouts, list) and all(type(one) is int for one in fanouts[:9]):
        parts.append(f"{fanouts[:9]}")
    if type(size) is int and 0 < size < 1 << 40:
        parts.append(f"batches of {size:,}")
    storage = _words(setting(facts, "memory", "storage"))
    if storage not in ("", "auto", "memory"):
        parts.append({"disk": "all from disk"}.get(storage, f"{storage} from disk"))
    return ", ".join(part for part in parts if part)


def _task(summary: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    task = known.get("task")
    name = _words(summary.get("task")) or _words(task.get("name") if isinstance(task, dict) else "")
    target = _words(summary.get("target"))
    metric = _words(summary.get("metric")) or _words(known.get("metric"))
    of = f" of {target}" if target else ""
    by = f", rated by {metric}" if metric else ""
    return f"{name}{of}{by}" if name else ""


def _device(known: Mapping[str, Any]) -> str:
    machine = known.get("machine")
    cpu = machine.get("cpu") if isinstance(machine, dict) else None
    model = _words(cpu.get("model") if isinstance(cpu, dict) else "")
    threads, ranks = known.get("threads"), known.get("ranks")
    parts = [" ".join(part for part in (_words(known.get("device")), model) if part)]
    if type(threads) is int and 0 < threads < 1 << 20:
        parts.append("1 thread" if threads == 1 else f"{threads} threads")
    if type(ranks) is int and 1 < ranks < 1 << 20:
        parts.append(f"{ranks} ranks")
    return ", ".join(part for part in parts if part)


def scored(facts: Mapping[str, Any]) -> str:
    """How scores were computed; runs that do not say so had sampled scores unless set otherwise."""
    found = facts.get("scored")
    return found if found in _SCORED else "sampled"


def beside(record: Mapping[str, Any], name: str) -> int:
    """What was moved for anything but the batches of an epoch."""
    other = record.get("beside")
    value = other.get(name, 0) if isinstance(other, dict) else 0
    return value if type(value) is int and 0 <= value < 1 << 62 else 0


def show_score(value: float) -> str:
    """A score, with three digits that matter."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def final_score(facts: Mapping[str, Any]) -> tuple[str, float, str] | None:
    """Split, value and how it was computed, of the score that counts; None if there is none."""
    summary, records = facts.get("summary") or {}, facts["records"]
    for name in ("test", "valid"):
        if name in summary:
            return name, summary[name], scored(summary)
    found = [record for record in records if "valid" in record]
    return ("valid", found[-1]["valid"], scored(found[-1])) if found else None


def baseline_of(summary: Mapping[str, Any], split: str) -> float | None:
    """What the baseline reaches on a split; None if that is not known."""
    guessed = summary.get("baseline")
    value = guessed.get(split) if isinstance(guessed, dict) else None
    return value if isinstance(value, (int, float)) and abs(value) < 1e300 else None


def _baseline(summary: Mapping[str, Any], split: str) -> str:
    answer, value = summary.get("baseline_is"), baseline_of(summary, split)
    if value is None:
        return ""
    return f"{_words(answer) or 'a constant answer'}: {show_score(value)}"


def figures(facts: Mapping[str, Any]) -> list[Figure]:
    """The row of headline figures: those that the run has."""
    records: Sequence[Mapping[str, Any]] = facts["records"]
    summary = facts.get("summary") or {}
    found: list[Figure] = []
    if score := final_score(facts):
        split, value, how = score
        metric = metric_of([summary] if "metric" in summary else records)
        words = [_baseline(summary, split), "every edge used" if how == "exact" else "sampled"]
        told = " · ".join(word for word in words if word)
        found.append(Figure(f"{split} {metric}", show_score(value), told, value))
    if not records:
        return found
    total = sum(record["seconds"] for record in records)
    each = statistics.median(record["seconds"] for record in records)
    count = "1 epoch" if len(records) == 1 else f"{len(records):,} epochs"
    told = f"{count}, {show_seconds(total)} in all"
    found.append(Figure("time per epoch (median)", show_seconds(each), told, each))
    if any("waited" in record for record in records) and total > 0:
        share = min(1.0, sum(record.get("waited", 0) for record in records) / total)
        told = "of the time of training" if share >= 0.005 else "the next batch was always ready"
        found.append(Figure("waiting for batches", f"{share:.0%}", told, share))
    found += _moved(records)
    peak = max(record["peak_memory"] for record in records)
    found.append(Figure("peak memory", format_bytes(peak), _limit(facts), peak))
    return found


def _limit(facts: Mapping[str, Any]) -> str:
    """What the peak is of, and what the budget covers: the process, or only the Loader."""
    budget = _words(setting(facts, "memory", "budget"))
    if budget in ("", "none", "auto"):
        return "of the whole process"
    if setting(facts, "train", "method") == "full-graph":
        return f"of the whole process; its budget: {budget}"
    return f"of the whole process; budget of the Loader: {budget}"


def _moved(records: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """What was read from disk and sent between ranks, where anything was."""
    found = []
    for name, what in (("bytes", "read from disk"), ("sent", "sent between ranks")):
        moved = sum(record.get(name, 0) + beside(record, name) for record in records)
        rows = sum(record.get("rows", 0) for record in records)
        if not moved and not (name == "bytes" and rows):
            continue
        told = f"{format_bytes(moved / len(records))} an epoch"
        if name == "bytes" and rows:
            told += f" · {sum(record.get('hits', 0) for record in records) / rows:.0%} cache hits"
        found.append(Figure(what, format_bytes(moved), told, moved))
    return found
