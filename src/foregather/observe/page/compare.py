"""compare: several runs beside each other: figures, curves, and the settings that differ.

A run has one colour in all charts of the page. Runs that are rated by different metrics are in the
same tables, but their scores are drawn in charts of their own.
"""

import html
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from foregather.observe.charts.bars import flat_bars
from foregather.observe.charts.chart import Chart
from foregather.observe.charts.lines import line_chart
from foregather.observe.page.about import about, figures
from foregather.observe.page.style import head
from foregather.observe.page.tables import table
from foregather.observe.page.typed_table import metric_of

__all__ = ["MOST_RUNS", "comparison_charts", "write_comparison"]

MOST_RUNS = 8  # as many colours as can be told apart

Facts = Mapping[str, Any]


def _names(runs: Sequence[Facts]) -> list[str]:
    """Names of the runs, made different."""
    found: list[str] = []
    for run in runs:
        name, number = str(run["name"]), 2
        while name in found:
            name, number = f"{run['name']} ({number})", number + 1
        found.append(name)
    return found


def _curves(runs: Sequence[Facts], names: Sequence[str]) -> list[Chart]:
    kinds = {name: f"run{number + 1}" for number, name in enumerate(names)}
    charts = []
    metrics = list(dict.fromkeys(metric_of(run["records"]) for run in runs if run["records"]))
    for metric in metrics:
        by_epoch, by_time = {}, {}
        for name, run in zip(names, runs, strict=True):
            records = run["records"]
            if not records or metric_of(records) != metric:
                continue
            passed = list(accumulate(record["seconds"] for record in records))
            at = [k for k, record in enumerate(records) if "valid" in record]
            if at:
                by_epoch[name] = [(records[k]["epoch"], records[k]["valid"]) for k in at]
                by_time[name] = [(passed[k], records[k]["valid"]) for k in at]
        if by_epoch:
            title = f"Validation {metric} by epoch"
            chart = line_chart(title, ("epoch", metric), by_epoch, whole=True, kinds=kinds)
            charts.append(
                chart.saying(f"The same number of passes over the training split.{_same(by_epoch)}")
            )
            title = f"Validation {metric} by time"
            chart = line_chart(title, ("time", metric), by_time, units=("seconds", ""), kinds=kinds)
            charts.append(chart.saying("Time of training alone, without validation."))
    losses = {
        name: [(record["epoch"], record["loss"]) for record in run["records"]]
        for name, run in zip(names, runs, strict=True)
        if run["records"]
    }
    if losses:
        chart = line_chart("Loss by epoch", ("epoch", "loss"), losses, whole=True, kinds=kinds)
        charts.append(chart.saying(f"Comparable where task and loss are the same.{_same(losses)}"))
    return charts


def _same(lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """A sentence on lines that lie on each other; empty if there are none."""
    names = list(lines)
    equal = [
        name
        for place, name in enumerate(names)
        if any(lines[name] == lines[other] for other in names[:place])
    ]
    return f" Dashed ones are equal to the line below: {', '.join(equal)}." if equal else ""


def _bars(runs: Sequence[Facts], names: Sequence[str]) -> list[Chart]:
    """A chart of bars for each headline figure that at least two runs have."""
    found: dict[str, list[tuple[str, str, float, str]]] = {}
    for number, (name, run) in enumerate(zip(names, runs, strict=True)):
        for figure in figures(run):
            if figure.number is not None:
                entry = (name, f"run{number + 1}", figure.number, figure.value)
                found.setdefault(figure.what, []).append(entry)
    return [
        flat_bars(what[:1].upper() + what[1:], entries)
        for what, entries in found.items()
        if len(entries) > 1 and any(value for _, _, value, _ in entries)
    ]


def _flat(table: Any, before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in table.items() if isinstance(table, dict) else ():
        name = f"{before}{key}"
        if isinstance(value, dict) and value and not before:
            found |= _flat(value, f"{name}.")
        else:
            found[name] = str(value)[:80]
    return found


def _differences(runs: Sequence[Facts]) -> list[list[str]]:
    """Settings that are not the same in all runs; where a run goes to is its name."""
    flat = [_flat(run.get("settings")) for run in runs]
    names = list(dict.fromkeys(name for one in flat for name in one))
    rows = [[name, *(one.get(name, "-") for one in flat)] for name in names if name != "run"]
    return [row for row in rows if len(set(row[1:])) > 1]


def _table_of_figures(runs: Sequence[Facts]) -> list[list[str]]:
    rows: dict[str, list[str]] = {}
    for number, run in enumerate(runs):
        entries = [*about(run), *((one.what, one.value) for one in figures(run))]
        for what, value in entries:
            rows.setdefault(what, ["-"] * len(runs))[number] = value
    return [[what, *values] for what, values in rows.items()]


def comparison_charts(runs: Sequence[Facts]) -> list[Chart]:
    """The charts of the page that compares runs: headline figures as bars, then curves."""
    names = _names(runs)
    return [*_bars(runs, names), *_curves(runs, names)]


def write_comparison(runs: Sequence[Facts]) -> str:
    """The page that compares runs, as text."""
    names = _names(runs)
    title = html.escape(f"{len(runs)} runs compared: {', '.join(names)}"[:200])
    parts = [head(title), '<header><p class="kind">foregather: runs compared</p>']
    parts.append(f"<h1>{html.escape(', '.join(names))}</h1></header>")
    for name, run in zip(names, runs, strict=True):
        told = [html.escape(f"{name}: {one}") for one in run.get("damaged", [])]
        parts += [f'<p class="damaged">{one}.</p>' for one in told]
    parts.append(f"<h2>Figures</h2>{table(['', *names], _table_of_figures(runs), wrapped=True)}")
    parts.append("<h2>Charts</h2>")
    for kind, charts in (("charts bars", _bars(runs, names)), ("charts", _curves(runs, names))):
        if charts:
            drawn = "".join(chart.figure() for chart in charts)
            parts.append(f'<div class="{kind}">{drawn}</div>')
    rows = _differences(runs)
    if rows:
        parts.append(
            f"<h2>Settings that differ</h2>{table(['setting', *names], rows, wrapped=True)}"
        )
    else:
        parts.append("<h2>Settings that differ</h2><p>None.</p>")
    parts.append(f"<footer>Made by foregather report of {len(runs)} runs.</footer>")
    parts.append("</main></body></html>\n")
    return "".join(parts)
