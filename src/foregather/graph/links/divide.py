"""divide: takes held-out edges out of rows and hands them over as links, piece by piece.

Nothing is held but a piece, so a graph of any size is divided within a few buffers; where the
results go (memory or a folder) is the caller's business.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.arrays import id_dtype
from foregather.graph.chunks import CscLike, edge_pieces, row_of
from foregather.graph.links.cut import Cut, Piece, pieces
from foregather.graph.links.rule import NAMES
from foregather.graph.mapped import fetch

__all__ = [
    "Collected",
    "Put",
    "count_links",
    "divide_rows",
    "is_symmetric",
    "link_columns",
    "renumber",
]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]
#: Takes the next rows of an array.
Put = Callable[[str, Array], None]


@dataclass
class Collected:
    """Rows of arrays, in memory."""

    parts: dict[str, list[Array]] = field(default_factory=dict)

    def put(self, name: str, rows: Array) -> None:
        """Takes the next rows of an array."""
        self.parts.setdefault(name, []).append(rows)

    def arrays(self) -> dict[str, Array]:
        """The arrays, whole."""
        return {name: np.concatenate(rows) for name, rows in self.parts.items()}


def is_symmetric(rows: CscLike) -> bool:
    """Whether every edge has its reverse, by fingerprints: wrong with a probability of 2^-64."""
    skew = 0
    for piece in edge_pieces(rows):
        found = _core.count_edges(
            piece.indptr,
            piece.first_row,
            piece.indices,
            piece.start,
            piece.skip,
            np.empty(0, np.int64),
        )
        skew += found[-1]
    return skew % (1 << 64) == 0


def divide_rows(
    rows: CscLike,
    columns: Mapping[str, Array],
    cut: Cut,
    times: Array | None,
    put: Put,
    step: int,
    *,
    turned: bool = False,
) -> int:
    """Puts the edges that stay: indptr, indices and the columns; returns how many they are.

    Args:
        rows: the edges.
        columns: arrays of one row per edge, by the names that they are put under.
        cut: which edges stay.
        times: of each edge, where the cut goes by time.
        put: takes the arrays, in order.
        step: edges at a time.
        turned: the rows are the way back of the relation that is divided.
    """
    base = done = 0
    for piece in pieces(rows, step):
        kept = cut.parts(piece, times, turned) == 0
        before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        upto = row_of(rows.indptr, piece.end, "right")
        while done < upto:  # borders of rows up to here; of empty rows there may be many
            borders = fetch(rows.indptr[done : min(upto, done + step)])
            put("indptr", base + before[borders - piece.start])
            done += len(borders)
        put("indices", piece.sources[kept].astype(rows.indices.dtype))
        for name, values in columns.items():
            put(name, fetch(values[piece.start : piece.end])[kept])
        base += int(before[-1])
    return base


def link_columns(
    rows: CscLike,
    columns: Mapping[str, Array],
    cut: Cut,
    times: Array | None,
    num_targets: int,
    num_sources: int,
    put: Put,
    step: int,
) -> tuple[int, int, int]:
    """Puts all edges as links, under `train/sources`, `train/targets`, ... and the columns.

    Args:
        rows: the edges.
        columns: arrays of one row per edge that links keep, by the names they have there.
        cut: which edges are links of which name.
        times: of each edge, where the cut goes by time.
        num_targets: nodes that a target may be.
        num_sources: nodes that a source may be.
        put: takes the arrays, in order.
        step: edges at a time.

    Returns:
        The number of links of each name.
    """
    kinds = {"sources": id_dtype(num_sources), "targets": id_dtype(num_targets)}
    sizes = [0, 0, 0]
    for piece in pieces(rows, step):
        part, once = cut.parts(piece, times), cut.once(piece)
        for number, name in enumerate(NAMES):
            mine = once & (part == number)
            sizes[number] += int(mine.sum())
            _put_links(name, piece, mine, kinds, columns, put)
    return sizes[0], sizes[1], sizes[2]


def count_links(rows: CscLike, cut: Cut, times: Array | None, step: int) -> tuple[int, int, int]:
    """The number of links of each name that `link_columns` makes."""
    sizes = np.zeros(len(NAMES), np.int64)
    for piece in pieces(rows, step):
        parts = cut.parts(piece, times)[cut.once(piece)]
        sizes += np.bincount(parts, minlength=len(NAMES))
    first, second, third = sizes.tolist()
    return first, second, third


def _put_links(
    name: str,
    piece: Piece,
    mine: npt.NDArray[np.bool_],
    kinds: Mapping[str, np.dtype[Any]],
    columns: Mapping[str, Array],
    put: Put,
) -> None:
    for end, dtype in kinds.items():
        put(f"{name}/{end}", getattr(piece, end)[mine].astype(dtype))
    for key, values in columns.items():
        put(f"{name}/{key}", fetch(values[piece.start : piece.end])[mine])


def renumber(ids: Int, count: int) -> Int:
    """Positions of edges among those that stay, in the same order; 9 bytes per edge are used.

    Args:
        ids: positions among all edges, each at most once.
        count: number of all edges.
    """
    there = np.zeros(count, np.bool_)
    there[ids] = True
    place = np.cumsum(there)
    return np.asarray(place[ids] - 1, np.int64)
