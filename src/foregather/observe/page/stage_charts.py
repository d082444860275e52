"""stage_charts: what a full-graph run over ranks adds: staleness by layer, ranks by time, links.

All facts are untrusted: what has not the expected kind is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from foregather.observe.charts.bars import flat_bars, show_seconds
from foregather.observe.charts.chart import Chart
from foregather.observe.charts.lines import line_chart
from foregather.observe.charts.timeline import timeline
from foregather.observe.page.tables import table
from foregather.units import format_bytes

__all__ = ["layer_staleness", "links_chart", "links_table", "rank_timeline"]

_MOST_LAYERS, _MOST_RANKS, _MOST_LINKS, _MOST_TASKS = 1 << 12, 16, 64, 600
_MOST_BARS = 16
_TASKS = ("forward", "backward", "again", "receive", "send", "exchange", "sum", "agree")

Records = Sequence[Mapping[str, Any]]


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def _by_layer(record: Mapping[str, Any]) -> list[tuple[float, float]]:
    found = record.get("staleness")
    layers = found.get("layers") if isinstance(found, dict) else None
    if not isinstance(layers, dict) or len(layers) > _MOST_LAYERS:
        return []
    points = [(int(n), e) for n, e in layers.items() if n.isdecimal() and _number(e)]
    return sorted((float(n), float(e)) for n, e in points)


def layer_staleness(records: Records) -> Chart | None:
    """The error of history by layer, in the first and in the last epoch that was measured."""
    read = [(record["epoch"], points) for record in records if (points := _by_layer(record))]
    if not read or len(read[-1][1]) < 2:
        return None
    lines = {f"error of history (epoch {read[-1][0]:.0f})": read[-1][1]}
    if len(read) > 1:
        lines[f"first reading, epoch {read[0][0]:.0f}"] = read[0][1]
    chart = line_chart("Staleness by layer", ("layer", "error of history"), lines, whole=True)
    worst = max(read[-1][1], key=lambda point: point[1])
    return chart.saying(
        f"How far the rows of history are from exact ones, in epoch {read[-1][0]:.0f}: the most in "
        f"layer {worst[0]:.0f}, {worst[1]:.1%}."
    )


def rank_timeline(records: Records) -> Chart | None:
    """What each rank did when in one epoch; the last one that has it."""
    found = next(
        (r for r in reversed(records) if isinstance(r.get("timeline"), list) and r["timeline"]),
        None,
    )
    if found is None:
        return None
    lanes: dict[str, list[tuple[str, float, float]]] = {}
    for rank, tasks in enumerate(found["timeline"][:_MOST_RANKS]):
        kept = [task for task in tasks[:_MOST_TASKS] if _is_task(task)] if tasks else []
        lanes[f"rank {rank}"] = [(t[0], float(t[1]), float(t[2])) for t in kept]
    ran = [e for events in lanes.values() for e in events if e[0] in ("forward", "backward")]
    if len(lanes) < 2 or not ran:
        return None
    whole = max(e[1] + e[2] for events in lanes.values() for e in events)
    waited = sum(e[2] for events in lanes.values() for e in events if e[0] in ("receive", "agree"))
    chart = timeline(f"Ranks in epoch {found['epoch']:.0f}", lanes)
    return chart.saying(
        f"What each rank did when, {show_seconds(whole)} in all; point at a box for its time. "
        f"Waiting for rows and for each other is {waited / (whole * len(lanes) or 1):.0%} of the "
        "time of all ranks; what they wait inside a computation is not seen."
    )


def _is_task(task: Any) -> bool:
    return (
        isinstance(task, list)
        and len(task) == 3
        and task[0] in _TASKS
        and all(_number(one) and one >= 0 for one in task[1:])
    )


def _sent(records: Records) -> tuple[dict[str, float], int]:
    """Bytes of all epochs by link, and how many epochs tell them; empty on one rank."""
    total: dict[str, float] = {}
    epochs = 0
    for record in records:
        links = record.get("links")
        if isinstance(links, dict) and len(links) <= _MOST_LINKS:
            epochs += 1
            for name, size in links.items():
                if _number(size) and size >= 0:
                    total[name[:32]] = total.get(name[:32], 0.0) + size
    return (total, epochs) if len(total) <= _MOST_LINKS else ({}, 0)


def links_chart(records: Records) -> Chart | None:
    """Bytes that an epoch sends from each rank to each other; those of many links are a table."""
    total, epochs = _sent(records)
    if not 0 < len(total) <= _MOST_BARS:
        return None
    bars = [
        (f"rank {name}", "sent", size / epochs, format_bytes(size / epochs))
        for name, size in sorted(total.items())
    ]
    chart = flat_bars("Bytes that an epoch sends, by link", bars)
    return chart.saying(
        f"{format_bytes(sum(total.values()))} in {epochs} epoch{'s' if epochs > 1 else ''}, as the "
        "ledger of every rank counted them."
    )


def links_table(records: Records) -> str:
    """Bytes of all epochs from each rank to each other, and by epoch; empty on one rank."""
    total, epochs = _sent(records)
    if not total:
        return ""
    whole = sum(total.values()) or 1.0
    rows = [
        (name, format_bytes(size), format_bytes(size / epochs), f"{size / whole:.0%}")
        for name, size in sorted(total.items())
    ]
    return table(["from rank to rank", "all epochs", "an epoch", "share"], rows)
