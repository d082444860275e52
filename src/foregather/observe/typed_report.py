"""typed_report: what the page of a run says of task and baseline, and counts by type and relation.

The records are untrusted: what is not a count under a name is left out, and names are escaped.
"""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from foregather.units import format_bytes

__all__ = ["goal_rows", "metric_of", "typed_table"]

_MOST_ROWS, _MOST_NAME = 500, 64


def metric_of(records: Sequence[Mapping[str, Any]]) -> str:
    """The metric of the scores of epochs; runs of release 0.1 have the accuracy."""
    found = [record["metric"] for record in records if isinstance(record.get("metric"), str)]
    return str(found[-1])[:_MOST_NAME] if found else "accuracy"


def goal_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Target type, task, metric and what a constant answer reaches, for the overview."""
    rows = []
    for key, shown in (("target", "node type"), ("task", "task"), ("metric", "scores are")):
        if isinstance(value := summary.get(key), str):
            rows.append((shown, value[:_MOST_NAME]))
    guessed, answer = summary.get("baseline"), summary.get("baseline_is")
    told = f" ({answer[:_MOST_NAME]})" if isinstance(answer, str) else ""
    for name in ("valid", "test"):
        value = guessed.get(name) if isinstance(guessed, dict) else None
        if isinstance(value, (int, float)) and abs(value) < 1e300:
            rows.append((f"{name}, a constant answer{told}", f"{value:.4f}"))
    return rows


def typed_table(records: Sequence[Mapping[str, Any]]) -> str:
    """A row for each node type and relation: what a batch of training had on average."""
    parts = [record["typed"] for record in records if isinstance(record.get("typed"), dict)]
    batches = sum(_count(part.get("batches")) for part in parts)
    if not batches:
        return ""
    nodes, size, edges = (_sums(parts, kind) for kind in ("nodes", "bytes", "edges"))
    lines = ["<tr><th>node type</th><th>nodes a batch</th><th>features a batch</th></tr>"]
    for name in list(nodes)[:_MOST_ROWS]:
        gathered = format_bytes(size.get(name, 0) // batches)
        lines.append(_row(name, f"{nodes[name] / batches:,.1f}", gathered))
    lines.append("<tr><th>relation</th><th>edges a batch</th><th></th></tr>")
    lines += [_row(name, f"{edges[name] / batches:,.1f}", "") for name in list(edges)[:_MOST_ROWS]]
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def _row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def _sums(parts: Sequence[Mapping[str, Any]], kind: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        counts = part.get(kind)
        for name, count in counts.items() if isinstance(counts, dict) else ():
            total[str(name)] = total.get(str(name), 0) + _count(count)
    return total


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 62 else 0
