"""kept: the kernel of the graph sampled last; what all samplers with a kernel of their own share.

A kernel holds tables as large as the graph has nodes, so a sampler keeps one, not one for each
graph it ever saw. Copies and pickles of a sampler begin without, and so does a fork: a thread that
it does not have may hold the kernel's lock. Several threads may ask at once, for several graphs.
"""

import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from foregather.graph.graph import Graph
from foregather.graph.sound import check_topology

__all__ = ["Kept"]

Kernel = TypeVar("Kernel")


class Kept(Generic[Kernel]):
    """Holds one kernel and the graph it was made for."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        # one value, so that no thread ever sees the kernel of one graph beside another
        self._kept: tuple[Graph, Kernel, int] | None = None

    def get(self, graph: Graph, make: Callable[[], Kernel]) -> Kernel:
        """The kernel of a graph, made if the last call was for another one.

        Raises:
            FormatError: the topology is damaged.
        """
        kept, process = self._kept, os.getpid()
        if kept is not None and kept[0] is graph and kept[2] == process:
            return kept[1]
        check_topology(graph)
        self._kept = kept = None  # the tables of the one before go first
        kernel = make()
        self._kept = (graph, kernel, process)
        return kernel

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()
