"""kernel_cache: what was made for a graph and is as large as it: kernels, tables, counts, sums.

One rule for all: what was made for a graph goes when the graph goes. A sampler keeps that of the
graph it sampled last, not one for each graph it ever saw; what all samplers of a class share is
kept for every graph that is there. Copies and pickles begin without, and so does a fork: a thread
that it does not have may hold a kernel's lock. Several threads may ask at once, for several graphs.
"""

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from foregather.graph.graph import Graph
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.integrity.check_topology import walkable

__all__ = ["GraphCache"]

Value = TypeVar("Value")
Of = TypeVar("Of", Graph, HeteroGraph)


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Value]):
    """One value, so that no thread ever sees one graph with what was made for another."""

    of: "weakref.ref[Any]"
    other: object
    process: int
    value: Value


class GraphCache(Generic[Value]):
    """Holds what was made for a graph, and what else it depends on.

    Args:
        shared: for every graph that is there, and not for the last one only.
    """

    __slots__ = ("_entries", "_shared")

    def __init__(self, shared: bool = False) -> None:
        self._shared = shared
        self._entries: dict[int, _Entry[Value]] = {}  # by id of what the entry is of

    def get(
        self,
        graph: Of,
        make: Callable[[Of], Value],
        other: object = None,
        alike: bool = False,
    ) -> Value:
        """What was made for a graph, or is made now.

        Args:
            graph: compared by identity.
            make: makes it, of the graph as it may be walked; must not hold the graph itself.
            other: what it depends on besides the graph, compared by value.
            alike: also accept the kernel of the same graph with other arrays in memory.

        Raises:
            FormatError: the topology is damaged.
            StorageError: it cannot be read.
        """
        of: Any = graph._token if alike and isinstance(graph, Graph) else graph
        key, kept, process = id(of), self._entries.get(id(of)), os.getpid()
        # An id may be taken again by another object, so the object itself is compared.
        same = kept is not None and kept.of() is of and kept.process == process
        if kept is not None and same and kept.other == other:
            return kept.value
        # A typed graph checks its relations when they are asked for.
        walked = walkable(graph) if isinstance(graph, Graph) else graph
        if not self._shared:
            self._entries.clear()  # free the previous tables first
        value, entries = make(walked), self._entries

        def forget(gone: "weakref.ref[Any]") -> None:
            kept = entries.get(key)
            if kept is not None and kept.of is gone:
                entries.pop(key, None)

        entries[key] = _Entry(weakref.ref(of, forget), other, process, value)
        if not self._shared:  # another thread may have asked for another graph
            for one in [one for one in list(entries) if one != key]:
                entries.pop(one, None)
        return value

    def clear(self) -> None:
        """Gives back what is held, and the arrays in it."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphCache, (self._shared,)
