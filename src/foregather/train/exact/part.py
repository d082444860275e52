"""part: the input of one call of a step in exact inference: some targets with their in-neighbours.

A part holds whole rows of the topology; where one row is too large for that, it holds a piece of
it, and the pieces of a row follow each other in the order of its edges.
"""

from dataclasses import dataclass

from torch import Tensor

__all__ = ["Part", "Piece"]


@dataclass(frozen=True)
class Piece:
    """Which piece of a row it is.

    Attributes:
        last: no other piece of this row follows.
        loop: the weight of the last self-loop seen so far in the row, 1 if there was none.
    """

    last: bool
    loop: float = 1.0


@dataclass(frozen=True, eq=False)
class Part:
    """Targets, their sources and the edges between them.

    Attributes:
        x: rows of the nodes, the targets first.
        batch_size: how many are targets.
        edge_index: sources and targets, as positions in `x`.
        n_id: which nodes they are.
        edge_weight: of the whole graph, or None.
        edge_attr: edge feature rows, or None.
        piece: set if the part is a piece of the row of its only target.
    """

    x: Tensor
    batch_size: int
    edge_index: Tensor
    n_id: Tensor
    edge_weight: Tensor | None = None
    edge_attr: Tensor | None = None
    piece: Piece | None = None
