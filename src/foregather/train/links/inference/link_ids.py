"""link_ids: from the ids of a source to nodes and back, for the two ends of links."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.hetero.names import show_edge_type
from foregather.graph.hetero.node_table import NodeTable
from foregather.graph.hetero.text_ids import TextIds
from foregather.graph.mapped import hold
from foregather.train.links.link_data import LinkData

__all__ = ["EndIds", "end_ids", "find_relation"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EndIds:
    """The ids of the nodes of one type.

    Attributes:
        name: of the type, for messages.
        count: nodes.
        ids: of the source; None: the nodes' own numbers.
    """

    name: str
    count: int
    ids: Any

    def find(self, given: Sequence[str]) -> Ids:
        """The nodes with these ids, written as text.

        Raises:
            InputError: there is no such node; the message has the first.
        """
        if isinstance(self.ids, TextIds):
            number = {text: node for node, text in enumerate(self.ids)}
            found = [number.get(text, -1) for text in given]
        else:
            known = None if self.ids is None else np.asarray(hold(self.ids))
            order = None if known is None else np.argsort(known, kind="stable")
            found = [self._number(text, known, order) for text in given]
        nodes = np.array(found, np.int64)
        if nodes.size and int(nodes.min()) < 0:
            at = int(np.argmin(nodes))
            raise InputError(
                f"pairs name {given[at]!r} in row {at + 1}, which is no {self.name} of the graph"
            )
        return nodes

    def _number(self, text: str, known: Any, order: Any) -> int:
        try:
            value = int(text)
        except ValueError:
            return -1
        if known is None:
            return value if 0 <= value < self.count else -1
        at = int(np.searchsorted(known, value, sorter=order))
        if at < len(known) and int(known[order[at]]) == value:
            return int(order[at])
        return -1

    def of(self, nodes: Ids) -> list[Any]:
        """The ids of nodes."""
        if self.ids is None:
            return [int(node) for node in nodes]
        if isinstance(self.ids, TextIds):
            return [self.ids[int(node)] for node in nodes]
        found: list[Any] = np.asarray(hold(self.ids))[nodes].tolist()
        return found


class _PlainIds(EndIds):
    """The ids of a plain graph, which finds them by itself."""

    def find(self, given: Sequence[str]) -> Ids:
        graph, kind = self.ids
        if kind == "same":
            return EndIds(self.name, self.count, None).find(given)
        try:
            wanted = list(given) if kind == "text" else [int(text) for text in given]
            found: Ids = graph.nodes_of(wanted)
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"pairs hold {error}, expected whole numbers, the ids of nodes") from (
                error
            )
        return found

    def of(self, nodes: Ids) -> list[Any]:
        graph, kind = self.ids
        if kind == "same":
            return [int(node) for node in nodes]
        return list(graph.original_ids(nodes))


def end_ids(data: LinkData) -> tuple[EndIds, EndIds]:
    """The ids of sources and of targets."""
    if isinstance(data.graph, Graph):
        from foregather.graph.original_ids import id_kind

        one = _PlainIds("node", data.graph.num_nodes, (data.graph, id_kind(data.graph)))
        return one, one
    assert data.edge_type is not None
    ends = []
    for name in (data.edge_type[0], data.edge_type[2]):
        table: NodeTable = data.graph.nodes[name]
        ends.append(EndIds(f"node of type {name!r}", table.num_nodes, table.ids))
    return ends[0], ends[1]


def find_relation(data: LinkData, given: Sequence[str]) -> Ids:
    """The numbers of relations, by their names.

    Raises:
        InputError: there is no such relation.
    """
    number: dict[str, int] = {}
    for place, name in enumerate(data.relations):
        number |= {name[1]: place, ", ".join(name): place, show_edge_type(name): place}
    found = [number.get(text.strip(), -1) for text in given]
    if -1 in found:
        raise InputError(
            f"pairs name the relation {given[found.index(-1)]!r}, which the run does not know; it "
            f"knows {', '.join(name[1] for name in data.relations[:8])}"
        )
    return np.array(found, np.int64)
