"""placed: the ends of a batch's links and negatives as seeds, and where each of them is.

Sources and targets of the P links come first, then those of the negatives: number q = j P + i is
negative j of link i. Without disjoint trees every node is a seed once, in ascending order; with
them every end has a tree of its own.
"""

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


def place(drawn: Drawn, one_type: bool, disjoint: bool) -> Placed:
    """Makes seeds of the ends of links and negatives.

    Args:
        drawn: the ends.
        one_type: sources and targets are nodes of one type.
        disjoint: every end has its own tree.
    """
    source, target = drawn.source, drawn.target
    if one_type:
        both = np.concatenate((source, target))
        at = np.arange(both.size)
        if not disjoint:
            both, at = np.unique(both, return_inverse=True)
        return Placed(both, None, at[: source.size], at[source.size :])
    if disjoint:
        return Placed(source, target, np.arange(source.size), np.arange(target.size))
    sources, source_at = np.unique(source, return_inverse=True)
    targets, target_at = np.unique(target, return_inverse=True)
    return Placed(sources, targets, source_at, target_at)


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
