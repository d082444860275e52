"""matrix: which classes are taken for which, and how much of each is found."""

import html
from collections.abc import Sequence

from foregather.observe.charts.chart import Chart, text
from foregather.observe.charts.scale import nice_number

__all__ = ["MOST_CELLS", "confusion", "recall_bars"]

MOST_CELLS = 24  # classes: more cells could not be read
_SIDE = 400
_LEFT, _TOP = 46, 36


def confusion(title: str, counts: Sequence[Sequence[int]], names: Sequence[str]) -> Chart:
    """Rows are the true classes, columns the predicted ones; colour is the share of the row.

    Args:
        title: what it shows.
        counts: nodes by true and predicted class.
        names: of the classes.
    """
    size = max(1, len(counts))
    cell = (_SIDE - _LEFT - 10) / size
    high = int(_TOP + size * cell + 12)
    parts = [text((_LEFT + _SIDE) / 2, 13, "predicted class", kind="soft")]
    parts.append(
        f'<text class="soft" transform="translate(12 {(_TOP + high) / 2:.0f}) rotate(-90)" '
        'text-anchor="middle">true class</text>'
    )
    for row, line in enumerate(counts):
        total = sum(line)
        y = _TOP + row * cell
        if cell >= 13:
            parts.append(text(_LEFT + (row + 0.5) * cell, _TOP - 5, names[row][:5]))
            parts.append(text(_LEFT - 5, y + cell / 2 + 4, names[row][:5], "end"))
        for column, count in enumerate(line):
            share = count / total if total else 0.0
            kind = "test" if row == column else "read"
            x = _LEFT + column * cell
            told = f"{names[row]} taken for {names[column]}: {nice_number(count)} ({share:.0%})"
            parts.append(
                f'<rect class="f-{kind}" fill-opacity="{0.04 + 0.9 * share:.3f}" x="{x:.1f}" '
                f'y="{y:.1f}" width="{cell - 1:.1f}" height="{cell - 1:.1f}">'
                f"<title>{html.escape(told)}</title></rect>"
            )
            if cell >= 30 and share >= 0.005:
                kind = "on" if share > 0.5 else ""
                parts.append(text(x + cell / 2, y + cell / 2 + 4, f"{share:.0%}", kind=kind))
    legend = [("right", "test", "box"), ("taken for another", "read", "box")]
    return Chart(title, _SIDE, high, parts, legend)


def recall_bars(title: str, shares: Sequence[tuple[str, float, int]], say: str) -> Chart:
    """A bar for each class: the share of its nodes that is found.

    Args:
        title: what it shows.
        shares: name, share and nodes of a class, in the order to be drawn.
        say: what the share is.
    """
    high = 24 * len(shares) + 10
    parts = []
    for row, (name, share, count) in enumerate(shares):
        y = 4 + 24 * row
        parts.append(text(92, y + 14, name if len(name) <= 13 else name[:12] + "…", "end"))
        parts.append(
            f'<rect class="f-other" fill-opacity=".25" x="98" y="{y}" width="190" height="18"/>'
        )
        parts.append(f'<rect class="f-test" x="98" y="{y}" width="{190 * share:.1f}" height="18"/>')
        parts.append(text(294, y + 14, f"{share:.0%} of {nice_number(count)}", "start", "soft"))
    return Chart(title, _SIDE, high, parts, [(say, "test", "box")])
