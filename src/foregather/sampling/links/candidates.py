"""candidates: the nodes of one end of negatives, in the order in which they are drawn from.

Drawing is by *units*: whole numbers, one per node, or as many as its weight has in fixed point. A
unit is drawn uniformly among the first ones, and stands for the node it lies in. Nodes with
times are ordered by (time, node), so those no later than a moment are the first ones; the place of
a node in that order is its rank. Without times the rank is the node.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.hetero.columns import to_times

__all__ = ["Candidates"]

Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The nodes that may be one end of a negative.

    Attributes:
        count: number of nodes.
        upto: int64 [count + 1]: the units of all nodes of a lower rank; None where each has one.
        time: int64 [count], ascending: the time of each rank; None without times.
        order: int64 [count]: the node of each rank; None without times.
    """

    count: int
    upto: Int | None
    time: Int | None
    order: Int | None

    @staticmethod
    def of(count: int, weight: Any, time: Any, end: str) -> "Candidates":
        """Makes them from weights and times of nodes, either of which may be None.

        Raises:
            InputError: there are not as many as nodes.
        """
        if weight is not None and len(weight) != count:
            raise InputError(
                f"{end}_weight holds {len(weight)} numbers, but there are {count} {_WORD[end]} "
                "nodes; pass one per node"
            )
        order = times = None
        if time is not None:
            times = to_times(time, count, f"{end}_time", "node")
            order = np.argsort(times, kind="stable").astype(np.int64)
            times = times[order]
        units = None
        if weight is not None:
            fixed = _core.FixedPoint(float(weight.max(initial=0.0)), count)
            units = fixed.units(np.ascontiguousarray(weight, np.float64))
        return Candidates(count, None, times, order).weighed(units)

    def weighed(self, units: Int | None) -> "Candidates":
        """The same nodes with these units each, by node; None for one."""
        upto = None
        if units is not None:
            upto = np.zeros(self.count + 1, np.int64)
            np.cumsum(units if self.order is None else units[self.order], out=upto[1:])
        return Candidates(self.count, upto, self.time, self.order)

    def units_until(self, times: Int | None) -> Int:
        """The units of all nodes no later than each of these times; of all without times."""
        ranks = np.array([self.count])
        if self.time is not None and times is not None:
            ranks = np.searchsorted(self.time, times, side="right")
        return ranks if self.upto is None else self.upto[ranks]

    @property
    def units(self) -> Int:
        """The units of each node, by node."""
        if self.upto is None:
            return np.ones(self.count, np.int64)
        units = np.diff(self.upto)
        if self.order is None:
            return units
        by_node = np.empty_like(units)
        by_node[self.order] = units
        return by_node

    @property
    def rank(self) -> Int | None:
        """The rank of each node; None where it is the node."""
        if self.order is None:
            return None
        rank = np.empty_like(self.order)
        rank[self.order] = np.arange(self.count)
        return rank


_WORD = {"src": "source", "dst": "destination"}
