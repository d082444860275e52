"""report: the results of a training run as one self-contained page, or of several, compared.

The page includes its charts and styles, has no script, and forbids all requests. Its inputs
(metrics, settings, traces) are untrusted text: everything is escaped, nothing is executed, and
missing parts are left out.
"""

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foregather.errors import FormatError
from foregather.files import make_inside, open_regular, write_safely
from foregather.observe.charts.chart import Chart
from foregather.observe.page.about import about, figures
from foregather.observe.page.compare import write_comparison
from foregather.observe.page.run_charts import run_charts, was_planned
from foregather.observe.page.stage_charts import links_table
from foregather.observe.page.style import START, head
from foregather.observe.page.tables import (
    NOT_SCORED,
    epochs_table,
    phases_table,
    predicted_table,
    scores_table,
)
from foregather.observe.page.typed_table import typed_table
from foregather.observe.read_run import read_run

__all__ = [
    "NOT_SCORED",
    "charts_of",
    "is_report",
    "read_run",
    "save_charts",
    "was_planned",
    "write_comparison",
    "write_report",
]

_START_0_1 = START.rpartition("<meta")[0] + '<meta name="viewport"'  # pages of release 0.1


def is_report(path: Path) -> bool:
    """Whether a file is a page made by `write_report` or `write_comparison`."""
    starts = (START.encode(), _START_0_1.encode())
    try:
        with open_regular(path) as file:
            return file.read(len(START) + 64).startswith(starts)
    except (FormatError, OSError):
        return False


def charts_of(facts: Mapping[str, Any]) -> dict[str, Chart]:
    """Draws the charts for which there is data, by name."""
    return run_charts(facts)


def save_charts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Writes the charts to `plots` of a run folder, each completely or not at all.

    Raises:
        FormatError: `plots` is not a folder of the run.
        StorageError: the disk is full or not writable; existing charts are kept.
    """
    make_inside(folder / "plots")
    for name, chart in charts_of(facts).items():
        write_safely(folder / "plots" / f"{name}.svg", chart.file().encode())


def write_report(facts: Mapping[str, Any], first: Sequence[Chart] = ()) -> str:
    """The page of one run as text.

    Args:
        facts: of the run.
        first: charts that stand before those of the run.
    """
    records, summary = facts["records"], facts.get("summary") or {}
    name = html.escape(str(facts["name"]))
    parts = [head(f"foregather: {name}"), '<header><p class="kind">foregather: training run</p>']
    parts.append(f"<h1>{name}</h1>{_about(facts)}</header>")
    damaged = facts.get("damaged", [])
    parts += [f'<p class="damaged">{html.escape(text)}.</p>' for text in damaged]
    if not records and not summary and not any("metrics.jsonl" in text for text in damaged):
        parts.append("<p>No epoch is finished yet.</p>")
    parts.append(_figures(facts))
    charts = [*first, *charts_of(facts).values()]
    if charts:
        drawn = "".join(chart.figure() for chart in charts)
        parts.append(f'<h2>Charts</h2><div class="charts">{drawn}</div>')
    if scores := scores_table(summary):
        parts.append(f"<h2>Final scores</h2>{scores}")
    if compared := predicted_table(records):
        parts.append(f"<h2>Predicted and measured</h2>{compared}")
    if phases := phases_table(records):
        parts.append(f"<h2>Computing and links</h2>{phases}")
    if links := links_table(records):
        parts.append(f"<h2>Bytes between ranks</h2>{links}")
    if typed := typed_table(records):
        parts.append(f"<h2>Batches by type and relation</h2>{typed}")
    parts.append("<h2>Details</h2>")
    if records:
        table = epochs_table(records, summary.get("best_epoch"))
        parts.append(f"<details><summary>Every epoch</summary>{table}</details>")
    parts.append(_folded("Settings", str(facts["config"] or "")))
    try:
        environment = json.dumps(facts.get("environment"), indent=1)
    except RecursionError:  # our environment files are never this deep
        environment = "null"
    parts.append(_folded("Environment", environment))
    parts.append("<footer>Made by foregather report; the page needs no network.</footer>")
    parts.append("</main></body></html>\n")
    return "".join(parts)


def _about(facts: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<div><dt>{html.escape(what)}</dt><dd>{html.escape(value)}</dd></div>"
        for what, value in about(facts)
    )
    return f'<dl class="about">{rows}</dl>' if rows else ""


def _figures(facts: Mapping[str, Any]) -> str:
    shown = "".join(
        f'<li><div class="what">{html.escape(one.what)}</div>'
        f'<div class="value">{html.escape(one.value)}</div>'
        f'<div class="beside">{html.escape(one.beside)}</div></li>'
        for one in figures(facts)
    )
    return f'<ul class="figures">{shown}</ul>' if shown else ""


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary><pre>{html.escape(text)}</pre></details>"
