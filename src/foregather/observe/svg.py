"""svg: small charts as text: lines, stacked bars and a timeline; no package and no script needed.

A chart scales to its width and stays readable on a phone. The same text works as a file and inside
a page.
"""

import html
import math
from collections.abc import Mapping, Sequence

__all__ = ["COLORS", "bar_chart", "line_chart", "timeline"]

COLORS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#65a30d", "#be185d")
_W, _H = 480, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 30, 58
_STYLE = (
    "<style>.t{font:600 14px system-ui,sans-serif}.a,.l{font:12px system-ui,sans-serif}"
    ".g{stroke:#8884;stroke-width:1}text{fill:currentColor}</style>"
)

Series = Mapping[str, Sequence[tuple[float, float]]]


def _text(x: float, y: float, words: str, kind: str = "a", anchor: str = "middle") -> str:
    safe = html.escape(words)
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{safe}</text>'


def _ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers that cover a span."""
    raw = (high - low) / count or 1.0
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1, 2, 2.5, 5, 10) if unit * k >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, int(high / step + 1e-9) + 1)]


def _short(value: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:.3g}"


class _Frame:
    """Axes of a chart: maps values to positions and draws the grid."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float], zero: bool) -> None:
        self.x = self._span(xs, False)
        self.y = self._span(ys, zero)

    @staticmethod
    def _span(values: Sequence[float], zero: bool) -> tuple[float, float]:
        low, high = min(values, default=0.0), max(values, default=1.0)
        if zero:
            low = min(0.0, low)
        if high - low < 1e-12 * max(1.0, abs(high)):
            pad = 0.5 * max(1.0, abs(high))
            low, high = low - pad * (not zero), high + pad
        return low, high

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        wide, high = _W - _LEFT - _RIGHT, _H - _TOP - _BOTTOM
        return _LEFT + across * wide, _TOP + (1 - up) * high

    def grid(self, x_label: str, y_label: str, whole: bool) -> list[str]:
        parts = []
        for value in _ticks(*self.y):
            _, y = self.at(self.x[0], value)
            parts.append(f'<path class="g" d="M{_LEFT} {y:.1f}H{_W - _RIGHT}"/>')
            parts.append(_text(_LEFT - 6, y + 4, _short(value), anchor="end"))
        for value in _ticks(*self.x):
            if not whole or value == int(value):
                x, _ = self.at(value, self.y[0])
                parts.append(_text(x, _H - _BOTTOM + 16, _short(value)))
        parts.append(_text((_LEFT + _W - _RIGHT) / 2, _H - _BOTTOM + 32, x_label))
        parts.append(
            f'<text transform="translate(14 {(_TOP + _H - _BOTTOM) / 2:.0f}) rotate(-90)" '
            f'class="a" text-anchor="middle">{html.escape(y_label)}</text>'
        )
        return parts


def _legend(names: Sequence[str]) -> tuple[list[str], int]:
    """Draws the legend in as many lines as needed; returns it with the resulting chart height."""
    parts, x, y = [], float(_LEFT), _H - 18
    for number, name in enumerate(names):
        wide = 24 + 6.8 * len(name)
        if x + wide > _W and x > _LEFT:
            x, y = float(_LEFT), y + 16
        color = COLORS[number % len(COLORS)]
        parts.append(f'<rect x="{x:.0f}" y="{y}" width="10" height="10" fill="{color}"/>')
        parts.append(_text(x + 14, y + 9, name, "l", "start"))
        x += wide
    return parts, y + 18


def _svg(title: str, parts: Sequence[str], names: Sequence[str]) -> str:
    legend, height = _legend(names)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_W} {height}" role="img" '
        f'aria-label="{html.escape(title)}">{_STYLE}{_text(_W / 2, 18, title, "t")}'
        f"{''.join(parts)}{''.join(legend)}</svg>"
    )


