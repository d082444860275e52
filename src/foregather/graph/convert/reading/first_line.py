"""first_line: decides whether the first line of an edge list is a header or an edge.

No edge is silently lost: a line is skipped only if none of the fields that would be read looks like
a number or like an id in later lines, and the summary says which line it was. A line that could be
either is refused, and `--header` decides.
"""

import re
from collections.abc import Sequence

from foregather.errors import InputError
from foregather.graph.convert.reading.columns import Column, find_edge_names

__all__ = ["NO_NAME", "are_integers", "has_header"]

Line = tuple[int, list[bytes]]  # its number, and its fields

_INTEGER = re.compile(rb"[+-]?[0-9]+(\.0*)?")  # as the parser accepts
# Numbers in any notation, and the usual markers for missing values; never column names.
NO_NAME = re.compile(
    rb"|[+-]?\.?[0-9].*|[+-]?(inf|infinity|nan)|na|n/a|null|none|nil|missing|[-?.]+",
    re.IGNORECASE | re.DOTALL,
)


def are_integers(fields: Sequence[bytes], columns: Sequence[int]) -> bool:
    """Whether the fields in those columns exist and are all integers."""
    return all(c < len(fields) and _INTEGER.fullmatch(fields[c]) for c in columns)


def has_header(
    file: str,
    table: Sequence[Line],
    columns: Sequence[Column] | None,
    weight: Column | None,
) -> bool:
    """Whether the first line is a header.

    It is one if a column is requested by name, if it has the usual column names, or if it holds
    words while the ids in later lines are integers.

    Raises:
        InputError: it could also be an edge.
    """
    number, first = table[0]
    below = [fields for _, fields in table[1:]]
    asked = [*(columns or ()), *(() if weight is None else (weight,))]
    if any(not re.fullmatch("[0-9]+", str(column)) for column in asked):
        return True
    named = find_edge_names([_text(field) for field in first])
    ids = [int(column) - 1 for column in columns] if columns else list(named or (0, 1))
    words = bool(below) and not are_integers(first, ids)
    if named is None and not (words and all(are_integers(fields, ids) for fields in below)):
        return False
    used = [c for c in (*ids, *(() if weight is None else (int(weight) - 1,))) if c < len(first)]
    met = {fields[c] for fields in below for c in ids if c < len(fields)}
    if any(NO_NAME.fullmatch(first[c]) or first[c] in met for c in used):
        raise InputError(
            f"{file} line {number} has {[_text(first[c]) for c in used]}, which could be column "
            "names or an edge; pass --header yes to skip the line or --header no to read it"
        )
    return True


def _text(field: bytes) -> str:
    return field.decode("utf-8", "replace")
