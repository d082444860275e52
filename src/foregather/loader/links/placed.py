"""placed: the ends of a batch's links and negatives as seeds, and where each of them is.

*Heads* are sources, *tails* targets: those of the links first, then those of the negatives, number
q = j P + i being negative j of link i of the P links. Without disjoint trees every node is a seed
once, in ascending order; with them every end has a tree of its own.
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
        head: sources [P], then those of negatives.
        tail: targets [P], then those of negatives.
        count: P.
    """

    head: Ids
    tail: Ids
    count: int

    @property
    def head_link(self) -> Ids:
        """Which link of the batch each head belongs to."""
        return np.arange(self.head.size) % self.count

    @property
    def tail_link(self) -> Ids:
        """Which link of the batch each tail belongs to."""
        return np.arange(self.tail.size) % self.count


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Seeds, and the positions of ends among them.

    Attributes:
        head_seeds: of the source type; of both if there is one type.
        tail_seeds: of the target type; None if there is one type.
        head: position of each head among the seeds of its type.
        tail: position of each tail.
    """

    head_seeds: Ids
    tail_seeds: Ids | None
    head: Ids
    tail: Ids


def place(drawn: Drawn, one_type: bool, disjoint: bool) -> Placed:
    """Makes seeds of the ends of links and negatives.

    Args:
        drawn: the ends.
        one_type: sources and targets are nodes of one type.
        disjoint: every end has its own tree.
    """
    heads = drawn.head.size
    if one_type:
        both = np.concatenate((drawn.head, drawn.tail))
        if disjoint:
            at = np.arange(both.size)
        else:
            both, at = np.unique(both, return_inverse=True)
        return Placed(both, None, at[:heads], at[heads:])
    if disjoint:
        return Placed(drawn.head, drawn.tail, np.arange(heads), np.arange(drawn.tail.size))
    head_seeds, head = np.unique(drawn.head, return_inverse=True)
    tail_seeds, tail = np.unique(drawn.tail, return_inverse=True)
    return Placed(head_seeds, tail_seeds, head, tail)


def tree_keys(input_id: Ids, drawn: Drawn, negatives: int, both: bool) -> tuple[Ids, Ids]:
    """Numbers that key the trees of heads and of tails, different for all trees of an epoch.

    Args:
        input_id: of the links.
        drawn: the ends.
        negatives: the most that a link has.
        both: negatives have heads of their own.
    """
    step = 1 + both
    first = input_id * (2 + negatives * step)
    keys = []
    for side, ends in ((0, drawn.head), (1, drawn.tail)):
        number = np.arange(ends.size)
        which = number // drawn.count  # 0: of the link itself; j + 1: of negative j
        later = 2 + (which - 1) * step + side * both
        keys.append(first[number % drawn.count] + np.where(which == 0, side, later))
    return keys[0], keys[1]
