"""cut: decides of every edge whether it stays, as a training link, or becomes valid or test.

The decision is a function of an edge alone: of its two nodes and the seed, or of its time. So it is
the same for both ways of a relation, for parallel edges, and for any size of pieces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.chunks import CscLike, row_of
from foregather.graph.links.borders import Keys, as_keys, keys_at, pair_keys
from foregather.graph.links.rule import EVERY, LinkSplit
from foregather.graph.mapped import fetch

__all__ = ["STEP", "Cut", "Piece", "decide", "pieces"]

Array = npt.NDArray[Any]
Int = npt.NDArray[np.int64]

STEP = 1 << 20  # edges at a time: about 60 MB with keys


class Piece(NamedTuple):
    """The edges [start, end)."""

    start: int
    end: int
    sources: Int
    targets: Int


def pieces(rows: CscLike, step: int = STEP) -> Iterator[Piece]:
    """All edges in the order in which they are stored."""
    for start in range(0, rows.num_edges, step):
        end = min(start + step, rows.num_edges)
        first = row_of(rows.indptr, start, "right") - 1
        last = row_of(rows.indptr, end, "left")
        bounds = np.clip(fetch(rows.indptr[first : last + 1]), start, end)
        targets = np.repeat(np.arange(first, last, dtype=np.int64), np.diff(bounds))
        yield Piece(start, end, fetch(rows.indices[start:end]).astype(np.int64), targets)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where valid and test begin, as keys.

    Attributes:
        valid: the first key that is not train.
        test: the first key that is test.
        seed: of the keys of pairs; None: times are the keys.
        undirected: an edge and its reverse are one link.
        unordered: the two nodes of a pair have no order; nor have they if it is undirected.
    """

    valid: int
    test: int
    seed: int | None
    undirected: bool = False
    unordered: bool = False

    def keys(self, piece: Piece, times: Array | None, turned: bool = False) -> Keys:
        """The key of each edge; those of a reverse relation are `turned`."""
        if self.seed is None:
            assert times is not None
            return as_keys(np.ascontiguousarray(fetch(times[piece.start : piece.end])))
        first, second = piece.sources, piece.targets
        if turned:
            first, second = second, first
        if self.undirected or self.unordered:
            first, second = np.minimum(first, second), np.maximum(first, second)
        return pair_keys(first, second, self.seed)

    def parts(
        self, piece: Piece, times: Array | None, turned: bool = False
    ) -> npt.NDArray[np.int64]:
        """0, 1 or 2 for each edge: train, valid, test."""
        borders = np.array([self.valid, self.test], np.uint64)
        return np.searchsorted(borders, self.keys(piece, times, turned), side="right")

    def once(self, piece: Piece) -> npt.NDArray[np.bool_]:
        """Which edges are links: of an undirected pair one."""
        if not self.undirected:
            return np.ones(len(piece.sources), np.bool_)
        return piece.sources <= piece.targets


def decide(
    parts: Sequence[tuple[CscLike, Array | None]], rule: LinkSplit, undirected: bool, step: int
) -> Cut:
    """Finds the borders of a division.

    Args:
        parts: the edges of each relation that is divided, and their times, or None.
        rule: how they are divided; times are whole numbers.
        undirected: every edge has its reverse, and both are one link.
        step: edges at a time.

    Raises:
        InputError: times are asked for and there are none, or a side would be empty.
    """
    if rule.in_time and any(times is None for _, times in parts):
        raise InputError(
            "links are to be divided by time, but the edges have no times; name their column, or "
            "divide by chance"
        )
    if rule.times is not None:
        first, second = (int(one) for one in rule.times)
        if first >= second:
            raise InputError(
                f"the division of links has the times {first} and {second}, expected times that "
                "ascend: the start of valid, then that of test"
            )
        return Cut(first + (1 << 63), second + (1 << 63), None)
    seed, every = None if rule.by_time else rule.seed, rule.relation == EVERY
    asked = Cut(0, 0, seed, undirected and not rule.by_time, every)

    def read() -> Iterator[Keys]:
        for rows, times in parts:
            for piece in pieces(rows, step):
                yield asked.keys(piece, times)[asked.once(piece)]

    count = sum(int(asked.once(piece).sum()) for rows, _ in parts for piece in pieces(rows, step))
    valid, test = keys_at(read, rule.starts(count))
    return replace(asked, valid=valid, test=test)
