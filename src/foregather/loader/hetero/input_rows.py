"""input_rows: which rows are asked about: nodes of one type, each at its time.

The same node may be asked about many times, with other times and labels; rows are never merged.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.hetero.columns import to_times
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import about, find_node_type
from foregather.graph.mapped import hold
from foregather.loader.hetero.rule import HeteroSampler

__all__ = ["Dealt", "RowTimes", "split_input"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Dealt:
    """The rows of one batch.

    Attributes:
        nodes: node ids.
        input_id: which of the input rows they are.
        time: what each tree may see, or None.
    """

    nodes: Ids
    input_id: Ids
    time: Ids | None


@dataclass(frozen=True, slots=True, eq=False)
class RowTimes:
    """The times of input rows.

    Attributes:
        given: one per input row, or None.
        own: times of the nodes themselves, where those limit trees and none were given.
    """

    given: Ids | None
    own: Ids | None

    @staticmethod
    def make(
        graph: HeteroGraph, node_type: str, count: int, rule: HeteroSampler, input_time: Any
    ) -> "RowTimes":
        """Reads `input_time`.

        Args:
            graph: the graph.
            node_type: of the input rows.
            count: how many there are.
            rule: says whether times are needed.
            input_time: one time per input row, or None.

        Raises:
            InputError: times that are missing, not needed, not whole numbers or of another length.
        """
        if input_time is not None:
            if rule.time is None:
                raise InputError(
                    "input_time was given, but nothing says whose times it limits; pass "
                    "time='node' or 'edge' as well"
                )
            return RowTimes(np.array(to_times(input_time, count, "input_time", "input row")), None)
        if rule.time is None:
            return RowTimes(None, None)
        own = graph.nodes[node_type].time
        if rule.time == "edge" or own is None:
            reason = "time is 'edge'" if rule.time == "edge" else f"{node_type!r} has no times"
            raise InputError(f"{reason}, so every input row needs a time; pass input_time")
        return RowTimes(None, hold(own))

    def at(self, position: Ids, nodes: Ids) -> Ids | None:
        """The times of rows at these positions, with these nodes."""
        if self.given is not None:
            return self.given[position]
        return None if self.own is None else self.own[nodes]

    @property
    def digest(self) -> str:
        """Identifies the times."""
        if self.given is None:
            return "none" if self.own is None else "of the nodes"
        return f"{_core.xxh64(np.ascontiguousarray(self.given).view(np.uint8)):016x}"


def split_input(graph: HeteroGraph, input_nodes: Any) -> tuple[str, Any]:
    """The node type of the input rows, and which of its nodes they are, not looked at yet.

    Raises:
        InputError: there is no such type, or several and none is named.
    """
    types = graph.node_types
    if isinstance(input_nodes, str):
        only = types[0] if len(types) == 1 and input_nodes not in types else None
        if only is not None and input_nodes in graph.nodes[only].splits:
            return only, input_nodes
        return find_node_type(input_nodes, types), None
    if (
        isinstance(input_nodes, tuple | list)
        and len(input_nodes) == 2
        and isinstance(input_nodes[0], str)
    ):
        with about("input_nodes"):
            return find_node_type(input_nodes[0], types), input_nodes[1]
    if len(types) == 1:
        return types[0], input_nodes
    what = "None" if input_nodes is None else f"a {type(input_nodes).__name__}"
    raise InputError(
        f"input_nodes is {what}, but the graph has {len(types)} node types; pass a type, or (type, "
        f"nodes): {', '.join(map(repr, types[:8]))}"
    )
