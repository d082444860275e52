"""source: the interface between a Loader and its batches: memory, disk, or ranks.

A Loader knows seeds, epochs and positions; a source knows how batches are made. There are three:
`MemorySource`, `OutOfCore` (`loader.disk`) and `RankBatches` (`foregather.dist`).
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from foregather.errors import InputError
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.loop import Producer
from foregather.loader.memory.beside import Beside
from foregather.loader.memory.budget import count_threads
from foregather.loader.pace import Pace
from foregather.loader.prefetch import ListPrefetcher
from foregather.loader.seeds import Seeds

if TYPE_CHECKING:
    from foregather.loader.disk.epoch_plan import EpochPlan
    from foregather.loader.memory.layout import Layout
    from foregather.plan.cost import PlanCost
    from foregather.plan.planner import PlanSummary

__all__ = ["BatchSource", "MemorySource"]

#: Bytes of a batch from which one ahead is enough: it takes so long to make and to use that waking
#: a thread does not count, and as samples are made before there is room, no time is lost by them.
_LARGE_BATCH = 32 << 20


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

    @property
    def threads(self) -> int:
        """Threads that the user gave; 0 for all."""

    def list_makers(
        self,
        epoch: int,
        first: int,
        bulk: int,
        beside: Beside | None = None,
        lean: bool = False,
        pace: Pace | None = None,
    ) -> Iterator[Callable[[], list[Any]]]:
        """Yields what makes batches `first` to the last of an epoch, some at a time."""


class MemorySource:
    """Batches of a graph that is in memory, or used as it is mapped.

    Args:
        bulk: batches sampled together.

    Attributes:
        adapts: of large batches one is made ahead, whatever `prefetch` says.
    """

    ranks = None
    layout = None

    def __init__(self, bulk: int) -> None:
        self.bulk, self.adapts = bulk, False
        self._beside, self._prefetch = Beside(), 0
        self.pace: Pace | None = None  # once a loop began

    def steps(self, seeds: Seeds) -> int:
        """Batches of an epoch."""
        return len(seeds)

    def start(self, recipe: MakesTrays, epoch: int, first: int, prefetch: int) -> Producer:
        """Makes a producer of the batches `first` to the last of an epoch, for one loop."""
        self._prefetch = prefetch
        if prefetch == 0:
            makers = recipe.list_makers(epoch, first, self.bulk, self._beside, lean=True)
            return ListPrefetcher(makers, 0)
        if self.pace is None:  # a number of threads that the user gave stays
            self.pace = Pace(1 if recipe.threads else count_threads(0))
        self.pace.begin()
        makers = recipe.list_makers(epoch, first, self.bulk, self._beside, pace=self.pace)
        if self.adapts:
            return ListPrefetcher(makers, 1, self._is_small, self.pace)
        return ListPrefetcher(makers, prefetch, pace=self.pace)

    def _is_small(self) -> bool:
        return self._beside.batch < _LARGE_BATCH

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
        ahead = self._prefetch if not self.adapts or self._is_small() else 1
        beside = self._beside.explain(ahead)
        paced = "" if self.pace is None else self.pace.explain()
        return "; ".join(part for part in ("all of the graph is in memory", beside, paced) if part)

    def close(self) -> None:
        """Nothing is held."""
