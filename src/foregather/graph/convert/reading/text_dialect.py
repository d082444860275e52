"""text_dialect: detects the format of an edge list from its first lines.

It guesses only where a wrong guess would be noticed: ids that look like integers are read as
integers, and the first one that is not stops the conversion with its line number.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foregather import _core
from foregather.errors import FormatError, InputError
from foregather.graph.convert.reading.columns import Column, Picked, pick_columns
from foregather.graph.convert.reading.first_line import are_integers, has_header
from foregather.graph.convert.reading.matrix_market import Matrix, read_matrix
from foregather.graph.convert.reading.stream import first_lines
from foregather.graph.convert.reading.tables import Layout

__all__ = ["DELIMITERS", "Dialect", "find_delimiter", "guess_dialect", "sample_lines", "split_line"]

DELIMITERS = {
    "\t": "tabs",
    ",": "commas",
    ";": "semicolons",
    "|": "bars",
    ":": "colons",
    " ": "blanks",
}
_GUESSED = ("\t", ",", ";", "|")
_SAMPLE_BYTES = 1 << 16
_MOST_ROWS = 1000


@dataclass(frozen=True)
class Dialect:
    """What was detected from the first lines.

    Attributes:
        layout: delimiter, first data line, and whether comments may follow it.
        picked: the columns to read.
        names: the header's names, or None.
        count: columns of the first data line.
        strings: the ids are text.
        comments: comment lines before the first data line.
        first: the first line that is not a comment, and its number.
        matrix: the header of a MatrixMarket file; None for other files.
    """

    layout: Layout
    picked: Picked
    names: list[str] | None
    count: int
    strings: bool
    comments: list[str]
    first: tuple[int, str]
    matrix: Matrix | None = None


def guess_dialect(
    path: str | os.PathLike[str],
    columns: Sequence[Column] | None,
    delimiter: str | None,
    header: bool | None,
    strings: bool | None,
    weight: Column | None,
) -> Dialect:
    """Guesses the format from the first lines; arguments that are given are used as they are.

    Raises:
        FormatError: no line holds an edge.
        InputError: the requested columns do not exist, or the delimiter or header cannot be
            determined.
    """
    file = os.path.basename(path)
    comments, rows = sample_lines(path, file, "edge", "a source and a target")
    first = (rows[0][0], rows[0][1].decode("utf-8", "replace").strip())
    matrix = read_matrix(file, comments, rows)
    if matrix is not None:
        if strings or header or delimiter not in (None, " "):
            raise InputError(
                f"{file} is a MatrixMarket file, whose ids are rows and columns, separated by "
                "blanks, without a header; leave out --ids and --header"
            )
        picked = pick_columns(file, None, matrix.columns, columns, weight)
        layout = Layout(" ", first_row=matrix.line + 1, comments=True)
        return Dialect(layout, picked, None, matrix.columns, False, comments, first, matrix)
    if delimiter is None:
        delimiter = find_delimiter(file, [line for _, line in rows])
    elif delimiter not in DELIMITERS:
        raise InputError(f"the delimiter is {delimiter!r}, expected one of , ; | : tab or space")
    table = [(number, split_line(line, delimiter)) for number, line in rows]
    if header is None:
        header = has_header(file, table, columns, weight)
    names = [field.decode("utf-8", "replace") for field in table[0][1]] if header else None
    data = table[1:] if header else table
    if not data:
        raise FormatError(
            f"{file} has a header and no edges; expected a source and a target per line (pass "
            "--header no if its first line is an edge)"
        )
    count = len(data[0][1])
    picked = pick_columns(file, names, count, columns, weight)
    if strings is None:
        strings = _are_strings(file, data, picked[:2])
    # Text may start with # or %, so with text ids such lines are edges after the first edge.
    layout = Layout(delimiter, first_row=data[0][0], comments=not strings)
    return Dialect(layout, picked, names, count, strings, comments, first)


def sample_lines(
    path: str | os.PathLike[str], file: str, row: str, fields: str
) -> tuple[list[str], list[tuple[int, bytes]]]:
    """The leading comments, and the first lines that are neither comment nor blank.

    Args:
        path: the file.
        file: its short name, for messages.
        row: what a line should be, for messages.
        fields: what is in it, for messages.

    Raises:
        FormatError: there is no such line.
    """
    comments: list[str] = []
    rows: list[tuple[int, bytes]] = []
    lines = first_lines(path, _SAMPLE_BYTES)
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text[:1] in (b"#", b"%"):
            if not rows:
                comments.append(text.decode("utf-8", "replace"))
        elif text and len(rows) < _MOST_ROWS:
            rows.append((number, line))
    if not lines:
        raise FormatError(f"{file} is empty; expected {fields} per line")
    if not rows:
        raise FormatError(
            f"{file} has no {row} among its first {len(lines)} lines; lines that start with # or % "
            "are comments"
        )
    return comments, rows


def split_line(line: bytes, delimiter: str) -> list[bytes]:
    """The fields of a line."""
    return _core.split_fields(np.frombuffer(line, np.uint8), delimiter)


def _are_strings(file: str, data: list[tuple[int, list[bytes]]], columns: Sequence[int]) -> bool:
    """Whether ids are text: either all are text or all are integers; a mixture is refused."""
    odd = [row for row in data if not are_integers(row[1], columns)]
    if odd and len(odd) < len(data):
        number, fields = odd[0]
        text = [fields[c].decode("utf-8", "replace") for c in columns if c < len(fields)]
        raise InputError(
            f"{file} line {number} has ids {text}, but other lines have integers; correct it, or "
            "pass --ids string if ids are text"
        )
    return bool(odd)


def find_delimiter(file: str, rows: list[bytes]) -> str:
    """Finds the delimiter that splits every line into the same number of fields.

    One that gives two integers at the start of each line is preferred, so "1 2<tab>3" is split at
    blanks; otherwise the first of tab, comma, semicolon and bar that fits, then blanks.
    """
    fitting: list[str] = []
    for delimiter in (*_GUESSED, " "):
        table = [split_line(line, delimiter) for line in rows]
        counts = {len(fields) for fields in table}
        if min(counts) < 2 or (len(counts) > 1 and delimiter != " "):
            continue
        if all(are_integers(fields, (0, 1)) for fields in table[1:] or table):
            return delimiter
        fitting.append(delimiter)
    if not fitting:
        raise InputError(
            f"cannot determine what separates the columns of {file}: no delimiter splits its first "
            "lines into two or more columns; expected commas, tabs, semicolons, bars or blanks"
        )
    return fitting[0]
