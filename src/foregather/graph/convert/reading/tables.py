"""tables: reads columns of a delimited file as arrays, in chunks of bounded size.

The bytes come from `stream` (read ahead by a thread), the parsing is done in the core. A chunk has
at most `step` rows and its text is no larger than the arrays it fills, so memory is proportional to
the step.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.convert.reading.stream import first_lines, open_lines, read_ahead
from foregather.graph.convert.source import EdgeChunk, Strings

__all__ = ["Layout", "count_columns", "drive", "read_edges", "read_integers", "read_numbers"]

_LEAST_BYTES = 1 << 16
_MOST_BYTES = 4 << 20
_NO_WEIGHTS = np.empty(0, np.float32)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Layout:
    """How to read the lines of a file.

    Attributes:
        delimiter: one of `, ; | :` or tab; a space stands for any run of spaces and tabs.
        first_row: number of the first line that is data; the lines before it are skipped.
        comments: skip lines that start with # or %.
    """

    delimiter: str = ","
    first_row: int = 1
    comments: bool = False


def count_columns(path: str | os.PathLike[str], delimiter: str = ",") -> int:
    """Number of fields in the first non-blank line; 0 if there is none."""
    for line in first_lines(path):
        if line.strip():
            return len(_core.split_fields(np.frombuffer(line, np.uint8), delimiter))
    return 0


def read_integers(
    path: str | os.PathLike[str], columns: Sequence[int], step: int, layout: Layout
) -> Iterator[npt.NDArray[np.int64]]:
    """Integer columns (counted from 0) as [columns, n] arrays, n at most `step`."""
    for ids, _ in _integers(Path(path), columns, step, layout, -1):
        yield ids


def read_edges(
    path: str | os.PathLike[str],
    columns: tuple[int, int],
    step: int,
    layout: Layout,
    *,
    strings: bool = False,
    weight: int | None = None,
) -> Iterator[EdgeChunk]:
    """Edges from a source and a target column, with an optional column of weights."""
    column = -1 if weight is None else weight
    if strings:  # parsed ahead in a thread, while the consumer looks up the names before
        yield from read_ahead(lambda: _strings(Path(path), columns, step, layout, column), depth=1)
        return
    for ids, weights in _integers(Path(path), columns, step, layout, column):
        yield EdgeChunk(ids[0], ids[1], None if weight is None else weights)


def read_numbers(
    path: str | os.PathLike[str],
    width: int,
    step: int,
    layout: Layout,
    dtype: npt.DTypeLike = np.float32,
) -> Iterator[Array]:
    """Lines of exactly `width` numbers as [n, width] arrays of float32 or float64."""
    kind = np.dtype(dtype)

    def parse(lines: _core.Lines, text: Array) -> tuple[Array, int, int, int]:
        # `width` fields take at least `width` bytes, with the line end.
        room = min(step, text.size // width + 1)
        out = np.empty((room, width), kind)
        rows, count, size = lines.parse_numbers(text, width, out.reshape(-1))
        return out[:rows], rows, count, size

    yield from drive(Path(path), step, width * kind.itemsize, layout, parse)


def _integers(
    path: Path, columns: Sequence[int], step: int, layout: Layout, weight: int
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
    def parse(lines: _core.Lines, text: Array) -> tuple[tuple[Array, Array], int, int, int]:
        room = _room(step, text, columns)
        out = np.empty((len(columns), room), np.int64)
        weights = _NO_WEIGHTS if weight < 0 else np.empty(room, np.float32)
        rows, count, size = lines.parse_integers(
            text, list(columns), out.reshape(-1), weight, weights
        )
        return (out[:, :rows], weights[:rows]), rows, count, size

    yield from drive(path, step, 8 * len(columns), layout, parse)


def _strings(
    path: Path, columns: tuple[int, int], step: int, layout: Layout, weight: int
) -> Iterator[EdgeChunk]:
    def parse(lines: _core.Lines, text: Array) -> tuple[EdgeChunk, int, int, int]:
        room = _room(step, text, columns)
        keys = np.empty((2, room), np.uint64)
        data = np.empty(text.size, np.uint8)
        offsets = np.empty(2 * room + 1, np.int64)
        held = np.empty(2 * room, np.uint64)
        weights = _NO_WEIGHTS if weight < 0 else np.empty(room, np.float32)
        rows, count, size, names = lines.parse_strings(
            text, list(columns), keys.reshape(-1), data, offsets, held, weight, weights
        )
        met = Strings(data[: offsets[names]], offsets[: names + 1], held[:names])
        chunk = EdgeChunk(
            keys[0, :rows], keys[1, :rows], None if weight < 0 else weights[:rows], names=met
        )
        return chunk, rows, count, size

    yield from drive(path, step, 32, layout, parse)


def _room(step: int, text: Array, columns: Sequence[int]) -> int:
    # A field and its delimiter or line end take two bytes at least.
    return min(step, text.size // (2 * len(columns)) + 1)


def drive(
    path: Path,
    step: int,
    row_bytes: int,
    layout: Layout,
    parse: Callable[[_core.Lines, Array], tuple[Any, int, int, int]],
) -> Iterator[Any]:
    """Feeds the pieces of a file to `parse` until each is consumed; yields non-empty results."""
    if step < 1:
        raise InputError(f"step is {step}, expected at least 1")
    step_bytes = min(_MOST_BYTES, max(_LEAST_BYTES, step * row_bytes))
    lines = _core.Lines(path.name, layout.delimiter, 1, layout.first_row, layout.comments)
    with closing(open_lines(path, step_bytes)) as pieces:
        for piece, first_line in pieces:
            lines.first_line = first_line
            text = piece
            while text.size:
                item, rows, count, size = parse(lines, text)
                lines.first_line += count
                text = text[size:]
                if rows:
                    yield item
