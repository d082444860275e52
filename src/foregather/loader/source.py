"""source: the interface between a Loader and its batches: memory, disk, or ranks.

A Loader knows seeds, epochs and positions; a source knows how batches are made. There are three:
`MemorySource`, `OutOfCore` (`loader.disk`) and `RankBatches` (`foregather.dist`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from foregather.errors import InputError
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.loop import Producer
from foregather.loader.memory.beside import Beside
from foregather.loader.prefetch import TrayFeed
from foregather.loader.seeds import Seeds

if TYPE_CHECKING:
    from foregather.loader.disk.epoch_plan import EpochPlan
    from foregather.loader.memory.layout import Layout
    from foregather.plan.cost import PlanCost
    from foregather.plan.planner import PlanSummary

__all__ = ["BatchSource", "MemorySource"]


class BatchSource(Protocol):
    """Makes the batches of loops, and counts what that moves."""

    @property
    def ranks(self) -> int | None:
        """The number of ranks that make batches together; None for this process alone."""

    @property
    def layout(self) -> "Layout | None":
        """How a budget is divided if the graph is read from disk; otherwise None."""

    def steps(self, seeds: Seeds) -> int:
        """Batches per epoch, or steps if several ranks take one each."""

    def start(self, recipe: BatchRecipe, epoch: int, first: int, prefetch: int) -> Producer:
        """Makes a producer of the batches `first` to the last of an epoch, for one loop."""

    def plan(self, recipe: BatchRecipe, epoch: int, batches: int | None) -> "EpochPlan":
        """Predicts what an epoch will read; InputError if nothing is planned."""

    def planned(self) -> "tuple[PlanSummary, PlanCost] | None":
        """The totals of the plans of the current or last epoch; None if nothing is planned."""

    def counters(self) -> dict[str, Any]:
        """What was read or crossed so far, by part."""

    def explain(self) -> str:
        """How batches are made, and predicted compared with measured, for people."""

    def close(self) -> None:
        """Frees what is held; over ranks all call it together."""


class MakesTrays(Protocol):
    """A recipe of batches from memory."""

    def trays(
        self, epoch: int, first: int, bulk: int, beside: Beside | None = None
    ) -> Iterator[list[Any]]:
        """Yields batches `first` to the last of an epoch, some at a time."""


class MemorySource:
    """Batches of a graph that is in memory, or used as it is mapped.

    Args:
        bulk: batches sampled together.
    """

    ranks = None
    layout = None

    def __init__(self, bulk: int) -> None:
        self.bulk = bulk
        self._beside, self._prefetch = Beside(), 0

    def steps(self, seeds: Seeds) -> int:
        """Batches of an epoch."""
        return len(seeds)

    def start(self, recipe: MakesTrays, epoch: int, first: int, prefetch: int) -> Producer:
        """Makes a producer of the batches `first` to the last of an epoch, for one loop."""
        self._prefetch = prefetch
        return TrayFeed(recipe.trays(epoch, first, self.bulk, self._beside), prefetch)

    def plan(self, recipe: BatchRecipe, epoch: int, batches: int | None) -> "EpochPlan":
        """Refused: nothing is read.

        Raises:
            InputError: always.
        """
        raise InputError(
            "this loader reads nothing by plan; give it a graph from a folder and memory= "
            "with less than the graph takes"
        )

    def planned(self) -> None:
        """Nothing is planned."""

    def counters(self) -> dict[str, Any]:
        """Nothing is read."""
        return {}

    def explain(self) -> str:
        """Says so, and what is held beside it, once batches were made."""
        beside = self._beside.explain(self._prefetch)
        return "all of the graph is in memory" + (f"; {beside}" if beside else "")

    def close(self) -> None:
        """Nothing is held."""
