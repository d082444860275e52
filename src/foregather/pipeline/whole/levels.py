"""levels: rows of all nodes between two segments, and their gradients, piece by piece.

A store is written and read by pieces, in order. Held in memory, one piece is kept as it is, without
a copy, and several are parts of one tensor.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from foregather.pipeline.passes.aggregation import RowBuffers
from foregather.pipeline.whole.adjacency import Lists
from foregather.pipeline.whole.pieces import Pieces

__all__ = ["Adjoint", "Held", "Level", "Store"]


class Store(Protocol):
    """Rows [N, width] that are written and read by pieces."""

    def put(self, piece: int, rows: Tensor) -> Tensor:
        """Stores the rows of a piece; returns them as they can be read from now on."""

    def add(self, piece: int, rows: Tensor) -> None:
        """Adds to the rows of a piece."""

    def get(self, piece: int) -> Tensor:
        """The rows of a piece."""

    def take(self, piece: int) -> Tensor:
        """The rows of a piece, which nobody reads again."""

    def free(self) -> None:
        """Forgets all rows."""


class Held:
    """A store in memory.

    Args:
        pieces: how the nodes are cut.
        buffer: a tensor [N, width] to write to; None makes one.
    """

    def __init__(self, pieces: Pieces, buffer: Tensor | None = None) -> None:
        self._pieces = pieces
        self.rows = buffer

    def put(self, piece: int, rows: Tensor) -> Tensor:
        """Stores the rows of a piece."""
        rows = rows.detach()
        if self._pieces.one:
            self.rows = rows
            return rows
        if self.rows is None:
            self.rows = rows.new_empty(self._pieces.nodes, *rows.shape[1:])
        place = self.rows[self._pieces.spans[piece]]
        if place.data_ptr() != rows.data_ptr():
            place.copy_(rows)
        return place

    def add(self, piece: int, rows: Tensor) -> None:
        """Adds to the rows of a piece."""
        self.full[self._pieces.spans[piece]] += rows

    def get(self, piece: int) -> Tensor:
        """The rows of a piece; a view."""
        return self.full[self._pieces.spans[piece]]

    def take(self, piece: int) -> Tensor:
        """The rows of a piece, which nobody reads again."""
        rows = self.get(piece)
        if self._pieces.one:
            self.rows = None
        return rows

    @property
    def full(self) -> Tensor:
        """The rows of all nodes."""
        assert self.rows is not None
        return self.rows

    @property
    def droppable(self) -> bool:
        """Whether `drop` would give memory back."""
        return self.rows is not None and not self._pieces.one

    def drop(self) -> None:
        """Gives the memory of the rows back; whoever holds a part of them holds it still."""
        if self.droppable:
            self.full.untyped_storage().resize_(0)

    def restore(self) -> bool:
        """Makes room again for what was dropped and must be put again; False if nothing was."""
        if not self.droppable or self.full.untyped_storage().nbytes():
            return False
        self.full.untyped_storage().resize_(self.full.nbytes)
        return True

    def free(self) -> None:
        """Forgets all rows."""
        self.rows = None


@dataclass(slots=True)
class Adjoint:
    """Gradients of a level: of its rows, and of its messages if they are not the rows."""

    x: Store
    message: Store | None

    def free(self) -> None:
        """Forgets all rows."""
        self.x.free()
        if self.message is not None:
            self.message.free()


@dataclass(slots=True)
class Level:
    """Rows of all nodes in front of a segment.

    Attributes:
        x: rows; None in front of the first segment, which starts from features.
        spilled: the same rows in a file, where they are held for a while only.
        message: messages, if they are not the rows themselves.
        features: feature rows of all nodes, while they are aggregated.
        summed: sums of all pieces, made for the first that asks and taken one by one; None where
            each piece makes its own.
        edges: what layers that look at edges themselves read and push to, by pieces.
        sums: gradients of sums over in-neighbours, with the lists they were made by.
    """

    x: Store | None = None
    spilled: Store | None = None
    message: Held | None = None
    features: Tensor | None = None
    summed: dict[Hashable, dict[int, Tensor]] | None = None
    edges: RowBuffers | None = None
    sums: dict[Hashable, tuple[Lists, Held]] = field(default_factory=dict)

    @property
    def read(self) -> Tensor:
        """Rows of all nodes that an aggregation reads."""
        if self.features is not None:
            return self.features
        held = self.x if self.message is None else self.message
        assert isinstance(held, Held)
        return held.full

    def by_edges(self) -> RowBuffers:
        """What layers that look at edges themselves read."""
        if self.edges is None:
            self.edges = RowBuffers(self.read)
        return self.edges

    def want_pushes(self) -> None:
        """Makes room for gradients that layers push, if one of them reads edges itself."""
        if self.edges is not None and self.edges.adjoint is None:
            self.edges.adjoint = torch.zeros_like(self.edges.fresh)
