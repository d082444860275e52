"""pen: what the drawings of the pages are made of: a card, boxes, arrows and text, as SVG.

Colours are those of the charts, so one colour means one thing on every page. A drawing is 440
units wide, so that its text can still be read on a screen of 390 pixels.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field

from foregather.observe.charts.palette import MEANINGS

__all__ = ["EDGE", "MIDDLE", "WIDE", "Drawing"]

WIDE, EDGE = 440, 18  # of a drawing, and of its margin
MIDDLE = WIDE / 2
_INK = {"ink": ("#16202e", "#e6eaf0"), "soft": ("#55606f", "#a3aebc")}
_INK |= {"back": ("#ffffff", "#171e27"), "line": ("#d5dbe2", "#364252")}
_INK |= {"box": ("#f1f4f7", "#222c38"), "on": ("#ffffff", "#0b1220")}
_STYLE = (
    'text{fill:var(--ink);font:14px system-ui,"Segoe UI",Helvetica,Arial,sans-serif}'
    ".soft{fill:var(--soft);font-size:13px}.head{font-weight:650;font-size:15px}"
    ".big{font-weight:700;font-size:22px;fill:var(--forward)}.on{fill:var(--on);font-weight:600}.dark{fill:#16202e;font-weight:600}"
    ".code{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}"
    ".card{fill:var(--back);stroke:var(--line)}.box{fill:var(--box);stroke:var(--line)}"
    ".line{stroke:var(--line);fill:none}.faint{fill-opacity:.25}"
    ".arrow{stroke:var(--soft);stroke-width:1.6;fill:none}.tip{fill:var(--soft)}"
)


@dataclass
class Drawing:
    """A drawing in the making.

    Attributes:
        title: its name.
        told: what it shows, for those who do not see it.
        parts: its SVG, a line for each.
        meanings: colours that it uses.
    """

    title: str
    told: str
    parts: list[str] = field(default_factory=list)
    meanings: set[str] = field(default_factory=set)

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """A line of text; kinds are soft, head, big, on, code and meanings of the palette."""
        self._use(kind)
        of = f' class="{_kinds(kind)}"' if kind else ""
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text x="{x:g}" y="{y:g}"{of}{where}>{html.escape(words)}</text>')

    def lines(self, x: float, y: float, words: Sequence[str], kind: str = "soft") -> float:
        """Lines of text below each other; the place of the next one."""
        for row, line in enumerate(words):
            self.text(x, y + 18 * row, line, kind)
        return y + 18 * len(words)

    def box(
        self,
        place: tuple[float, float, float, float],
        kind: str = "box",
        words: str = "",
        on: str = "",
    ) -> None:
        """A box at x, y of a width and a height, with words in its middle."""
        x, y, wide, high = place
        self._use(kind)
        corner = min(5, high / 4)
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="{corner:g}" '
            f'class="{_kinds(kind)}"/>'
        )
        if words:
            self.text(x + wide / 2, y + high / 2 + 4.7, words, on, "middle")

    def arrow(self, *corners: tuple[float, float], kind: str = "arrow") -> None:
        """A line through corners, with a tip at its end."""
        (x0, y0), (x, y) = corners[-2:]
        across, down = (x > x0) - (x < x0), (y > y0) - (y < y0)
        path = "L".join(f"{a:g} {b:g}" for a, b in [*corners[:-1], (x - 5 * across, y - 5 * down)])
        self.parts.append(f'<path d="M{path}" class="{kind}"/>')
        left, right = (
            (x - 7 * across + side * 4 * down, y - 7 * down + side * 4 * across) for side in (1, -1)
        )
        tip = " ".join(f"{a:g},{b:g}" for a, b in ((x, y), left, right))
        self.parts.append(f'<polygon points="{tip}" class="tip"/>')

    def rule(self, y: float) -> None:
        """A line across."""
        self.parts.append(f'<path d="M{EDGE} {y:g}H{WIDE - EDGE}" class="line"/>')

    def legend(self, y: float, entries: Sequence[tuple[str, str]], wide: float) -> None:
        """Small boxes and what their colours mean, in columns of a width."""
        for number, (kind, words) in enumerate(entries):
            x = EDGE + wide * number
            self.box((x, y, 12, 12), kind)
            self.text(x + 18, y + 11, words, "soft")

    def svg(self, high: float) -> str:
        """The file."""
        size = f'width="{WIDE}" height="{high:g}" viewBox="0 0 {WIDE} {high:g}"'
        card = (
            f'<rect x=".5" y=".5" width="{WIDE - 1}" height="{high - 1:g}" rx="12" class="card"/>'
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
                f'aria-label="{html.escape(self.title)}">',
                f"<title>{html.escape(self.title)}</title>",
                f"<desc>{html.escape(self.told)}</desc>",
                f"<style>{self._colours(0)}"
                f"@media (prefers-color-scheme:dark){{{self._colours(1)}}}{_STYLE}"
                + "".join(
                    f".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name});fill:none}}"
                    for name in sorted(self.meanings)
                )
                + "</style>",
                card,
                *self.parts,
                "</svg>\n",
            ]
        )

    def _use(self, kinds: str) -> None:
        self.meanings |= {kind for kind in kinds.split() if kind.removeprefix("s-") in MEANINGS}
        self.meanings = {kind.removeprefix("s-") for kind in self.meanings}

    def _colours(self, which: int) -> str:
        names = self.meanings | {"forward"}
        pairs = [*_INK.items(), *((name, MEANINGS[name]) for name in sorted(names))]
        scheme = "color-scheme:light dark;" if which == 0 else ""
        return f":root{{{scheme}{';'.join(f'--{name}:{pair[which]}' for name, pair in pairs)}}}"


def _kinds(kinds: str) -> str:
    return " ".join(f"f-{kind}" if kind in MEANINGS else kind for kind in kinds.split())
