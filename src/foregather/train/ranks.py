"""ranks: what a Loader asks of the ranks it runs on; `foregather.dist` answers.

A Loader does not know how ranks sample or exchange; it is given a grid, which deals out batches.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal, Protocol

from foregather.train.seeds import Seeds

if TYPE_CHECKING:
    from foregather.train.maker import Maker

__all__ = ["Dealer", "Mode", "RankGrid", "Topology"]

#: Whether every rank holds all neighbour lists, or those of its block only.
Topology = Literal["partitioned", "replicated"]

#: "owner": one request and one reply a layer and bulk, node-wise picks made by the owner of the
#: row. "paper": the staged 1.5D product of the publication, as a baseline.
Mode = Literal["owner", "paper"]


class Dealer(Protocol):
    """Makes this rank's batches; see `dist.over_ranks.OverRanks`."""

    @property
    def size(self) -> int:
        """Ranks."""

    def steps(self, seeds: Seeds) -> int:
        """Steps of an epoch, the same on all ranks."""

    def batches(
        self, maker: "Maker", epoch: int, first: int, prefetch: int
    ) -> Generator[Any, None, None]:
        """Batches of the steps `first` to the last."""

    def gather_ledger(self) -> dict[Any, Any]:
        """What all ranks sent; all ranks call this together."""


class RankGrid(Protocol):
    """The ranks of a run; see `dist.Grid`."""

    def deal(self, maker: "Maker", topology: Topology, mode: Mode, bulk: int) -> Dealer:
        """What a Loader makes its batches with; all ranks call this together."""
