"""kept: the kernel of the graph sampled last; what all samplers with a kernel of their own share.

A kernel holds tables as large as the graph has nodes, so a sampler keeps one, not one for each
graph it ever saw. Copies and pickles of a sampler begin without.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from foregather.graph.graph import Graph
from foregather.graph.sound import check_topology

__all__ = ["Kept"]

Kernel = TypeVar("Kernel")


class Kept(Generic[Kernel]):
    """Holds one kernel and the graph it was made for."""

    __slots__ = ("_graph", "_kernel")

    def __init__(self) -> None:
        self._graph: Graph | None = None
        self._kernel: Kernel | None = None

    def get(self, graph: Graph, make: Callable[[], Kernel]) -> Kernel:
        """The kernel of a graph, made if the last call was for another one.

        Raises:
            FormatError: the topology is damaged.
        """
        if self._kernel is None or self._graph is not graph:
            check_topology(graph)
            self._graph, self._kernel = None, None  # the tables of the one before go first
            self._kernel = make()
            self._graph = graph
        return self._kernel

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()
