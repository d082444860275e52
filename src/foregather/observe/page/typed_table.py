"""typed_table: counts of a typed run by type and relation, and the metric of a run.

The records are untrusted: what is not a count under a name is left out, and names are escaped.
"""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from foregather.units import format_bytes

__all__ = ["MOST_NAME", "metric_of", "typed_table"]

_MOST_ROWS, MOST_NAME = 500, 64


def metric_of(records: Sequence[Mapping[str, Any]]) -> str:
    """The metric of the scores of epochs; runs of release 0.1 have the accuracy."""
    found = [record["metric"] for record in records if isinstance(record.get("metric"), str)]
    return str(found[-1])[:MOST_NAME] if found else "accuracy"


def typed_table(records: Sequence[Mapping[str, Any]]) -> str:
    """A row for each node type and relation: what a batch of training had on average."""
    parts = [record["typed"] for record in records if isinstance(record.get("typed"), dict)]
    batches = sum(_count(part.get("batches")) for part in parts)
    if not batches:
        return ""
    nodes, size, edges = (_sums(parts, kind) for kind in ("nodes", "bytes", "edges"))
    lines = ["<tr><th>node type</th><th>nodes per batch</th><th>features per batch</th></tr>"]
    for name in list(nodes)[:_MOST_ROWS]:
        gathered = format_bytes(size.get(name, 0) // batches)
        lines.append(_row(name, f"{nodes[name] / batches:,.1f}", gathered))
    lines.append("<tr><th>relation</th><th>edges per batch</th><th></th></tr>")
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
