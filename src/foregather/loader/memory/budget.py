"""budget: what `memory=` covers for a Loader whose graph is in memory, and the bulk that fits it.

Covered: the sampler's tables, the samples of a bulk, and the batches that are waiting, being made
or in use, with the reserve of their recycled memory and the lists of edges that are made with them
for a model, where there is room. Not covered: the graph itself (arrays in
memory, or the page cache of memory-mapped ones), batches that the consumer keeps beyond the one it
works on, the interpreter, torch and the model.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foregather.errors import BudgetError
from foregather.graph.graph import Graph
from foregather.loader.memory.division import BLOCK_RESERVE, MOST_BULK, refusal, reserved
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.sampler import Sampler
from foregather.units import format_bytes

__all__ = ["Budget", "LoaderNeed", "choose_bulk", "count_threads", "kept_bytes", "table_bytes"]


@dataclass(frozen=True, slots=True)
class LoaderNeed:
    """Bytes of a Loader's parts.

    Attributes:
        tables: kept by the sampler, independent of the bulk.
        sample: one sampled minibatch.
        batch: one delivered batch.
        prefetch: batches made ahead.
    """

    tables: int
    sample: int
    batch: int
    prefetch: int

    @staticmethod
    def judged(
        tables: int, samples: Sequence[int], batches: Sequence[int], prefetch: int
    ) -> "LoaderNeed":
        """Estimates the need from the first minibatches, with a reserve for larger ones."""
        sample, batch = max(samples, default=0), max(batches, default=0)
        return LoaderNeed(tables, reserved(sample), reserved(batch, pooled=True), prefetch)

    @property
    def fixed(self) -> int:
        """Bytes independent of the bulk: tables; batches waiting, being made and being used."""
        return self.tables + (self.prefetch + 2) * self.batch

    def least(self, bulk: int) -> int:
        """Bytes needed for this many minibatches per bulk."""
        return self.fixed + bulk * self.sample


@dataclass(frozen=True, slots=True)
class Budget:
    """A memory budget, and the need it was checked against."""

    memory: int
    need: LoaderNeed

    def check(self, bulk: int, batch: int) -> int:
        """Checks the bytes of a sampled bulk and of a finished batch.

        Returns:
            Bytes that each batch like this one may take in addition.

        Raises:
            BudgetError: batches like this one would exceed the budget.
        """
        flight = self.need.prefetch + 2
        total = self.need.tables + bulk + int(flight * batch * BLOCK_RESERVE)
        if total > self.memory:
            raise BudgetError(
                f"memory is {format_bytes(self.memory)}, but a batch is larger than the first ones "
                f"and {format_bytes(total)} are needed; raise memory, or use a smaller bulk"
            )
        return (self.memory - total) // flight


def choose_bulk(need: LoaderNeed, memory: int, asked: int | None, batches: int) -> int:
    """Returns the requested bulk, or (None) the largest that fits, up to the epoch.

    Raises:
        BudgetError: it does not fit; the message states the minimum.
    """
    bulk = 1 if asked is None else min(asked, batches)
    least = need.least(bulk)
    if least > memory:
        advice = "; give more, or a smaller bulk or prefetch" if bulk > 1 else "; give more"
        raise refusal(
            f"memory is {format_bytes(memory)} ({memory} bytes), but {bulk} batches per bulk and "
            f"{need.prefetch} ahead need {format_bytes(least)} ({least} bytes){advice}",
            least,
        )
    if asked is not None:
        return bulk
    return max(1, min(MOST_BULK, batches, (memory - need.fixed) // max(need.sample, 1)))


def table_bytes(sampler: Sampler, graph: Graph) -> int:
    """Bytes a sampler keeps for a graph, after a bulk of one thread; 0 if not known."""
    kernel: Any = getattr(sampler, "_kernel", None)
    return int(getattr(kernel(graph), "table_bytes", 0)) if kernel is not None else 0


def kept_bytes(sampler: Sampler, graph: Graph) -> int:
    """The same for what a sampler already keeps; nothing is made."""
    kept = getattr(sampler, "_kept", None)
    return table_bytes(sampler, graph) if isinstance(kept, GraphCache) and len(kept) else 0


def count_threads(threads: int) -> int:
    """Resolves `threads`: 0 means all that the process may use."""
    return threads if threads > 0 else len(os.sched_getaffinity(0))
