"""figures: a figure of the papers' page: its series, its table, and whether the shape holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .facts import Facts

__all__ = ["Draw", "Figure", "Holds", "Kind", "Series"]

Kind = Literal["line", "bars", "stacked", "table"]
Holds = Literal["yes", "partly", "no", "needs GPUs", "needs prices"]


@dataclass(frozen=True)
class Series:
    """One line, or one colour of bars; `spread` has the lowest and highest of repeated runs."""

    label: str
    x: list[float | str]
    y: list[float]
    spread: list[tuple[float, float]] | None = None

    def __post_init__(self) -> None:
        given = [len(self.x), len(self.y)] + ([] if self.spread is None else [len(self.spread)])
        if len(set(given)) > 1:
            raise ValueError(
                f"series {self.label!r} has x, y and spread of lengths {given}; give equally many"
            )


@dataclass(frozen=True)
class Figure:
    """One published figure, measured here.

    Args:
        key: short name, unique within its paper.
        paper: mbs, gnnpipe or ginex.
        title: one line.
        setting: what was run here: graph, model, memory, ranks.
        published: ids of the records of published.toml that it stands beside.
        x_label: of the drawing.
        y_label: of the drawing.
        kind: how it is drawn; "table" is not drawn.
        series: what is drawn.
        columns: head of the table.
        rows: its cells, as text.
        holds: whether the published shape holds here.
        explanation: why it holds, or what stands in its way.
        command: what repeats it.
    """

    key: str
    paper: str
    title: str
    setting: str
    published: list[str]
    x_label: str
    y_label: str
    kind: Kind
    series: list[Series]
    columns: list[str]
    rows: list[list[str]]
    holds: Holds
    explanation: str
    command: str

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"figure {self.key!r} has {len(self.columns)} columns and a row of "
                    f"{len(row)} cells; give equally many"
                )


Draw = Callable[[Facts, bool], Figure]
