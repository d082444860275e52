"""layer: what a layer of full-graph training is: a message of each row, and an update.

A layer never sees the whole graph. `message` and the dense part of `update` treat every row by
itself; rows meet only in `near`. So a layer gives the same result for one node chunk or for all
nodes, and what must travel between stages (skip tensors) is declared and not discovered.
"""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn

__all__ = ["Dense", "GraphLayer", "Near"]


class Near(Protocol):
    """What the update of a layer sees of the graph: the own rows and those of in-neighbours."""

    @property
    def rows(self) -> Tensor:
        """Messages [own + others, width]: the own rows first, then in-neighbours from elsewhere."""

    @property
    def own(self) -> Tensor:
        """The own messages: the first rows, without waiting for the others."""

    @property
    def count(self) -> int:
        """How many rows are own."""

    def aggregate(self, norm: str = "mean") -> Tensor:
        """Sums the messages of in-neighbours for each own row, weighted by `norm`.

        `norm` is "mean", "sum" (edge weights count), "gcn" (self-loops added, divided by the
        roots of both degrees) or "sym" (the same without self-loops).
        """

    def edges(self, norm: str | None = None) -> tuple[Tensor, Tensor | None]:
        """`edge_index` into `rows`, and the edge weights, or None for 1."""

    def edge_attr(self) -> Tensor | None:
        """Edge feature rows in the order of `edges(None)`."""

    def dense(self, part: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """`part(*values)`, recomputed in the backward pass where that was asked for."""


class GraphLayer(nn.Module):
    """Base of layers that can be run by node chunks and in stages.

    Attributes:
        aggregates: False for layers that never look at `near`.
        needs: names of skip tensors that `update` takes as keywords.
        gives: the name under which the result of this layer is kept for later layers, or None.
    """

    aggregates: bool = True
    needs: tuple[str, ...] = ()
    gives: str | None = None

    def message(self, x: Tensor) -> Tensor:
        """Rows that the in-neighbours' targets read; the layer's input unless overridden."""
        return x

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Tensor:
        """The layer's result for the own rows; `near` is None only for dense layers."""
        raise NotImplementedError


class Dense(GraphLayer):
    """A layer that treats every row by itself: any module of rows.

    Args:
        module: takes and returns rows.
        gives: keep the result as a skip tensor of this name.
    """

    aggregates = False

    def __init__(self, module: nn.Module, gives: str | None = None) -> None:
        super().__init__()
        self.module = module
        self.gives = gives

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Tensor:
        """`module(x)`."""
        result: Tensor = self.module(x)
        return result
