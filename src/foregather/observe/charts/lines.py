"""lines: a line chart, with single points and levels marked."""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from foregather.observe.charts.chart import Chart, Mark, text
from foregather.observe.charts.palette import kind_of
from foregather.observe.charts.scale import Axis, nice_number

__all__ = ["HIGH", "LEFT", "Marked", "WIDE", "frame", "line_chart"]

WIDE, HIGH = 400, 230
LEFT, RIGHT, TOP, BOTTOM = 70, 14, 10, 42
_MOST_POINTS = 400  # more than there are pixels only make the page larger

Series = Mapping[str, Sequence[tuple[float, float]]]
At = Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Marked:
    """What is pointed out in a chart.

    Attributes:
        points: (x, y, name) drawn as rings.
        levels: (y, name) drawn as dashed lines across.
    """

    points: Sequence[tuple[float, float, str]] = ()
    levels: Sequence[tuple[float, str]] = field(default=())


def frame(x: Axis, y: Axis, x_title: str, y_title: str) -> list[str]:
    """Grid, labels and titles of both axes."""
    parts, bottom = [], HIGH - BOTTOM
    for value, told in y.labels(HIGH - TOP - BOTTOM, across=False):
        at = TOP + (1 - y.place(value)) * (HIGH - TOP - BOTTOM)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDE - RIGHT}"/>')
        parts.append(text(LEFT - 7, at + 4, told, "end", "soft"))
    for value, told in x.labels(WIDE - LEFT - RIGHT, across=True):
        at = LEFT + x.place(value) * (WIDE - LEFT - RIGHT)
        parts.append(text(at, bottom + 17, told, kind="soft"))
    parts.append(text((LEFT + WIDE - RIGHT) / 2, HIGH - 6, x.title(x_title)))
    middle = (TOP + bottom) / 2
    parts.append(
        f'<text transform="translate(12 {middle:.0f}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(y.title(y_title))}</text>"
    )
    return parts


def _thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    kept = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    step = max(1, -(-len(kept) // _MOST_POINTS))
    return kept[::step] if step == 1 else [*kept[::step], kept[-1]]


def line_chart(
    title: str,
    axes: tuple[str, str],
    series: Series,
    *,
    units: tuple[str, str] = ("", ""),
    zero: bool = False,
    whole: bool = False,
    marked: Marked | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Chart:
    """Lines; values that are not finite are left out.

    Args:
        title: what it shows.
        axes: titles of x and y.
        series: (x, y) by name.
        units: kinds of unit of x and y: "seconds", "bytes", "count" or plain.
        zero: y starts at 0.
        whole: x values are whole numbers, such as epochs.
        marked: points and levels that are pointed out.
        kinds: meaning of a name, where the name itself is not one.
    """
    kept = {name: _thin(points) for name, points in series.items()}
    given = marked or Marked()
    levels = [(y, name) for y, name in given.levels if math.isfinite(y)]
    rings = [one for one in given.points if math.isfinite(one[0]) and math.isfinite(one[1])]
    every = [point for points in kept.values() for point in points]
    x_axis = Axis.over([x for x, _ in every], units[0], whole=whole)
    heights = [y for _, y in every] + [y for y, _ in levels] + [y for _, y, _ in rings]
    y_axis = _roomy(Axis.over(heights, units[1], zero=zero), zero)
    parts = frame(x_axis, y_axis, *axes)

    def at(x: float, y: float) -> tuple[float, float]:
        across, up = x_axis.place(x), y_axis.place(y)
        return LEFT + across * (WIDE - LEFT - RIGHT), TOP + (1 - up) * (HIGH - TOP - BOTTOM)

    legend: list[Mark] = []
    drawn: list[list[tuple[float, float]]] = []
    for name, points in kept.items():
        kind = (kinds or {}).get(name) or kind_of(name)
        legend.append((name, kind, "line"))
        covers = any(points == other for other in drawn)
        drawn.append(points)
        parts += _line(name, kind, points, at, covers)
    for y, name in levels:
        kind = kind_of(name)
        legend.append((f"{name} {_short(y)}", kind, "dash"))
        _, height = at(x_axis.low, y)
        parts.append(
            f'<path class="s-{kind}" stroke-width="1.6" stroke-dasharray="6 4" '
            f'd="M{LEFT} {height:.1f}H{WIDE - RIGHT}"/>'
        )
    for x, y, name in rings:
        across, height = at(x, y)
        legend.append((name, kind_of("valid"), "ring"))
        parts.append(
            f'<circle class="s-valid" cx="{across:.1f}" cy="{height:.1f}" r="7" stroke-width="2"/>'
        )
    return Chart(title, WIDE, HIGH, parts, legend)


def _roomy(axis: Axis, zero: bool) -> Axis:
    """With a little room above and below, so that no mark is cut."""
    pad = 0.05 * (axis.high - axis.low)
    low = axis.low if zero and axis.low >= 0 else axis.low - pad
    return Axis(low, axis.high + pad, axis.unit, axis.whole)


def _short(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else nice_number(value, 1)


def _line(
    name: str, kind: str, points: Sequence[tuple[float, float]], at: At, covers: bool
) -> list[str]:
    """A line with its points; dashed where it would hide an equal one below it."""
    places = [at(x, y) for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dash = ' stroke-dasharray="5 4"' if kind in ("bound", "predicted") or covers else ""
    parts = [f'<polyline class="s-{kind}" points="{path}" stroke-width="2"{dash}/>']
    if len(places) <= 60:
        told = html.escape(name)
        parts += [
            f'<circle class="f-{kind}" cx="{x:.1f}" cy="{y:.1f}" r="2.6">'
            f"<title>{told}: {html.escape(_short(value))}</title></circle>"
            for (x, y), (_, value) in zip(places, points, strict=True)
        ]
    return parts
