"""own_batches: this rank's batches, made from a graph that every rank has in memory.

Batches are those of one rank: step t takes the batches t p, ..., t p + p - 1, one per rank. Where
the last step has fewer than p, the remaining ranks take batches from the start of the epoch again,
marked by `share` 0, so that all take the same number of steps. Nothing is sent.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from foregather.loader.loop import Producer
from foregather.loader.prefetch import ListPrefetcher
from foregather.loader.seeds import Seeds, share_of

__all__ = ["OwnBatches", "RanksThatAgree"]


class RanksThatAgree(Protocol):
    """The ranks of a run; see `dist.Grid`."""

    @property
    def rank(self) -> int:
        """This one."""

    @property
    def size(self) -> int:
        """How many there are."""

    def agree_all(self, facts: dict[str, str]) -> None:
        """Raises InputError on all ranks if these differ; a collective call."""


class MakesOne(Protocol):
    """A recipe of batches from memory."""

    @property
    def seeds(self) -> Seeds:
        """What is divided into batches."""

    def one(self, epoch: int, number: int) -> Callable[[], Any]:
        """Samples a batch; returns what makes it."""


@dataclass(frozen=True)
class OwnBatches:
    """The source of a loader over ranks that exchange nothing.

    Attributes:
        rank: this one.
        size: how many there are.
    """

    rank: int
    size: int

    @property
    def ranks(self) -> int:
        """How many make batches together."""
        return self.size

    def steps(self, seeds: Seeds) -> int:
        """Steps of an epoch, the same on all ranks."""
        return -(-len(seeds) // self.size)

    def numbers(self, seeds: Seeds, first: int) -> Iterator[tuple[int, float]]:
        """Yields, for each step from `first` on, the number of this rank's batch and its share."""
        for step in range(first, self.steps(seeds)):
            share = share_of(seeds, step, self.rank, self.size)
            yield (step * self.size + self.rank) % len(seeds), share

    def start(self, recipe: MakesOne, epoch: int, first: int, prefetch: int) -> Producer:
        """Makes a producer of the batches of steps `first` to the last, for one loop."""

        def list_makers() -> Iterator[Callable[[], list[Any]]]:
            for number, share in self.numbers(recipe.seeds, first):
                yield partial(_shared, recipe.one(epoch, number), share)

        return ListPrefetcher(list_makers(), prefetch)

    def explain(self) -> str:
        """Says where the graph is."""
        return f"all of the graph is in memory on each of {self.size} ranks, which send nothing"


def _shared(make: Callable[[], Any], share: float) -> list[Any]:
    """A batch that says how much its mean loss counts in its step."""
    batch = make()
    batch.share = share
    return [batch]
