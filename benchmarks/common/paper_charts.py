"""Plots of the papers' page: narrow enough for a phone, for light and dark backgrounds.

Bars lie across, each under its label, so that long labels can be read; lines have places by number
where there are many points, and evenly spaced ones where there are few.
"""

import html
import textwrap
from dataclasses import replace

from foregather.observe.charts.chart import Chart, Mark, text
from foregather.observe.charts.lines import BOTTOM, HIGH, LEFT, RIGHT, TOP, WIDE, frame, line_chart
from foregather.observe.charts.scale import Axis, nice_number

from .figures import Figure, Series

__all__ = ["plot"]

_FEW = 12  # points that are placed evenly
_TITLE = 46  # characters of a title that fit
_DASHES = ("", "8 4", "3 3", "10 3 2 3")  # of lines, one after the other
_CORNERS: tuple[tuple[tuple[float, float], ...], ...] = (  # of markers; none is a disc
    (),
    ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    ((0, -1.5), (1.5, 0), (0, 1.5), (-1.5, 0)),
    ((0, -1.6), (1.5, 1.2), (-1.5, 1.2)),
)
_ACROSS = 290  # units of the longest bar; the rest is for its number
_SHADES = (
    "svg.chart{color:#1f2937;background:#fff}"
    "@media (prefers-color-scheme:dark){svg.chart{color:#e5e7eb;background:#0d1117}}"
)


def plot(figure: Figure) -> str:
    """The figure as an SVG file; empty for a table."""
    if figure.kind == "table" or not figure.series:
        return ""
    drawn = {"line": _lines, "bars": _beside, "stacked": _stacked}[figure.kind](figure)
    first, whole = (
        f'aria-label="{html.escape(words)}"'
        for words in (textwrap.wrap(figure.title, _TITLE)[0], figure.title)
    )
    return (
        _titled(drawn).file().replace(first, whole, 1).replace("</style>", f"{_SHADES}</style>", 1)
    )


def _titled(chart: Chart) -> Chart:
    """With its title in as many lines as it needs."""
    lines = textwrap.wrap(chart.title, _TITLE)
    down = 18 * (len(lines) - 1)
    if not down:
        return chart
    more = [text(WIDE / 2, 9 + 18 * at, line, kind="head") for at, line in enumerate(lines[1:])]
    parts = [*more, f'<g transform="translate(0 {down})">', *chart.parts, "</g>"]
    return replace(chart, title=lines[0], high=chart.high + down, parts=parts)


def _unit(figure: Figure) -> str:
    """What stands behind the number of a bar."""
    label = figure.y_label
    begins = {"seconds": " s", "milliseconds": " ms", "MB": " MB"}
    for word, unit in begins.items():
        if label.startswith(word):
            return unit
    return " %" if "%" in label else "x" if " / " in label else ""


def _legend(series: list[Series], shape: str) -> list[Mark]:
    return [(one.label, _colour(number), shape) for number, one in enumerate(series)]


def _colour(number: int) -> str:
    return f"run{number % 8 + 1}"


def _number(value: float) -> str:
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 4
    return nice_number(value, digits)


# ---- bars --------------------------------------------------------------------------------------


def _bar(number: int, x: float, y: float, wide: float, high: int, told: str) -> str:
    return (
        f'<rect class="f-{_colour(number)}" x="{x:.1f}" y="{y:.1f}" width="{max(0.5, wide):.1f}" '
        f'height="{high}"><title>{html.escape(told)}</title></rect>'
    )


def _stacked(figure: Figure) -> Chart:
    """A bar for each place, made of the series one after the other."""
    places = list(figure.series[0].x)
    totals = [sum(one.y[at] for one in figure.series) for at in range(len(places))]
    most, parts, y, unit = max([*totals, 1e-12]), [], 4.0, _unit(figure)
    for at, place in enumerate(places):
        parts.append(text(8, y + 11, str(place), "start", "soft"))
        x = 8.0
        for number, one in enumerate(figure.series):
            wide = _ACROSS * one.y[at] / most
            parts.append(_bar(number, x, y + 16, wide, 16, f"{one.label}: {_number(one.y[at])}"))
            x += wide
        parts.append(text(x + 6, y + 29, _number(totals[at]) + unit, "start"))
        y += 42
    parts.append(text(8, y + 12, figure.y_label, "start", "soft"))
    return Chart(figure.title, WIDE, int(y) + 20, parts, _legend(figure.series, "box"))


