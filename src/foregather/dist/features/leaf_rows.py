"""leaf_rows: adds up the rows of leaves as they arrive, or repeats rows for disjoint trees.

The rows of a minibatch are fetched into one matrix that the loop owns, and added up in the thread
of the exchange, in the order of edges: the same bits as on one rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foregather.loader.batches.assemble import Assembler
from foregather.loader.batches.leaf_sums import Scratch, Summed
from foregather.loader.batches.tree_rows import distinct_nodes
from foregather.sampling.bulk import Bulk, Sample

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LeafRows", "TreeRows"]


@dataclass(frozen=True, slots=True, eq=False)
class LeafRows:
    """Adds up the rows of one bulk.

    Attributes:
        assembler: what batches hold.
        bulk: the minibatches.
        later: those of the next bulk, as far as known.
        scratch: where rows are put.
    """

    assembler: Assembler
    bulk: Bulk
    later: Sequence[Sample]
    scratch: Scratch

    def wanted(self) -> tuple[Sequence[Sample], Sequence[Sample]]:
        """All nodes of the minibatches."""
        return self.bulk.samples, self.later

    def begin(self, plan: Any) -> None:
        """Nothing else crosses."""

    def space(self, number: int) -> "Tensor | None":
        """Memory for the rows of a minibatch: that of the one before."""
        return self.scratch.rows(len(self.bulk[number].node))

    def reduced(self, number: int, rows: "Tensor") -> Summed:
        """Rows of targets, and sums."""
        return self.assembler.summed(self.bulk[number], rows)


class TreeRows(LeafRows):
    """Fetches each row of a minibatch of trees once, and repeats it for the trees that have it."""

    __slots__ = ()

    def wanted(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """The distinct nodes of the minibatches."""
        return [*map(distinct_nodes, self.bulk)], [*map(distinct_nodes, self.later)]

    def space(self, number: int) -> "Tensor | None":
        """Memory for the rows of a minibatch."""
        return self.scratch.rows(len(distinct_nodes(self.bulk[number])))

    def reduced(self, number: int, rows: "Tensor") -> Any:
        """Rows of all nodes."""
        return self.assembler.repeated(self.bulk[number], rows)
