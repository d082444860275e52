"""bars: stacked bars by epoch, and bars beside each other to compare runs."""

import html
import math
from collections.abc import Mapping, Sequence

from foregather.observe.charts.chart import Chart, marks, text
from foregather.observe.charts.lines import BOTTOM, HIGH, LEFT, RIGHT, TOP, WIDE, frame
from foregather.observe.charts.palette import kind_of
from foregather.observe.charts.scale import Axis, choose_unit, nice_number

__all__ = ["bar_chart", "flat_bars", "show_seconds"]

_MOST = 60


def bar_chart(
    title: str,
    axes: tuple[str, str],
    bars: Sequence[Mapping[str, float]],
    unit: str = "seconds",
) -> Chart:
    """Stacked bars, numbered from 1; at most 60 are drawn, evenly chosen.

    Args:
        title: what it shows.
        axes: titles of x and y.
        bars: values by name.
        unit: kind of unit of the values.
    """
    step = max(1, -(-len(bars) // _MOST))
    chosen = [(number + 1, _finite(bars[number])) for number in range(0, len(bars), step)]
    names = list(dict.fromkeys(name for _, bar in chosen for name in bar))
    x = Axis(0.5, max(1, len(bars)) + 0.5, whole=True)
    y = Axis.over([sum(bar.values()) for _, bar in chosen], unit, zero=True)
    parts = frame(x, y, *axes)
    across, up = WIDE - LEFT - RIGHT, HIGH - TOP - BOTTOM
    wide = min(46.0, 0.8 * step * across / max(1, len(bars)))
    for number, bar in chosen:
        below = 0.0
        for name, value in bar.items():
            top = TOP + (1 - y.place(below + value)) * up
            bottom = TOP + (1 - y.place(below)) * up
            left = LEFT + x.place(number) * across - wide / 2
            parts.append(
                f'<rect class="f-{kind_of(name)}" x="{left:.1f}" '
                f'y="{top:.1f}" width="{wide:.1f}" height="{max(0.0, bottom - top):.1f}">'
                f"<title>{html.escape(f'{name} {show_seconds(value)}')}</title></rect>"
            )
            below += value
    return Chart(title, WIDE, HIGH, parts, marks(names, "box"))


def _finite(bar: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in bar.items() if math.isfinite(value) and value >= 0}


def show_seconds(value: float) -> str:
    """A time for people: 0.4 ms, 12 s, 3.5 minutes."""
    unit = choose_unit("seconds", abs(value))
    shown = value / unit.size
    short = {"seconds": "s", "milliseconds": "ms", "microseconds": "µs"}.get(unit.name, unit.name)
    digits = 0 if shown >= 100 else 1 if shown >= 10 else 2
    return f"{nice_number(shown, digits)} {short}"


def flat_bars(title: str, values: Sequence[tuple[str, str, float, str]]) -> Chart:
    """A bar across for each entry, with its value written at its end.

    Args:
        title: what it shows.
        values: name, meaning, value and how the value is told.
    """
    high = 26 * len(values) + 8
    most = max((v for _, _, v, _ in values if math.isfinite(v)), default=0.0) or 1.0
    parts = []
    for row, (name, kind, value, told) in enumerate(values):
        y = 6 + 26 * row
        wide = 170 * max(0.0, value) / most if math.isfinite(value) else 0.0
        parts.append(text(122, y + 14, name if len(name) <= 17 else name[:16] + "…", "end"))
        parts.append(
            f'<rect class="f-{kind}" x="128" y="{y}" width="{wide:.1f}" height="18" rx="3"/>'
        )
        parts.append(text(134 + wide, y + 14, told, "start"))
    return Chart(title, WIDE, high, parts)