def _beside(figure: Figure) -> Chart:
    """For each place a bar of each series that has it."""
    places = list(dict.fromkeys(place for one in figure.series for place in one.x))
    most = max([value for one in figure.series for value in one.y] + [1e-12])
    parts, y, unit = [], 4.0, _unit(figure)
    for place in places:
        parts.append(text(8, y + 11, str(place), "start", "soft"))
        y += 16
        for number, one in enumerate(figure.series):
            if place not in one.x:
                continue
            value = one.y[one.x.index(place)]
            wide = _ACROSS * max(0.0, value) / most
            parts.append(_bar(number, 8, y, wide, 12, f"{one.label}: {_number(value)}"))
            parts.append(text(14 + wide, y + 10, _number(value) + unit, "start"))
            y += 14
        y += 8
    parts.append(text(8, y + 12, figure.y_label, "start", "soft"))
    return Chart(figure.title, WIDE, int(y) + 20, parts, _legend(figure.series, "box"))


# ---- lines -------------------------------------------------------------------------------------


def _lines(figure: Figure) -> Chart:
    many = any(len(one.x) > _FEW for one in figure.series)
    kinds = {one.label: _colour(number) for number, one in enumerate(figure.series)}
    if many:
        points = {
            one.label: [(float(x), y) for x, y in zip(one.x, one.y, strict=True)]
            for one in figure.series
        }
        axes = (figure.x_label, figure.y_label)
        return line_chart(figure.title, axes, points, kinds=kinds, whole=True)
    places = _ordered([x for one in figure.series for x in one.x])
    x_axis = Axis(-0.4, max(1, len(places)) - 0.6)
    y_axis = Axis.over([y for one in figure.series for y in one.y], zero=True)
    y_axis = Axis(y_axis.low, y_axis.high * 1.05, y_axis.unit)
    parts = frame(Axis(0.0, 1.0), y_axis, figure.x_label, figure.y_label)
    parts = [part for part in parts if f'y="{HIGH - BOTTOM + 17:.1f}"' not in part]
    across, up = WIDE - LEFT - RIGHT, HIGH - TOP - BOTTOM
    for at, place in enumerate(places):
        x = LEFT + x_axis.place(at) * across
        parts.append(text(x, HIGH - BOTTOM + 17, _place(place), kind="soft"))
    for number, one in enumerate(figure.series):
        spots = [
            (LEFT + x_axis.place(places.index(x)) * across, TOP + (1 - y_axis.place(y)) * up)
            for x, y in zip(one.x, one.y, strict=True)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        colour = _colour(number)
        parts.append(f'<polyline class="s-{colour}" points="{path}" {_stroke(number)}/>')
        parts += [
            _marker(number, x, y, f"{one.label}: {_number(value)}")
            for (x, y), value in zip(spots, one.y, strict=True)
        ]
    for number, one in enumerate(figure.series):  # a piece of each line, as it is drawn
        y = HIGH + 6 + 17 * number
        path = f'<path class="s-{_colour(number)}" d="M12 {y}H48" {_stroke(number)}/>'
        parts += [path, _marker(number, 30, y, one.label), text(56, y + 4, one.label, "start")]
    return Chart(figure.title, WIDE, HIGH + 17 * len(figure.series) + 4, parts)


def _stroke(number: int) -> str:
    """Dashes, so that lines that lie on each other can be told apart."""
    dash = _DASHES[number % len(_DASHES)]
    return 'fill="none" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _marker(number: int, x: float, y: float, told: str) -> str:
    """A disc, a square, a diamond or a triangle; smaller ones of later lines lie on top."""
    size = 4.5 - 0.7 * (number % 4)
    corners = _CORNERS[number % 4]
    title = f"<title>{html.escape(told)}</title>"
    kind = f'class="f-{_colour(number)}"'
    if not corners:
        return f'<circle {kind} cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}">{title}</circle>'
    points = " ".join(f"{x + size * a:.1f},{y + size * b:.1f}" for a, b in corners)
    return f'<polygon {kind} points="{points}">{title}</polygon>'


def _ordered(places: list[float | str]) -> list[float | str]:
    distinct = list(dict.fromkeys(places))
    numbers = [place for place in distinct if not isinstance(place, str)]
    return sorted(numbers) if len(numbers) == len(distinct) else distinct


def _place(place: float | str) -> str:
    return place if isinstance(place, str) else f"{place:g}"
