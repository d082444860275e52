"""matrix_market: parses the header of a MatrixMarket file.

An entry in row i and column j is an edge from i to j; both count from 1. A symmetric matrix holds
each edge once. Anything that is not the matrix of one graph is refused.
"""

from collections.abc import Sequence
from typing import NamedTuple

from foregather.errors import FormatError

__all__ = ["Matrix", "read_matrix"]

_BANNER = "%%matrixmarket"
_SUFFIXES = (".mtx", ".mtx.gz")


class Matrix(NamedTuple):
    """The size of a MatrixMarket file.

    Attributes:
        nodes: rows, and columns.
        entries: lines that hold an edge.
        symmetric: an entry stands for both directions.
        columns: numbers on such a line: 2, or 3 with a value.
        line: number of the size line; entries begin after it.
    """

    nodes: int
    entries: int
    symmetric: bool
    columns: int
    line: int


def read_matrix(
    file: str, comments: Sequence[str], rows: Sequence[tuple[int, bytes]]
) -> Matrix | None:
    """Returns the matrix declared by the banner and the size line; None for other files.

    Raises:
        FormatError: it is not a square matrix of coordinates, or not real.
    """
    banner = comments[0].lower().split() if comments else []
    if not banner or banner[0] != _BANNER:
        if file.lower().endswith(_SUFFIXES):
            raise FormatError(
                f"{file} has no line %%MatrixMarket, expected as the first line; name the file "
                ".txt if it is an edge list"
            )
        return None
    if len(banner) != 5 or banner[1] != "matrix":
        raise FormatError(
            f"{file} says {comments[0][:80]!r}, expected matrix, coordinate, a field and a symmetry"
        )
    for word, known in zip(
        banner[2:],
        (("coordinate",), ("pattern", "real", "integer", "double"), ("general", "symmetric")),
        strict=True,
    ):
        if word not in known:
            raise FormatError(
                f"{file} is a MatrixMarket file that is {word}, expected {' or '.join(known)}; "
                "convert the matrix, or provide the edges as an edge list"
            )
    number, line = rows[0]
    size = line.split()
    if len(size) != 3 or not all(part.isdigit() for part in size):
        raise FormatError(
            f"{file} line {number} has {line.decode('utf-8', 'replace')[:80]!r}, expected the "
            "numbers of rows, columns and entries"
        )
    height, width, entries = (int(part) for part in size)
    if height != width:
        raise FormatError(
            f"{file} has {height} rows and {width} columns, expected a square matrix: a graph has "
            "one set of nodes"
        )
    return Matrix(height, entries, banner[4] == "symmetric", 2 + (banner[3] != "pattern"), number)
