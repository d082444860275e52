"""kernel_cache: what a sampler made for the graph sampled last: its kernel, or counts of it.

Such a thing is as large as the graph, so a sampler keeps one, not one for each graph it ever saw.
Copies and pickles of a sampler begin without, and so does a fork: a thread that it does not have
may hold the kernel's lock. Several threads may ask at once, for several graphs.
"""

import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from foregather.graph.graph import Graph
from foregather.graph.integrity.check_topology import walkable

__all__ = ["Kept"]

Kernel = TypeVar("Kernel")


class Kept(Generic[Kernel]):
    """Holds one kernel, the graph it was made for, and what else it depends on."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        # one value, so that no thread ever sees the kernel of one graph beside another
        self._kept: tuple[Graph, object, Kernel, int] | None = None

    def get(
        self,
        graph: Graph,
        make: Callable[[Graph], Kernel],
        other: object = None,
        alike: bool = False,
    ) -> Kernel:
        """The kernel of a graph, made if the last call was for another one.

        Args:
            graph: compared by identity: it is held, so no other can come to lie in its place.
            make: makes it, of the graph as it may be walked.
            other: what it depends on besides the graph, compared by value.
            alike: take that of the same graph with other arrays in memory too.

        Raises:
            FormatError: the topology is damaged.
            StorageError: it cannot be read.
        """
        kept, process = self._kept, os.getpid()
        same = kept is not None and kept[1] == other and kept[3] == process
        if kept is not None and same and (kept[0] is graph or (alike and _alike(kept[0], graph))):
            return kept[2]
        walked = walkable(graph)
        self._kept = kept = None  # the tables of the one before go first
        kernel = make(walked)
        self._kept = (graph, other, kernel, process)
        return kernel

    def clear(self) -> None:
        """Gives the kernel back, and the arrays it holds."""
        self._kept = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()


def _alike(one: Graph, other: Graph) -> bool:
    """Whether they are one graph with other arrays in memory."""
    return one._token is other._token
