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
    sources, targets, trees = zip(*map(_both_ways, rows), strict=True)
    return Excluded.pairs(targets, sources, None if trees[0] is None else trees)


def _both_ways(asked: Asked) -> tuple[Ids, Ids, Ids | None]:
    """Sources and targets of the links and of their reverses, and the trees they are for."""
    count = asked.num_links
    src, dst = asked.drawn.source[:count], asked.drawn.target[:count]
    if asked.keys is None:
        return np.concatenate((src, dst)), np.concatenate((dst, src)), None
    link = asked.link_of_tree()
    tree = np.arange(link.size)
    src, dst = src[link], dst[link]
    both = (np.concatenate(ends) for ends in ((src, dst), (dst, src), (tree, tree)))
    sources, targets, trees = both
    return sources, targets, trees
