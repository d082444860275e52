"""layer: the interface of a layer for full-graph training: a message per row, and an update.

A layer never sees the whole graph. `message` and the dense part of `update` treat every row
independently; rows interact only through `near`. So a layer gives the same result for one node
chunk or for all nodes, and tensors that must be sent between stages (skip tensors) are declared,
not discovered.
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor, nn

__all__ = ["Dense", "GraphLayer", "Near", "PlacedNear"]


class Near(Protocol):
    """The part of the graph that a layer's update sees: its own rows and those of in-neighbours."""

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
        """`part(*values)`, recomputed in the backward pass if requested."""


class PlacedNear(Near, Protocol):
    """A `Near` that knows where it is in the graph, for layers of recorded models."""

    def moments(self, columns: slice) -> tuple[Tensor, Tensor]:
        """Mean and variance of some columns of the messages of all nodes.

        Where messages of earlier epochs are read, they are those of the last epoch, and constants.
        """

    def sum_along(self, key: Hashable, make: Callable[[], Any]) -> Tensor | None:
        """Sums of messages over given lists of edges; None where `rows` must be read instead.

        `make` gives the lists of all edges (`pipeline.whole.adjacency.Lists`), which are kept under
        `key`.
        """

    def passing(self, ptr: Tensor | None) -> AbstractContextManager[Any]:
        """Inside, random numbers are those of edges, or of rows of others.

        `ptr` says where the edges of each own row begin; None if they are in another order.
        """

    @property
    def place(self) -> tuple[Any, int]:
        """The topology of the graph in chunks, and the number of this chunk."""


class GraphLayer(nn.Module):
    """Base class of layers that can run in node chunks and stages.

    Attributes:
        aggregates: False for layers that never look at `near`.
        reads_rows: False for layers that take nothing of other nodes but mean and variance over all
            of them, so that no row has to cross between ranks.
        needs: names of skip tensors that `update` takes as keywords.
        gives: the name under which the result of this layer is kept for later layers, or None.
        also_gives: names of further skip tensors; `update` then returns the result and a dictionary
            of them.
        placed: `update` gets a `PlacedNear`, also where the layer does not aggregate.
    """

    aggregates: bool = True
    reads_rows: bool = True
    needs: tuple[str, ...] = ()
    gives: str | None = None
    also_gives: tuple[str, ...] = ()
    placed: bool = False

    @property
    def given(self) -> tuple[str, ...]:
        """Names of all skip tensors that this layer gives."""
        return (*((self.gives,) if self.gives else ()), *self.also_gives)

    def message(self, x: Tensor) -> Tensor:
        """Returns the rows that targets read from their in-neighbours.

        By default the layer's input.
        """
        return x

    def update(self, x: Tensor, near: Near | None, **skips: Tensor) -> Any:
        """The layer's result for the own rows; `near` is None only for dense layers."""
        raise NotImplementedError

    def run(
        self, x: Tensor, near: Near | None, skips: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Runs `update` with the skip tensors that it needs; returns those that it gives, too."""
        out = self.update(x, near, **{name: skips[name] for name in self.needs})
        result, given = out if self.also_gives else (out, {})
        return result, {**given, **({self.gives: result} if self.gives else {})}


class Dense(GraphLayer):
    """A layer that treats every row independently: any row-wise module.

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
