"""placed: the ends of links and negatives as seeds, and where each of them is, batch by batch.

Sources and targets of the P links of a batch come first, then those of its negatives: number
q = j P + i is negative j of link i. Without disjoint trees every node is a seed once, in ascending
order; with them every end has a tree of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Drawn", "Placed", "place", "tree_keys"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The links of a batch with their negatives.

    Attributes:
        source: sources [P], then those of negatives.
        target: targets [P], then those of negatives.
        count: P.
    """

    source: Ids
    target: Ids
    count: int

    @property
    def source_link(self) -> Ids:
        """Which link of the batch each source belongs to."""
        return np.arange(self.source.size) % self.count

    @property
    def target_link(self) -> Ids:
        """Which link of the batch each target belongs to."""
        return np.arange(self.target.size) % self.count


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Seeds, and the positions of ends among them.

    Attributes:
        source_seeds: of the source type; of both if there is one type.
        target_seeds: of the target type; None if there is one type.
        source: position of each source among the seeds of its type.
        target: position of each target.
    """

    source_seeds: Ids
    target_seeds: Ids | None
    source: Ids
    target: Ids


def place(drawn: Sequence[Drawn], one_type: bool, disjoint: bool) -> list[Placed]:
    """Makes seeds of the ends of links and negatives of some batches.

    Args:
        drawn: the ends, by batch.
        one_type: sources and targets are nodes of one type.
        disjoint: every end has its own tree.
    """
    if not one_type:
        sources = _distinct([one.source for one in drawn], disjoint)
        targets = _distinct([one.target for one in drawn], disjoint)
        both = zip(sources, targets, strict=True)
        return [Placed(a, b, source, target) for (a, source), (b, target) in both]
    ends = _distinct([part for one in drawn for part in (one.source, one.target)], disjoint, 2)
    return [
        Placed(seeds, None, at[: one.source.size], at[one.source.size :])
        for one, (seeds, at) in zip(drawn, ends, strict=True)
    ]


def _distinct(parts: list[Ids], disjoint: bool, each: int = 1) -> list[tuple[Ids, Ids]]:
    """For each batch, of `each` parts, its distinct nodes and where its ends are among them."""
    sizes = np.array([part.size for part in parts], np.int64).reshape(-1, each).sum(1)
    flat = np.concatenate(parts)
    cuts = np.cumsum(sizes) - sizes
    if disjoint:
        return [
            (flat[a : a + n], np.arange(n))
            for a, n in zip(cuts.tolist(), sizes.tolist(), strict=True)
        ]
    # one sort for all batches: the numbers of a batch are above those of the one before
    nodes = int(flat.max(initial=0)) + 1
    above = np.arange(sizes.size) * nodes
    seeds, at = np.unique(flat + np.repeat(above, sizes), return_inverse=True)
    begin = np.searchsorted(seeds, np.append(above, sizes.size * nodes))
    seeds -= np.repeat(above, np.diff(begin))
    at = at - np.repeat(begin[:-1], sizes)
    first, ends = begin.tolist(), [*cuts.tolist(), flat.size]
    return [(seeds[first[i] : first[i + 1]], at[ends[i] : ends[i + 1]]) for i in range(sizes.size)]


def tree_keys(input_id: Ids, drawn: Drawn, negatives: int, both: bool) -> tuple[Ids, Ids]:
    """Numbers that key the trees of sources and of targets, different for all trees of an epoch.

    Args:
        input_id: of the links.
        drawn: the ends.
        negatives: the most that a link has.
        both: negatives have sources of their own.
    """
    step = 1 + both
    first = input_id * (2 + negatives * step)
    keys = []
    for side, ends in ((0, drawn.source), (1, drawn.target)):
        number = np.arange(ends.size)
        which = number // drawn.count  # 0: of the link itself; j + 1: of negative j
        later = 2 + (which - 1) * step + side * both
        keys.append(first[number % drawn.count] + np.where(which == 0, side, later))
    return keys[0], keys[1]
