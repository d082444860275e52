"""rounds: lets systems take turns at the same work, and turns what they took into rows.

A round is one turn of each system, in an order that is drawn; the first ones warm up and are not
counted. Ratios are paired by round, so what slows the machine for a while slows both sides.
"""

import gc
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

__all__ = [
    "Bar",
    "Cell",
    "Found",
    "HEAD",
    "Row",
    "Turn",
    "Work",
    "compare",
    "keep",
    "spread_of",
    "take_turns",
]

HEAD = (
    "what",
    "case",
    "system",
    "nodes / edges a batch",
    "measured",
    "beside ours",
    "bar",
    "loss",
)
Row = list[str]
UNEQUAL = 0.02  # batches of the same rule differ by less


@dataclass(frozen=True)
class Turn:
    """What a system did in one turn.

    Args:
        seconds: of the work alone.
        batches: made in it.
        nodes: of all of them.
        edges: likewise.
        loss: the mean over the batches, where a model was trained.
    """

    seconds: float
    batches: int = 1
    nodes: int = 0
    edges: int = 0
    loss: float | None = None


Work = Callable[[int], Turn]


@dataclass(frozen=True)
class Bar:
    """What was promised of ours.

    Args:
        family: the start of the names of the systems that count, the best of which is taken.
        value: the limit, by `kind`.
        kind: "times": the other takes at least `value` times what ours takes; "most": ours
            takes at most `value` times what the other takes; "under": ours takes at most `value`,
            in the unit of the cell.
    """

    family: str
    value: float
    kind: Literal["times", "most", "under"] = "times"

    def text(self, found: float) -> str:
        """The bar and whether it is met, by the ratio of the other's time to ours, or by ours."""
        says, met = {
            "times": (f"at least {self.value:g}", found >= self.value),
            "most": (f"ours at most {self.value:g} times", 1 / found <= self.value),
            "under": (f"at most {self.value:g}", found <= self.value),
        }[self.kind]
        return f"{says}: {'met' if met else '**not met**'}"


@dataclass
class Cell:
    """Systems that do the same work.

    Args:
        what: the section.
        case: graph and setting.
        ours: the name of the system that others are set beside.
        works: by name; the number of the round is passed on.
        bars: those of this cell.
        scale: of the seconds a batch: 1e3 for milliseconds, 1e6 for microseconds.
    """

    what: str
    case: str
    ours: str
    works: dict[str, Work]
    bars: Sequence[Bar] = ()
    scale: float = 1e3
    warm: int = 1
    notes: dict[str, str] = field(default_factory=dict)


Found = dict[str, list[Turn]]


def take_turns(works: dict[str, Work], rounds: int, warm: int = 1) -> Found:
    """Runs the rounds; the turns of those that count, by system."""
    found: Found = {name: [] for name in works}
    order = list(works)
    for number in range(rounds + warm):
        random.Random(number).shuffle(order)
        for name in order:
            gc.collect()  # workers of a loader that is no longer used end before a turn, not in it
            turn = works[name](number)
            if number >= warm:
                found[name].append(turn)
    return found


def compare(cell: Cell, rounds: int) -> list[Row]:
    """A row a system, each with its ratio to ours; bars stand at the best of their family."""
    found = take_turns(cell.works, rounds, cell.warm)
    costs = {name: [t.seconds / t.batches for t in turns] for name, turns in found.items()}
    ratios = {
        name: [a / b for a, b in zip(values, costs[cell.ours], strict=True)]
        for name, values in costs.items()
    }
    bars: dict[str, list[str]] = {name: [] for name in costs}
    for bar in cell.bars:
        if bar.kind == "under":
            bars[cell.ours].append(bar.text(statistics.median(costs[cell.ours]) * cell.scale))
        elif best := best_of(costs, bar.family, cell.ours):
            bars[best].append(bar.text(statistics.median(ratios[best])))
    shapes = {name: shape_of(turns) for name, turns in found.items()}
    rows = []
    for name, values in costs.items():
        shape, loss = shapes[name], found[name][-1].loss
        ratio = spread_of(ratios[name], name)
        if other_work(shape, shapes[cell.ours]):
            ratio += ", **other work**"
        rows.append(
            [
                cell.what,
                cell.case,
                name + (f" ({cell.notes[name]})" if name in cell.notes else ""),
                " / ".join(f"{size:,.0f}" for size in shape) if any(shape) else "",
                f"{figures([v * cell.scale for v in values])} {unit(cell.scale)}",
                "" if name == cell.ours else ratio,
                "; ".join(bars[name]),
                "" if loss is None else f"{loss:.5f}",
            ]
        )
    show(rows)
    return rows


def keep(rows: list[Row], path: Path, sections: Sequence[str]) -> list[Row]:
    """The rows of an earlier part of a report that were not measured again, then these."""
    again = {row[0] for row in rows}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    old = [one for one in cells if len(one) == len(HEAD) and one[0] not in (*again, HEAD[0], "---")]
    order = {name: at for at, name in enumerate(sections)}
    return sorted([*old, *rows], key=lambda row: order[row[0].split(",")[0]])


def show(rows: list[Row]) -> None:
    """Prints rows as soon as they are known, so that an interrupted run was not in vain."""
    for row in rows:
        print(" | ".join(row), flush=True)


def shape_of(turns: list[Turn]) -> tuple[float, float]:
    """Mean nodes and edges of a batch."""
    count = sum(turn.batches for turn in turns)
    return sum(turn.nodes for turn in turns) / count, sum(turn.edges for turn in turns) / count


def other_work(shape: tuple[float, float], ours: tuple[float, float]) -> bool:
    """Whether batches differ by more than chance makes them; those without a size do not."""
    pairs = zip(shape, ours, strict=True)
    return any(shape) and any(abs(a - b) > UNEQUAL * b for a, b in pairs)


def best_of(costs: dict[str, list[float]], family: str, ours: str) -> str | None:
    """The system of a family that took the least in the median."""
    names = [name for name in costs if name.startswith(family) and name != ours]
    return min(names, key=lambda name: statistics.median(costs[name]), default=None)


def figures(values: Sequence[float]) -> str:
    """Median and range with three digits, or as whole numbers from 100 on."""
    parts = [statistics.median(values), min(values), max(values)]
    middle, least, most = (f"{v:,.0f}" if v >= 100 else f"{v:.3g}" for v in parts)
    return f"{middle} ({least} to {most})"


def spread_of(ratio: list[float], name: str = "foregather") -> str:
    """A ratio; where a peer's is below 1 it is said in words."""
    text = figures(ratio)
    lost = statistics.median(ratio) < 1 and not name.startswith(("foregather", "dense"))
    return f"{text}, ours loses" if lost else text


def unit(scale: float) -> str:
    return {1.0: "s", 1e3: "ms", 1e6: "µs", 1e-6: "MB"}[scale]
