"""tables: what was predicted beside what was measured, and a row for each epoch."""

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foregather.observe.charts.bars import show_seconds
from foregather.observe.charts.scale import nice_number
from foregather.observe.page.about import baseline_of, scored
from foregather.observe.page.typed_table import metric_of
from foregather.observe.scores import show_left_out
from foregather.units import format_bytes

__all__ = [
    "NOT_SCORED",
    "epochs_table",
    "phases_table",
    "predicted_table",
    "scores_table",
    "table",
]

NOT_SCORED = "not scored: no node of it has a label"

_MOST_ROWS = 200

Records = Sequence[Mapping[str, Any]]
Column = tuple[str, str, Callable[[Mapping[str, Any]], str]]


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    kinds: Sequence[str] = (),
    wrapped: bool = False,
) -> str:
    """A table that scrolls inside its box; texts are escaped here.

    Args:
        head: titles of the columns.
        rows: the cells.
        kinds: class of each row, where it has one.
        wrapped: cells may have several lines.
    """
    lines = ["<tr>" + "".join(f"<th>{html.escape(one)}</th>" for one in head) + "</tr>"]
    for number, row in enumerate(rows):
        kind = kinds[number] if number < len(kinds) else ""
        of = f' class="{kind}"' if kind else ""
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        lines.append(f"<tr{of}>{cells}</tr>")
    of = ' class="roomy"' if wrapped else ""
    return f'<div class="wide" tabindex="0"><table{of}>{"".join(lines)}</table></div>'


def scores_table(summary: Mapping[str, Any]) -> str:
    """The final score of each split, how it was found, and what the baseline reaches."""
    metric, bare = metric_of([summary]), summary.get("not_scored")
    answer = summary.get("baseline_is")
    told = f"a constant answer ({answer[:64]})" if isinstance(answer, str) else "a constant answer"
    rows = []
    for name in ("valid", "test"):
        if name in summary:
            value = baseline_of(summary, name)
            guess = "" if value is None else f"{value:.4f}"
            how = "; ".join(filter(None, (scored(summary), show_left_out(summary, name))))
            rows.append((f"{name} ({how})", f"{summary[name]:.4f}", guess))
        elif isinstance(bare, list) and name in bare:
            rows.append((name, NOT_SCORED, ""))
    return table(["split", metric, told], rows) if rows else ""


def predicted_table(records: Records) -> str:
    """What plans predicted of the feature rows beside what was measured; empty without plans."""
    planned = [record for record in records if "predicted_bytes" in record]
    if not any(record["predicted_bytes"] or record.get("feature_bytes") for record in planned):
        return ""

    def total(name: str) -> float:
        return float(sum(record.get(name, 0) for record in planned))

    reading = [record.get("stages", {}).get("gather") for record in planned]
    spent = sum(value for value in reading if value is not None)
    size = [format_bytes(total(name)) for name in ("predicted_bytes", "feature_bytes")]
    asked = [nice_number(total(name)) for name in ("predicted_requests", "feature_requests")]
    took = f"{show_seconds(spent)} in threads that gather"
    rows = [
        ("bytes of features read", *size),
        ("requests", *asked),
        ("seconds of reading", show_seconds(total("predicted_seconds")), took),
    ]
    return table(["all epochs", "predicted", "measured"], rows)


def phases_table(records: Records) -> str:
    """Seconds by phase over all epochs, computing beside links; empty without phases."""
    spent: dict[str, float] = {}
    for record in records:
        for name, value in record.get("phases", {}).items():
            spent[str(name)] = spent.get(str(name), 0.0) + value
    if not spent:
        return ""
    rows: list[tuple[str, ...]]
    if "compute" in spent:
        rows = [(name, show_seconds(value)) for name, value in spent.items()]
        return table(["mean of the ranks, all epochs", "time"], rows)
    phases = dict.fromkeys(name.partition(" (links)")[0] for name in spent)
    rows = []
    for name in phases:
        both = (spent.get(name), spent.get(f"{name} (links)"))
        rows.append((name, *("" if value is None else show_seconds(value) for value in both)))
    return table(["mean of the ranks, all epochs", "computing", "on links"], rows)


def _has(records: Records, name: str) -> bool:
    return any(name in record for record in records)


def _columns(records: Records) -> list[Column]:
    """What epochs have; columns that are 0 throughout are left out."""

    def hits(record: Mapping[str, Any]) -> str:
        return f"{record['hits'] / record['rows']:.0%}" if record.get("rows") else ""

    found = [record for record in records if "valid" in record]
    rated = metric_of(records)
    columns: list[Column] = [
        ("epoch", "epoch", lambda r: f"{r['epoch']:.0f}"),
        ("loss", "loss", lambda r: f"{r['loss']:.4f}"),
        ("train", f"{rated}, train (sampled)", lambda r: f"{r['train']:.4f}"),
        (
            "valid",
            f"{rated}, valid ({scored(found[-1] if found else {})})",
            lambda r: f"{r['valid']:.4f}",
        ),
        ("seconds", "seconds", lambda r: f"{r['seconds']:.2f}"),
        ("waited", "waiting", lambda r: f"{r['waited']:.2f}"),
        ("ran", "ran", lambda r: str(r["ran"])[:16]),
        ("bytes", "read", lambda r: format_bytes(r["bytes"])),
        ("hits", "cache hits", hits),
        ("sent", "sent", lambda r: format_bytes(r["sent"])),
        ("peak_memory", "peak memory", lambda r: format_bytes(r["peak_memory"])),
    ]
    zero = {"bytes", "hits", "sent"}
    rows = any(record.get("rows") for record in records)
    return [
        column
        for column in columns
        if _has(records, column[0])
        and (column[0] not in zero or rows or any(r.get(column[0]) for r in records))
        and not (column[0] == "ran" and all(r.get("ran", "exact") == "exact" for r in records))
    ]


def epochs_table(records: Records, best: Any) -> str:
    """A row for each epoch, the best one marked; at most 200 rows, evenly chosen, and the best."""
    shown = _columns(records)
    step = max(1, -(-len(records) // _MOST_ROWS))
    kept = [
        record
        for place, record in enumerate(records)
        if place % step == 0 or record["epoch"] == best
    ]
    rows = [[text(record) if name in record else "" for name, _, text in shown] for record in kept]
    kinds = ["best" if record["epoch"] == best else "" for record in kept]
    return table([title for _, title, _ in shown], rows, kinds)
