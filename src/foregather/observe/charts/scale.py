"""scale: round numbers for axes, and their labels in one unit, so that they can be read.

All labels of an axis share a unit and a number of decimals; neighbours never overlap, since the
number of labels depends on the width of the widest one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["PLAIN", "Axis", "Unit", "choose_unit", "nice_number", "ticks"]

_CHAR = 7.0  # pixels of a digit in the font of labels, rounded up
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Unit:
    """What the values of an axis are divided by, and what that is called.

    Attributes:
        size: of one.
        name: for the axis title; empty where the values are plain.
        suffix: for each label, such as k.
    """

    size: float = 1.0
    name: str = ""
    suffix: str = ""


PLAIN = Unit()
_UNITS = {
    "seconds": ((3600.0, "hours", 2.0), (60.0, "minutes", 2.0), (1.0, "seconds", 1.0),
                (1e-3, "milliseconds", 1.0), (1e-6, "microseconds", 0.0)),
    "bytes": ((1e12, "TB", 1.0), (1e9, "GB", 1.0), (1e6, "MB", 1.0), (1e3, "KB", 1.0),
              (1.0, "bytes", 0.0)),
}  # fmt: skip


def choose_unit(kind: str, high: float) -> Unit:
    """The unit in which the largest value of an axis is from 1 to about 1000.

    Args:
        kind: "seconds", "bytes", "count" or "" for plain values.
        high: the largest value, by magnitude.
    """
    if kind in _UNITS:
        found = _UNITS[kind]
        size, name, _ = next((one for one in found if high >= one[0] * one[2]), found[-1])
        return Unit(size, name)
    for size, suffix in _LARGE if kind == "count" or high >= 1e5 else ():
        if high >= 10 * size if suffix == "k" else high >= size:
            return Unit(size, "", suffix)
    return PLAIN


def ticks(low: float, high: float, count: int = 4, whole: bool = False) -> tuple[list[float], int]:
    """At most about `count` round numbers that cover a span, and the decimals that they need."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low], 0
    raw = max(span / max(1, count), 1.0 if whole else 0.0)
    unit = 10.0 ** math.floor(math.log10(raw))
    steps = (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
    step = next(unit * k for k in steps if unit * k >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = 0
    while digits < 12 and abs(round(step, digits) - step) > 1e-9 * step:
        digits += 1
    return [k * step for k in range(first, min(last, first + 100) + 1)], digits


def nice_number(value: float, digits: int = 0) -> str:
    """A number for people: thousands separated, no exponent below a quadrillion."""
    if not math.isfinite(value):
        return "-"
    if abs(value) >= 1e15:
        return f"{value:.2e}"
    shown = f"{value:,.{digits}f}"
    return shown[1:] if shown.strip("-0.,") == "" and shown.startswith("-") else shown


@dataclass(frozen=True)
class Axis:
    """One axis: the span of its values, and its unit.

    Attributes:
        low: the smallest value that is drawn.
        high: the largest one.
        unit: of the labels.
        whole: values are whole numbers, such as epochs.
    """

    low: float
    high: float
    unit: Unit = PLAIN
    whole: bool = False

    @classmethod
    def over(
        cls, values: Sequence[float], kind: str = "", zero: bool = False, whole: bool = False
    ) -> "Axis":
        """An axis that covers the values; from 0 where asked."""
        low, high = min(values, default=0.0), max(values, default=1.0)
        if zero:
            low = min(0.0, low)
        if high - low <= 1e-9 * max(1e-300, abs(high), abs(low)):
            pad = (0.1 * abs(high)) or 1.0
            if whole:
                pad = 1.0
            low, high = low - pad * (not zero or low < 0), high + pad
        return cls(low, high, choose_unit(kind, max(abs(low), abs(high))), whole)

    def place(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)

    def labels(self, room: float, across: bool) -> list[tuple[float, str]]:
        """Values and their labels, as many as fit without overlap.

        Args:
            room: pixels of the axis.
            across: labels are beside each other; else one above the other.
        """
        low, high = self.low / self.unit.size, self.high / self.unit.size
        for count in (7, 6, 5, 4, 3, 2) if across else (6, 5, 4, 3, 2):
            values, digits = ticks(low, high, count, self.whole and self.unit.size == 1)
            told = [nice_number(value, digits) for value in values]
            told = [
                one if float(v) == 0 else one + self.unit.suffix
                for v, one in zip(values, told, strict=True)
            ]
            most = max((len(one) for one in told), default=1) * _CHAR + 10 if across else 26.0
            if len(told) * most <= room or count == 2:
                return [(v * self.unit.size, one) for v, one in zip(values, told, strict=True)]
        raise AssertionError("unreachable")

    def title(self, given: str) -> str:
        """The axis title with the unit."""
        if not self.unit.name:
            return given
        return f"{given} ({self.unit.name})" if given else self.unit.name


Format = Callable[[float], str]
