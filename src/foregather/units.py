"""Units: whole numbers, sizes and counts as people write them ("2GB", "10M"), and back."""

import math
import operator
import re
from typing import Any

from foregather.errors import InputError

__all__ = ["format_bytes", "format_count", "format_number", "parse_count", "parse_size", "to_whole"]

_DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}
_BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:e[0-9]+)?)\s*([A-Za-z]*)")


_MOST = 1 << 62  # bytes or items: fits a signed 64-bit number, with room to add


def to_whole(value: Any, name: str, least: int = 0, most: int | None = None) -> int:
    """Returns a whole number in a range, NumPy's included; refuses 1.5, "1", True and None.

    Raises:
        InputError: it is not a whole number, or out of range.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        end = "on" if most is None else f"to {_power(most)}"
        raise InputError(f"{name} is {value!r}, expected a whole number from {least} {end}")
    return number


def _power(most: int) -> str:
    """Writes 2^64 - 1 and the like as a power, which is easier to read than the digits."""
    power = (most + 1).bit_length() - 1
    return f"2^{power} - 1" if most + 1 == 1 << power and power > 16 else str(most)


def _split(text: str, what: str, example: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{what} is {text!r}, which is not a number with a unit; write {example}")
    return float(match[1].replace("_", "")), match[2].upper()


def parse_size(text: str | int, name: str = "size") -> int:
    """Bytes from "2GB" (10^9), "1.5GiB" (2^30), "512MB", "4096" or an int.

    Args:
        text: what is given.
        name: what errors call it.

    Raises:
        InputError: the text is not a size, or is not positive.
    """
    if not isinstance(text, str):
        number, unit = float(min(to_whole(text, "the size in bytes", 1), _MOST)), ""
    else:
        number, unit = _split(text, name, "2GB, 512MiB or a number of bytes")
    if unit.endswith("IB") and unit[:-2] in _BINARY:
        factor = _BINARY[unit[:-2]]
    elif unit in ("", "B"):
        factor = 1
    elif unit.removesuffix("B") in ("K", "M", "G", "T"):
        factor = _DECIMAL[unit.removesuffix("B")]
    else:
        raise InputError(
            f"{name} {text!r} has unit {unit!r}; write KB, MB, GB, TB, KiB, MiB or GiB"
        )
    if not 1 <= number * factor < _MOST:
        told = "not positive" if number * factor < 1 else "more than any machine has"
        raise InputError(f"{name} {text!r} is {told}; write for example 2GB")
    return int(number * factor)


def parse_count(text: str | int, name: str = "count") -> int:
    """A count from "10M", "1.6B", "20k", "1e6" or an int.

    Args:
        text: what is given.
        name: what errors call it.

    Raises:
        InputError: the text is not a count of whole things.
    """
    if not isinstance(text, str):
        return to_whole(text, name, most=_MOST)
    number, unit = _split(text, name, "10M, 1.6B or a plain number")
    if unit not in _DECIMAL:
        raise InputError(f"{name} {text!r} has unit {unit!r}; write k, M, B (10^9) or T")
    value = number * _DECIMAL[unit]
    if not math.isfinite(value) or value != int(value) or value > _MOST:
        raise InputError(f"{name} {text!r} is not a whole number below 2^62")
    return int(value)


def format_bytes(size: float) -> str:
    """A size for people: 512 B, 1.5 KB, 2.05 GB (powers of 1000)."""
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(size) < 999.5 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def format_count(count: int) -> str:
    """A count for people, with thousands separators."""
    return f"{count:,}"


def format_number(count: int, noun: str) -> str:
    """A count with its noun, in the plural unless the count is one: "1 batch", "2 batches"."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith(("s", "x", "tch", "sh")):
        return f"{format_count(count)} {noun}es"
    if noun.endswith("y") and not noun.endswith(("ay", "ey", "oy", "uy")):
        return f"{format_count(count)} {noun[:-1]}ies"
    return f"{format_count(count)} {noun}s"
