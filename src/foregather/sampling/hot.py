"""hot: which rows of a topology on disk are worth holding in memory, from degrees.

A visit to a row picks min(fan-out, degree) of its list, and what it costs are the blocks those lie
in: one for a short list, however many are picked. So rows are ranked by visits x blocks of a visit
/ degree. A row is visited because another row's list names it: how many do is counted in one pass
over the file. Which rows are held changes what is
read, never what is sampled.

Memory: 2 bytes per node for the counts and 16 per row that is held, both within the share of the
rows that will be held; nothing is sorted.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.graph import Graph
from foregather.graph.mapped import fetch

__all__ = ["best_rows", "count_named", "scores"]

Array = npt.NDArray[Any]

_STEP = 1 << 18  # nodes, or edges, looked at together
_BINS = 4096
_FINE = 64  # bins for a factor of two
_ROW = 16  # bytes of a held row besides its list


def count_named(graph: Graph) -> Array:
    """How many lists name each node, up to 65,535; one pass over the file."""
    found = np.zeros(graph.num_nodes, np.uint16)
    for start in range(0, graph.num_edges, _STEP):
        ids, counts = np.unique(fetch(graph.indices[start : start + _STEP]), return_counts=True)
        if len(ids) and int(ids[-1]) >= len(found):  # a damaged file: sampling says where
            ids, counts = ids[ids < len(found)], counts[: int((ids < len(found)).sum())]
        now = found[ids].astype(np.int64) + counts
        found[ids] = np.minimum(now, np.iinfo(np.uint16).max)
    return found


def scores(named: Array, degree: Array, fanout: int, per_block: int) -> Array:
    """What a place in memory is worth with a row's list: the blocks that its visits would read.

    Args:
        named: how many lists name the row.
        degree: length of its list.
        fanout: picks of a visit; -1 for all.
        per_block: ids of a block.
    """
    size = np.maximum(degree.astype(np.float64), 1)
    picked = size if fanout < 0 else np.minimum(size, fanout)
    return named * np.minimum(picked, 1 + size / per_block) / size


def best_rows(graph: Graph, named: Array, fanout: int, memory: int, block: int = 4096) -> Array:
    """The rows whose lists are worth the most, as many as `memory` bytes hold.

    Worth is compared in steps of about one percent; of equal rows the first ones are taken.
    """
    width = graph.indices.dtype.itemsize
    per_block = max(1, block // width)
    held = np.zeros(_BINS, np.int64)
    for _, degree, bins in _pieces(graph, named, fanout, per_block):
        held += np.bincount(bins, degree * width + _ROW, _BINS).astype(np.int64)
    above = np.cumsum(held[::-1])[::-1]  # bytes of the rows of this bin and of better ones
    above[0] = np.iinfo(np.int64).max  # never named: not worth a place
    whole = int(np.argmax(above <= memory)) if (above <= memory).any() else _BINS
    rows, rest, left = [], [], memory - (int(above[whole]) if whole < _BINS else 0)
    for first, degree, bins in _pieces(graph, named, fanout, per_block):
        rows.append(first + np.flatnonzero(bins >= whole))
        if whole > 1 and left > 0:
            some = np.flatnonzero(bins == whole - 1)
            sums = np.cumsum(degree[some] * width + _ROW)
            some = some[sums <= left]
            left -= int(sums[len(some) - 1]) if len(some) else 0
            rest.append(first + some)
    return np.concatenate([np.empty(0, np.int64), *rows, *rest])


def _pieces(
    graph: Graph, named: Array, fanout: int, per_block: int
) -> Iterator[tuple[int, Array, Array]]:
    """First node, degrees and bins of worth, piece after piece; bin 0: not worth a place."""
    for first in range(0, graph.num_nodes, _STEP):
        ends = np.asarray(fetch(graph.indptr[first : first + _STEP + 1])).astype(np.int64)
        degree = np.diff(ends)
        worth = scores(named[first : first + _STEP], degree, fanout, per_block)
        with np.errstate(divide="ignore"):
            steps = np.log2(worth) * _FINE + _BINS // 2
        bins = np.clip(np.where(worth > 0, steps, 0), 0, _BINS - 1).astype(np.int64)
        yield first, degree, np.where((worth > 0) & (degree > 0), np.maximum(bins, 1), 0)
