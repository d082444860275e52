"""rank_executor: what an exchange asks of those who plan its rows, and of those who move them.

A bulk over ranks takes two halves of a plan: what a rank asks for it plans alone; how rows cross is
planned when the requests of the column are known. In between, the requests cross.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from foregather.gather.executor import Executor

if TYPE_CHECKING:
    import torch

__all__ = ["LocalRows", "RankExecutor", "RankPlanner", "Reduce", "put_local"]

Array = npt.NDArray[Any]

CHUNK = 2048  # rows that are copied at a time, so that they are still in the CPU's cache


class RankPlanner(Protocol):
    """Plans the bulks of one rank."""

    @property
    def manner(self) -> str:
        """How rows cross, for people."""

    @property
    def num_slots(self) -> int:
        """Rows of others that are kept."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of tables."""

    def plan(self, batches: Iterable[Any], ahead: Iterable[Any] = ()) -> Any:
        """What a bulk asks of the column."""

    def complete(self, plan: Any, asked: Any) -> Any:
        """The whole plan, given what crossed for it."""


class RankExecutor(Executor[Any], Protocol):
    """Moves rows between the ranks of a column, which do all of this together."""

    @property
    def counts(self) -> dict[str, int]:
        """Rows so far: of the own block (local), from the cache (hits), and fetched (misses)."""

    def request(self, plan: Any) -> Any:
        """Sends what a bulk asks for, and receives what the column does; after `drain`."""

    def drain(self) -> None:
        """Does what others count on where they have more steps; own steps must be over."""


class Reduce(Protocol):
    """Makes something smaller of the rows of a bulk, in the thread of the exchange."""

    def wanted(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Minibatches or ids whose rows are fetched, of this bulk and of the next."""

    def begin(self, plan: Any) -> None:
        """Called when the requests of the bulk have crossed."""

    def space(self, number: int) -> "torch.Tensor | None":
        """Memory for the rows of a minibatch; it may be that of the one before."""

    def reduced(self, number: int, rows: "torch.Tensor") -> Any:
        """What is returned in place of the rows, which are not kept."""


class LocalRows(Protocol):
    """Rows of the own block that are at hand."""

    @property
    def scale(self) -> npt.NDArray[np.float32] | None:
        """float32 [width] where `take` gives int8 rows that stand for row * scale."""

    def take(self, ids: Array) -> Array:
        """Rows by their ids, as they are stored."""


def put_local(rows: LocalRows, ids: Array, position: Array, out: Array) -> None:
    """Copies rows of the own block to their places in an output; nothing crosses."""
    for low in range(0, len(ids), CHUNK):
        some = rows.take(ids[low : low + CHUNK])
        if rows.scale is not None:
            some = some.astype(np.float32) * rows.scale
        out[position[low : low + CHUNK]] = some
