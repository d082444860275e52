"""rule: how the edges of a relation are divided into train, valid and test links."""

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from foregather.errors import InputError

__all__ = ["EVERY", "NAMES", "LinkSplit", "Which", "check_sides"]

#: The edge type of links; "*" for all relations of a graph; None where there is one.
Which: TypeAlias = tuple[str, str, str] | Literal["*"] | None

#: All relations together.
EVERY: Literal["*"] = "*"

#: The lists of links that a division makes, in the order of its parts.
NAMES = ("train", "valid", "test")
_SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class LinkSplit:
    """How edges become links: training links stay edges, the others are taken out of the graph.

    Attributes:
        fractions: shares of train, valid and test, such as (0.8, 0.1, 0.1), which add up to 1.
        times: valid starts at the first time, test at the second: whole numbers, or dates where
            the times of the graph are dates.
        by_time: `fractions` are taken in the order of time, not by chance: the first are train.
            Edges of the same time stay together.
        seed: of a division by chance, which depends on it and on the two nodes of each edge alone:
            parallel edges stay together, whatever their order.
        relation: the edge type to divide; None where there is one. Its reverse, (target, rev_NAME,
            source), is divided with it. "*" divides all relations as one list of facts: two nodes
            are in the same part in every relation that joins them, in either direction.
        undirected: an edge and its reverse stay together, and are one link; None: where every edge
            has its reverse. Not for a division by time, where each edge has its own.
    """

    fractions: tuple[float, ...] | None = None
    times: tuple[Any, ...] | None = None
    by_time: bool = False
    seed: int = 0
    relation: Which = None
    undirected: bool | None = None

    def __post_init__(self) -> None:
        if (self.fractions is None) == (self.times is None):
            raise InputError(
                "links are divided by fractions or by times; give one of them, not both and not "
                "neither"
            )
        if self.times is not None and len(self.times) != 2:
            raise InputError(
                f"the division of links has {len(self.times)} times, expected two: the start of "
                "valid and the start of test"
            )
        if self.in_time and self.undirected:
            raise InputError(
                "undirected is for a division by chance; by time every edge goes by its own time, "
                "so leave it out"
            )
        if self.relation == EVERY and self.undirected:
            raise InputError(
                "undirected is for the division of one relation, but '*' divides all of them; "
                "leave one of them out"
            )
        if type(self.seed) is not int or not 0 <= self.seed < 1 << 64:
            raise InputError(f"the seed is {self.seed!r:.40}, expected 0 to 2^64 - 1")
        if self.in_time and self.seed:
            raise InputError("a seed has no effect on a division by time; leave it out")
        if self.fractions is not None:
            self._check_fractions(self.fractions)

    def _check_fractions(self, fractions: tuple[float, ...]) -> None:
        if len(fractions) != 3:
            raise InputError(
                f"the division of links has {len(fractions)} fractions, expected three: train, "
                "valid, test"
            )
        for share in fractions:
            if not (isinstance(share, (int, float)) and 0 < share < 1):  # refuses NaN as well
                raise InputError(
                    f"the division of links has the fraction {share}, expected numbers between 0 "
                    "and 1"
                )
        total = math.fsum(fractions)
        if abs(total - 1) > _SLACK:
            raise InputError(
                f"the fractions of links add up to {total:g}, expected 1: every edge is a link of "
                "one of them"
            )

    @property
    def in_time(self) -> bool:
        """Whether times decide."""
        return self.times is not None or self.by_time

    def starts(self, count: int) -> tuple[int, int]:
        """Where valid and test begin among `count` edges in order.

        Raises:
            InputError: a side would be empty.
        """
        assert self.fractions is not None
        first = math.floor(count * self.fractions[0] + _SLACK)
        second = math.floor(count * (self.fractions[0] + self.fractions[1]) + _SLACK)
        check_sides((first, second - first, count - second))
        return first, second

    def facts(self) -> dict[str, Any]:
        """What meta.json says of the division."""
        said: dict[str, Any] = {}
        if self.fractions is not None:
            said["fractions"] = list(self.fractions)
            said |= {"by": "time"} if self.by_time else {"by": "chance", "seed": self.seed}
        if self.times is not None:
            said |= {"by": "time", "times": [str(one) for one in self.times]}
        if self.relation is not None:
            said["relation"] = EVERY if self.relation == EVERY else list(self.relation)
        return said


def check_sides(sizes: tuple[int, ...]) -> None:
    """Refuses a division that leaves a side empty.

    Raises:
        InputError: names the side.
    """
    for name, size in zip(NAMES, sizes, strict=True):
        if size == 0:
            raise InputError(
                f"the division of {sum(sizes)} edges into links leaves {name} empty; choose other "
                "fractions or times"
            )
