"""values: columns of a table as the arrays that node tables and relations hold.

How a column becomes numbers is fixed: times are whole (dates become seconds since 1970), features
are float32 with NaN where there is nothing, and labels keep whole numbers, with -1 where there is
nothing.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.convert.typed.tables import arrow

__all__ = ["is_date", "is_text", "labels_of", "numbers_of", "plain", "times_of"]

Array = npt.NDArray[Any]


def is_text(column: Any) -> bool:
    """Whether a column holds text; a dictionary of text counts."""
    kinds = arrow().types
    kind = column.type.value_type if kinds.is_dictionary(column.type) else column.type
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def is_date(column: Any) -> bool:
    """Whether a column of times holds dates, which become seconds, and not whole numbers."""
    kinds = arrow().types
    kind = column.type.value_type if kinds.is_dictionary(column.type) else column.type
    return bool(kinds.is_date(kind) or kinds.is_timestamp(kind)) or is_text(column)


def plain(column: Any) -> Any:
    """A column without its dictionary."""
    return column.dictionary_decode() if arrow().types.is_dictionary(column.type) else column


def _null_row(column: Any, start: int) -> int:
    """Row, from 1, of the first missing value."""
    return start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))) + 1


def times_of(column: Any, where: str, start: int) -> npt.NDArray[np.int64]:
    """Times as int64.

    Raises:
        InputError: floats, text, fractions of a second, or a missing time; names the row.
    """
    pa = arrow()
    column = plain(column)
    kind = column.type
    if pa.types.is_null(kind) and len(column) == 0:
        return np.empty(0, np.int64)
    if column.null_count:
        raise InputError(
            f"{where} has no time in row {_null_row(column, start)}; leave such rows out, or give "
            "them a time"
        )
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        try:
            column = column.cast(pa.timestamp("s", getattr(kind, "tz", None)))
        except pa.ArrowInvalid as error:
            row = _longest(column, pa.timestamp("s", getattr(kind, "tz", None)))
            raise InputError(
                f"{where} holds {kind} with fractions of a second, first in row "
                f"{start + row + 1}; store whole numbers in one unit"
            ) from error
        column = column.cast(pa.int64())
    elif is_text(column):
        column = _dates(column, where, start).cast(pa.int64())
    elif not pa.types.is_integer(kind):
        raise InputError(f"{where} holds {kind}, expected whole numbers or dates: a time is int64")
    try:
        values: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise InputError(f"{where} holds a time that int64 does not") from error
    return values


def _dates(column: Any, where: str, start: int) -> Any:
    """Dates written as in ISO 8601, with or without a time zone."""
    pa = arrow()
    for zone in (None, "UTC"):
        try:
            return column.cast(pa.timestamp("s", zone))
        except pa.ArrowInvalid:
            continue
    # The first row that is neither kind of date, or of the other kind than those before.
    row = max(_longest(column, pa.timestamp("s", zone)) for zone in (None, "UTC"))
    raise InputError(
        f"{where} holds {column[row].as_py()!r:.80} in row {start + row + 1}, expected whole "
        "numbers or dates such as 2013-01-31 06:00:00, all with a time zone or all without"
    )


def _longest(column: Any, kind: Any) -> int:
    """How many of the first rows can be cast."""
    good, bad = 0, len(column)
    while bad - good > 1:
        half = (good + bad) // 2
        try:
            column[good:half].cast(kind)
            good = half
        except arrow().ArrowInvalid:
            bad = half
    return good


def numbers_of(column: Any, where: str, start: int = 0) -> npt.NDArray[np.float32]:
    """Numbers as float32, rounded, NaN where there is nothing.

    Args:
        column: the numbers.
        where: the words for the column.
        start: rows before it.

    Raises:
        InputError: text, dates or lists, or a number beyond float32; names the row.
    """
    pa = arrow()
    column = plain(column)
    kinds = pa.types
    kind = column.type
    if kinds.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not (
        kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_null(kind)
    ) and not kinds.is_decimal(kind):
        raise InputError(
            f"{where} holds {kind}, expected numbers; leave the column out, or encode it as numbers"
        )
    # not safe: whole numbers above 2^53 are rounded, as all others are to float32
    values: Array = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        found: npt.NDArray[np.float32] = values.astype(np.float32)
    beyond = np.isinf(found) & ~np.isinf(values)
    if beyond.any():
        row = int(np.argmax(beyond))
        raise InputError(
            f"{where} holds {values[row]:g} in row {start + row + 1}, a number beyond float32; "
            "leave the column out, or scale it"
        )
    return found


def labels_of(column: Any, where: str, start: int = 0) -> Array:
    """Whole numbers as int64 with -1 for nothing, other numbers as float32 with NaN.

    Raises:
        InputError: dates or lists.
    """
    pa = arrow()
    column = plain(column)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        filled = column.cast(pa.int64()).fill_null(-1)
        values: Array = filled.to_numpy(zero_copy_only=False)
        return values
    return numbers_of(column, where, start)