def line_chart(
    title: str, x_label: str, y_label: str, series: Series, zero: bool = False, whole: bool = False
) -> str:
    """Lines with points; values that are not finite are left out.

    Args:
        title: above the chart.
        x_label: below it.
        y_label: to its left.
        series: (x, y) by name.
        zero: y starts at 0.
        whole: x values are whole numbers, such as epochs.
    """
    kept = {
        name: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        for name, points in series.items()
    }
    every = [point for points in kept.values() for point in points]
    frame = _Frame([x for x, _ in every], [y for _, y in every], zero)
    parts = frame.grid(x_label, y_label, whole)
    for number, points in enumerate(kept.values()):
        color = COLORS[number % len(COLORS)]
        places = [frame.at(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        line = f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
        parts.append(line)
        if len(places) <= 40:
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in places
            ]
    return _svg(title, parts, list(kept))


def bar_chart(title: str, x_label: str, y_label: str, bars: Sequence[Mapping[str, float]]) -> str:
    """Stacked bars, numbered from 1; at most 60 are drawn, evenly chosen."""
    step = max(1, -(-len(bars) // 60))
    chosen = [(number + 1, bars[number]) for number in range(0, len(bars), step)]
    names = list(dict.fromkeys(name for _, bar in chosen for name in bar))
    tops = [sum(bar.values()) for _, bar in chosen]
    frame = _Frame([0.5, len(bars) + 0.5], tops, True)
    parts = frame.grid(x_label, y_label, True)
    wide = 0.8 * step * (_W - _LEFT - _RIGHT) / max(1, len(bars))
    for number, bar in chosen:
        below = 0.0
        for name, value in bar.items():
            x, top = frame.at(number, below + value)
            _, bottom = frame.at(number, below)
            color = COLORS[names.index(name) % len(COLORS)]
            parts.append(
                f'<rect x="{x - wide / 2:.1f}" y="{top:.1f}" width="{wide:.1f}" '
                f'height="{max(0.0, bottom - top):.1f}" fill="{color}"/>'
            )
            below += value
    return _svg(title, parts, names)


def timeline(title: str, lanes: Mapping[str, Sequence[tuple[str, float, float]]]) -> str:
    """Draws what each thread did when: (name, start, seconds) by lane, from the first start."""
    every = [event for events in lanes.values() for event in events]
    begin = min((start for _, start, _ in every), default=0.0)
    end = max((start + seconds for _, start, seconds in every), default=1.0)
    names = list(dict.fromkeys(name for name, _, _ in every))
    frame = _Frame([0.0, (end - begin) * 1e3], [0.0, 1.0], True)
    high = (_H - _TOP - _BOTTOM) / max(1, len(lanes))
    parts = []
    for value in _ticks(*frame.x):
        x, _ = frame.at(value, 0.0)
        parts.append(f'<path class="g" d="M{x:.1f} {_TOP}V{_H - _BOTTOM}"/>')
        parts.append(_text(x, _H - _BOTTOM + 16, _short(value)))
    parts.append(_text((_LEFT + _W - _RIGHT) / 2, _H - _BOTTOM + 32, "milliseconds"))
    for lane, (who, events) in enumerate(lanes.items()):
        y = _TOP + lane * high
        parts.append(_text(_LEFT - 6, y + high / 2 + 4, who[:8], anchor="end"))
        for name, start, seconds in events:
            x, _ = frame.at((start - begin) * 1e3, 0.0)
            until, _ = frame.at((start + seconds - begin) * 1e3, 0.0)
            color = COLORS[names.index(name) % len(COLORS)]
            parts.append(
                f'<rect x="{x:.1f}" y="{y + 3:.1f}" width="{max(0.5, until - x):.1f}" '
                f'height="{high - 6:.1f}" fill="{color}"><title>{html.escape(name)} '
                f"{seconds * 1e3:.2f} ms</title></rect>"
            )
    return _svg(title, parts, names)
