"""kept: what a sampler made for the graph sampled last: its kernel, or counts of it.

Such a thing is as large as the graph, so a sampler keeps one, not one for each graph it ever saw.
Copies and pickles of a sampler begin without, and so does a fork: a thread that it does not have
may hold the kernel's lock. Several threads may ask at once, for several graphs.
"""

import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from foregather.graph.graph import Graph
from foregather.graph.sound import check_topology

__all__ = ["Kept"]

Kernel = TypeVar("Kernel")


class Kept(Generic[Kernel]):
    """Holds one kernel, the graph it was made for, and what else it depends on."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        # one value, so that no thread ever sees the kernel of one graph beside another
        self._kept: tuple[Graph, object, Kernel, int] | None = None

    def get(self, graph: Graph, make: Callable[[], Kernel], other: object = None) -> Kernel:
        """The kernel of a graph, made if the last call was for another one.

        Args:
            graph: compared by identity: it is held, so no other can come to lie in its place.
            make: makes it.
            other: what it depends on besides the graph, compared by value.

        Raises:
            FormatError: the topology is damaged.
        """
        kept, process = self._kept, os.getpid()
        if kept is not None and kept[0] is graph and kept[1] == other and kept[3] == process:
            return kept[2]
        check_topology(graph)
        self._kept = kept = None  # the tables of the one before go first
        kernel = make()
        self._kept = (graph, other, kernel, process)
        return kernel

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()
