"""chart: a drawn chart: alone in a file, with title and legend, or as a figure of a page.

Texts given to it are untrusted and are escaped here. In a page, the legend is text that wraps.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from foregather.observe.charts.palette import ALONE, STYLE, kind_of

__all__ = ["Chart", "Mark", "text"]

Mark = tuple[str, str, str]  # its name, its kind in the palette, and box, line, dash or ring


def text(x: float | str, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    """A piece of text."""
    place = x if isinstance(x, str) else f"{x:.1f}"
    of = f' class="{kind}"' if kind else ""
    return f'<text x="{place}" y="{y:.1f}"{of} text-anchor="{anchor}">{html.escape(words)}</text>'


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        title: what it shows.
        wide: units across.
        high: units down.
        parts: its SVG.
        legend: what the colours mean.
        sentence: what one sees in it; for pages.
        stretched: places across are percentages, so that it can be zoomed.
    """

    title: str
    wide: int
    high: int
    parts: Sequence[str]
    legend: Sequence[Mark] = ()
    sentence: str = ""
    stretched: bool = False
    extra: str = field(default="", repr=False)

    def saying(self, sentence: str) -> "Chart":
        """The same chart with a sentence."""
        return replace(self, sentence=sentence)

    def svg(self) -> str:
        """The drawing for a page, without title and legend."""
        size = (
            f'width="100%" height="{self.high}"'
            if self.stretched
            else f'viewBox="0 0 {self.wide} {self.high}"'
        )
        label = html.escape(self.title)
        parts = "".join(self.parts)
        return f'<svg class="chart" {size} role="img" aria-label="{label}">{parts}</svg>'

    def file(self) -> str:
        """The drawing as a file of its own, with styles, title and legend."""
        legend, below = self._rows()
        high = 26 + self.high + below
        inner = f'<svg y="26" width="{self.wide}" height="{self.high}">{"".join(self.parts)}</svg>'
        label = html.escape(self.title)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{self.wide}" '
            f'height="{high}" viewBox="0 0 {self.wide} {high}" role="img" aria-label="{label}">'
            f"<style>{STYLE}{ALONE}</style>{text(self.wide / 2, 17, self.title, kind='head')}"
            f"{inner}{legend}</svg>"
        )

    def _rows(self) -> tuple[str, int]:
        parts, x, y = [], 12.0, 26 + self.high + 4
        for name, kind, _ in self.legend:
            wide = 26 + 7.4 * len(name)
            if x + wide > self.wide and x > 12:
                x, y = 12.0, y + 17
            box = f'<rect class="f-{kind}" x="{x:.0f}" y="{y}" width="10" height="10"/>'
            parts.append(box + text(x + 15, y + 9, name, "start"))
            x += wide
        return "".join(parts), (y - 26 - self.high + 17 if self.legend else 4)

    def figure(self) -> str:
        """The chart as a figure of a page: title, sentence, drawing, legend."""
        marks = "".join(
            f'<li><i class="{shape} b-{kind}"></i>{html.escape(name)}</li>'
            for name, kind, shape in self.legend
        )
        legend = f'<ul class="legend">{marks}</ul>' if marks else ""
        said = f"<p>{html.escape(self.sentence)}</p>" if self.sentence else ""
        drawn = self.extra + self.svg() if not self.stretched else self._zoomed()
        kind = ' class="whole"' if self.stretched else ""
        return (
            f"<figure{kind}><figcaption><h3>{html.escape(self.title)}</h3>{said}</figcaption>"
            f"{drawn}{legend}</figure>"
        )

    def _zoomed(self) -> str:
        """With buttons that widen it inside a box that scrolls; they need no script."""
        buttons = "".join(
            f'<input type="radio" name="zoom" id="z{times}"{" checked" if times == 1 else ""}>'
            f'<label for="z{times}">{shown}</label>'
            for times, shown in ((1, "all"), (4, "a quarter"), (16, "a sixteenth"))
        )
        return (
            f'<div class="zoom">{buttons}<div class="scroll" tabindex="0">{self.svg()}</div></div>'
        )


def marks(names: Sequence[str], shape: str) -> list[Mark]:
    """Legend entries by name, all of one shape; names without a meaning share one."""
    found: dict[str, Mark] = {}
    for name in names:
        kind = kind_of(name)
        told = "other" if kind == "other" else name
        found.setdefault(told, (told, kind, shape))
    return list(found.values())
