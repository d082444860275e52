"""timeline: what each thread did when, with places across in percent, so that it can be zoomed."""

import html
import math
from collections.abc import Mapping, Sequence

from foregather.observe.charts.bars import show_seconds
from foregather.observe.charts.chart import Chart, marks, text
from foregather.observe.charts.palette import kind_of
from foregather.observe.charts.scale import Axis, nice_number, ticks

__all__ = ["timeline"]

_WIDE, _LANE, _GAP, _BELOW = 440, 30, 22, 40  # wide only in a file: a page stretches it
_ROOM = {1: 330, 4: 1320, 16: 5280}  # pixels of the narrowest screen, by zoom

Event = tuple[str, float, float]


def timeline(title: str, lanes: Mapping[str, Sequence[Event]]) -> Chart:
    """Draws (name, start, seconds) by lane, from the first start."""
    kept = {who: [event for event in events if _is_drawn(event)] for who, events in lanes.items()}
    every = [event for events in kept.values() for event in events]
    begin = min((start for _, start, _ in every), default=0.0)
    end = max((start + seconds for _, start, seconds in every), default=begin)
    axis = Axis.over([0.0, end - begin], "seconds", zero=True)
    high = len(lanes) * (_LANE + _GAP) + _BELOW
    parts = _ticks(axis, high)
    for lane, (who, events) in enumerate(kept.items()):
        y = lane * (_LANE + _GAP) + _GAP
        parts.append(text("0", y - 6, who[:40], "start", "soft"))
        parts += [_box(event, axis, begin, y) for event in events]
    names = list(dict.fromkeys(name for name, _, _ in every))
    return Chart(title, _WIDE, high, parts, marks(names, "box"), stretched=True)


def _is_drawn(event: Event) -> bool:
    return math.isfinite(event[1]) and math.isfinite(event[2]) and event[2] >= 0


def _box(event: Event, axis: Axis, begin: float, y: float) -> str:
    name, start, seconds = event
    x, wide = 100 * axis.place(start - begin), 100 * seconds / (axis.high - axis.low)
    told = html.escape(f"{name} {show_seconds(seconds)}")
    return (
        f'<rect class="f-{kind_of(name)}" x="{x:.3f}%" y="{y}" width="{max(0.02, wide):.3f}%" '
        f'height="{_LANE}"><title>{told}</title></rect>'
    )


def _ticks(axis: Axis, high: int) -> list[str]:
    """Labels for each zoom; only those of the chosen one are shown."""
    parts, bottom = [], high - _BELOW
    for times, room in _ROOM.items():
        hidden = "" if times == 1 else ' style="display:none"'
        parts.append(f'<g class="at{times}"{hidden}>')
        wanted = axis.labels(room, across=True) if times == 1 else _finer(axis, room)
        for value, told in wanted:
            x = 100 * axis.place(value)
            if not -0.01 <= x <= 100.01:
                continue
            anchor = "start" if x < 1 else "end" if x > 97 else "middle"
            parts.append(
                f'<line class="grid" x1="{x:.3f}%" x2="{x:.3f}%" y1="0" y2="{bottom + 6}"/>'
            )
            parts.append(text(f"{x:.3f}%", bottom + 20, told, anchor, "soft"))
        parts.append("</g>")
    parts.append(text("0", high - 5, f"{axis.unit.name} since the first", "start"))
    return parts


def _finer(axis: Axis, room: int) -> list[tuple[float, str]]:
    low, high = axis.low / axis.unit.size, axis.high / axis.unit.size
    values, digits = ticks(low, high, room // 90)
    return [(value * axis.unit.size, nice_number(value, digits)) for value in values]
