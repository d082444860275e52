"""columns: which columns of a table hold sources, targets and weights.

Positions count from 1, as in error messages; 0 is refused. A name in the header takes precedence
over a position. Only the two id columns are read unless more are requested.
"""

from collections.abc import Sequence
from typing import NamedTuple

from foregather.errors import InputError

__all__ = [
    "Column",
    "Picked",
    "check_ids",
    "find_column",
    "find_edge_names",
    "pick_columns",
    "plain_name",
]

#: A column by its name in the header, or by its position from 1 (also as text, "2").
Column = str | int

_SOURCES = ("source", "src", "from", "u", "head", "source_id", "src_id", "from_id", "fromnodeid")
_TARGETS = ("target", "dst", "to", "v", "tail", "target_id", "dst_id", "to_id", "tonodeid")
_MORE_TARGETS = ("destination", "dest", "destination_id")


class Picked(NamedTuple):
    """Columns by position from 0."""

    source: int
    target: int
    weight: int | None


def check_ids(ids: str) -> None:
    """Refuses an unknown kind of ids."""
    if ids not in ("auto", "dense", "sparse", "string"):
        raise InputError(f"ids is {ids!r}, expected auto, dense, sparse or string")


def plain_name(name: str) -> str:
    """A name without its case and its blanks."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def find_edge_names(names: Sequence[str]) -> tuple[int, int] | None:
    """Finds the source and target columns by their usual names; None if there are none."""
    plain = [plain_name(name) for name in names]
    sources = [plain.index(name) for name in _SOURCES if name in plain]
    targets = [plain.index(name) for name in (*_TARGETS, *_MORE_TARGETS) if name in plain]
    return (sources[0], targets[0]) if sources and targets else None


def pick_columns(
    file: str,
    names: Sequence[str] | None,
    count: int,
    columns: Sequence[Column] | None,
    weight: Column | None,
) -> Picked:
    """Returns the requested columns, or those recognised by name, or the first two.

    Args:
        file: short name of the file, for messages.
        names: column names, or None if the file has none.
        count: number of columns.
        columns: source and target as requested.
        weight: weight column as requested.

    Raises:
        InputError: a column does not exist, or is requested twice.
    """
    if columns is not None and len(columns) != 2:
        raise InputError(f"{len(columns)} columns were given, expected two: source and target")
    if columns is not None:
        source, target = (find_column(file, names, count, column) for column in columns)
    else:
        found = find_edge_names(names) if names is not None else None
        source, target = found or (0, 1)
        if count < 2:
            raise InputError(
                f"{file} has {count} column, expected a source and a target; "
                "check the delimiter of the file"
            )
    weighed = None if weight is None else find_column(file, names, count, weight)
    wanted = [source, target] + ([] if weighed is None else [weighed])
    for column in wanted:
        if wanted.count(column) > 1:
            raise InputError(f"column {column + 1} of {file} is requested twice")
    return Picked(source, target, weighed)


def find_column(file: str, names: Sequence[str] | None, count: int, column: Column) -> int:
    """The position (from 0) of a column given by name or by position from 1.

    Raises:
        InputError: there is no such column.
    """
    if isinstance(column, str):
        if names is not None and column in names:
            if list(names).count(column) > 1:
                raise InputError(f"{file} has several columns named {column!r}; give a position")
            return list(names).index(column)
        if not (column.isascii() and column.isdigit()):
            held = f"its columns are {', '.join(names)}" if names else "it has no header"
            raise InputError(f"{file} has no column named {column!r}; {held}")
    position = int(column)
    if not 1 <= position <= count:
        raise InputError(
            f"column {position} was requested, but {file} has columns 1 to {count}; "
            "positions count from 1"
        )
    return position - 1
