"""hetero_recipe: everything that the batches of a HeteroLoader are made from, as one value.

It is stateless, and the background threads refer to it instead of the loader, so that an
unreferenced loader is collected and its threads end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from foregather.graph.hetero.graph import HeteroGraph
from foregather.loader.hetero.input_rows import Dealt, RowTimes
from foregather.loader.hetero.rule import HeteroSampler
from foregather.loader.lookahead import growing_bulks
from foregather.loader.memory.beside import Beside
from foregather.loader.memory.budget import count_threads
from foregather.loader.pace import Pace
from foregather.loader.seeds import Seeds
from foregather.observe.trace import span
from foregather.sampling.hetero.hetero_bulk import HeteroBulk, HeteroSample

__all__ = ["Assembles", "HeteroRecipe"]

#: Bytes of a sample above which few of them are made at once.
_LARGE_SAMPLE = 4 << 20


class Assembles(Protocol):
    """Makes a batch of a sample and its input rows."""

    def batch(self, sample: HeteroSample, node_type: str, rows: Dealt) -> Any:
        """The batch."""

    def using(self, threads: int) -> "Assembles":
        """The same with another number of threads."""


@dataclass(frozen=True, slots=True, eq=False)
class HeteroRecipe:
    """The graph, the sampler, the input rows, and the form of batches.

    Attributes:
        graph: the graph to sample.
        sampler: the rule.
        node_type: of the input rows.
        seeds: which input rows make which batch.
        times: the times of input rows.
        assembler: what a batch holds.
        threads: threads for sampling.
    """

    graph: HeteroGraph
    sampler: HeteroSampler
    node_type: str
    seeds: Seeds
    times: RowTimes
    assembler: Assembles
    threads: int

    def deal(self, epoch: int, start: int, count: int) -> list[Dealt]:
        """Returns the input rows of `count` batches from `start` on, or of those left."""
        end = min(start + count, len(self.seeds))
        return [self.at(self.seeds.positions(epoch, number)) for number in range(start, end)]

    def at(self, position: npt.NDArray[np.int64]) -> Dealt:
        """Returns the input rows at these positions."""
        nodes, input_id = self.seeds.at(position)
        return Dealt(nodes, input_id, self.times.at(position, nodes))

    def sample(self, dealt: list[Dealt], epoch: int, start: int) -> HeteroBulk:
        """Samples these batches; trees are keyed by their `input_id`."""
        kind, rows, times = self.node_type, None, None
        if self.sampler.disjoint:
            rows = {kind: [one.input_id for one in dealt]}
        if self.sampler.time is not None:
            times = {kind: [one.time for one in dealt if one.time is not None]}
        with span("sample"):
            return self.sampler.sample_bulk(
                self.graph,
                {kind: [one.nodes for one in dealt]},
                seed=self.seeds.seed,
                epoch=epoch,
                first_batch=start,
                threads=self.threads,
                rows=rows,
                times=times,
            )

    def using(self, threads: int) -> "HeteroRecipe":
        """Returns the same recipe with another number of threads."""
        return replaced(self, threads=threads, assembler=self.assembler.using(threads))

    def list_makers(
        self,
        epoch: int,
        first: int,
        bulk: int,
        beside: Beside | None = None,
        lean: bool = False,
        pace: Pace | None = None,
    ) -> Iterator[Callable[[], list[Any]]]:
        """Yields what makes batches `first` to the last of an epoch, one by one.

        Samples are made here, batches by the calls.

        Args:
            epoch: number of the epoch.
            first: the first batch.
            bulk: batches sampled together; fewer if samples are large.
            beside: told what is held.
            lean: make large samples one at a time.
            pace: says how many threads to use, where that may change.
        """
        seen = beside or Beside()
        few = 1 if lean else max(2, count_threads(self.threads) // 2)

        def most() -> int:
            return bulk if seen.sample < _LARGE_SAMPLE else min(bulk, few)

        for start, count in growing_bulks(first, len(self.seeds), most):
            made = self if pace is None or pace.threads == pace.most else self.using(pace.threads)
            dealt = made.deal(epoch, start, count)
            sampled = made.sample(dealt, epoch, start)
            seen.note(sampled.nbytes // max(1, len(sampled)), len(sampled), 0)
            for sample, rows in zip(sampled, dealt, strict=True):
                yield partial(made._finish, sample, rows, seen)

    def one(self, epoch: int, number: int) -> Callable[[], Any]:
        """Samples one batch; returns what makes it."""
        dealt = self.deal(epoch, number, 1)
        sampled = self.sample(dealt, epoch, number)
        return lambda: self._finish(sampled[0], dealt[0], Beside())[0]

    def _finish(self, sample: HeteroSample, rows: Dealt, seen: Beside) -> list[Any]:
        """A batch of its sample."""
        with span("assemble"):
            batch = self.assembler.batch(sample, self.node_type, rows)
        seen.note(0, 1, _tensor_bytes(batch))
        return [batch]


def _tensor_bytes(batch: Any) -> int:
    """Bytes of the tensors of a batch; of a sample, of its arrays."""
    stores = getattr(batch, "stores", None)
    if stores is None:
        return int(batch.nbytes)
    return sum(getattr(value, "nbytes", 0) for store in stores for value in store.values())
