"""lists_ahead: has the lists of a batch's edges made with the batch, for a model that uses them.

An accelerated model sums over lists of edges, by target and, for gradients, by source. It makes
them for the first batches that it is called with, and asks here for those of later ones, which the
thread that makes batches then makes too. A loop begins with what the loop before it used, so lists
that nobody uses are made for one epoch at most. The loader knows nothing of models: what makes
lists is left here by them.

Under a budget lists take what is left of the share of batches; where that is too little, the model
makes them as before, one batch at a time.
"""

from typing import TYPE_CHECKING, Protocol

from foregather.loader.batches.hop_counts import HopCounts
from foregather.observe.trace import span
from foregather.units import format_bytes

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BY_SOURCE", "BY_TARGET", "ListsAhead", "list_bytes"]

#: What is asked for: lists by target, or those by source as well.
BY_TARGET, BY_SOURCE = 1, 2


class MakeLists(Protocol):
    """Makes the lists of a batch and leaves them in its counts."""

    def __call__(
        self, edge_index: "Tensor", counts: HopCounts, by_source: bool, threads: int
    ) -> None:
        """Called in the thread that makes batches."""


class ListsAhead:
    """What models ask for of the batches of one loader; its recipe has one.

    Attributes:
        largest: bytes of the largest lists made so far.
        too_large: bytes of the largest lists that had no room.
    """

    __slots__ = ("_make", "_used", "_wanted", "largest", "too_large")

    def __init__(self) -> None:
        self.largest = self.too_large = 0
        self._make: MakeLists | None = None
        self._wanted = self._used = 0

    def ask(self, make: MakeLists, lists: int) -> None:
        """A model uses such lists: BY_TARGET or BY_SOURCE."""
        if lists > self._used:
            self._make, self._used = make, lists
            self._wanted = max(self._wanted, lists)

    def begin(self) -> None:
        """A loop begins, with what the one before used or was told to."""
        self._wanted, self._used = self._used, 0

    def prepare(
        self, edge_index: "Tensor", counts: HopCounts, threads: int, room: int | None
    ) -> None:
        """Makes what was asked for.

        Args:
            edge_index: the edges of a batch.
            counts: those that are kept for it.
            threads: to use.
            room: bytes that the lists may take; None if nobody counts.
        """
        wanted, make = self._wanted, self._make
        if not wanted or make is None:
            return
        by_source = wanted == BY_SOURCE
        nbytes = list_bytes(sum(counts.nodes), sum(counts.edges), by_source)
        if room is not None and nbytes > room:
            self.too_large = max(self.too_large, nbytes)
            return
        with span("assemble"):
            make(edge_index, counts, by_source, threads)
        self.largest = max(self.largest, nbytes)

    def explain(self) -> str:
        """One line for people; empty if nothing was asked for."""
        parts = []
        if self.largest:
            parts.append(f"made with batches, up to {format_bytes(self.largest)} each")
        if self.too_large:
            parts.append(
                f"made by the model where they take up to {format_bytes(self.too_large)} and "
                "memory has no room beside batches"
            )
        return f"lists of edges: {'; '.join(parts)}" if parts else ""


def list_bytes(nodes: int, edges: int, by_source: bool) -> int:
    """Bytes of the lists of a batch: where each begins, and a node, or a node and an edge, each."""
    index = 8 if max(nodes, edges) >= 2**31 else 4
    return (1 + by_source) * 8 * (nodes + 1) + (1 + 2 * by_source) * index * edges
