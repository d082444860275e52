"""left_out: the edges that a bulk of link batches leaves out of what is sampled."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.loader.links.asked import Asked, LinkRows
from foregather.sampling.links.excluded import Excluded

__all__ = ["left_out"]

Ids = npt.NDArray[np.int64]


def left_out(dealt: Sequence[Any]) -> Excluded | None:
    """The links of batches and their reverses, as `sample_bulk` of a plain graph takes them.

    None for input nodes, and where nothing is left out. Edges of a plain graph have no times, so
    all that join the two ends of a link say the same, and all are left out.
    """
    rows = [one.asked for one in dealt if isinstance(one, LinkRows)]
    if not rows or rows[0].leaves_out is None:
        return None
    if rows[0].keys is None:
        return _of_batches(rows)
    sources, targets, trees = zip(*map(_of_trees, rows), strict=True)
    return Excluded.pairs(targets, sources, trees)


def _of_batches(rows: Sequence[Asked]) -> Excluded:
    """Links of batches in both directions: sources and targets, then targets and sources."""
    ends = [(one.drawn.source[: one.num_links], one.drawn.target[: one.num_links]) for one in rows]
    ptr = np.cumsum([0, *(2 * one.num_links for one in rows)], dtype=np.int64)
    source = np.concatenate([part for src, dst in ends for part in (src, dst)])
    target = np.concatenate([part for src, dst in ends for part in (dst, src)])
    return Excluded(ptr, target, source)


def _of_trees(asked: Asked) -> tuple[Ids, Ids, Ids]:
    """Sources and targets of the link of each tree and of its reverse, and the trees."""
    link = asked.link_of_tree()
    tree = np.arange(link.size)
    src, dst = asked.drawn.source[link], asked.drawn.target[link]  # links come first
    both = (np.concatenate(ends) for ends in ((src, dst), (dst, src), (tree, tree)))
    sources, targets, trees = both
    return sources, targets, trees
