"""batch_recipe: everything that batches are made from, as one stateless value.

The background threads refer to it instead of the Loader, so that an unreferenced Loader is
collected and its threads end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather.graph.graph import Graph
from foregather.loader.batches.assemble import Assembler
from foregather.loader.batches.batch import Batch
from foregather.loader.batches.edge_rows import EdgeRows
from foregather.loader.batches.first_sums import tie_sums
from foregather.loader.batches.hop_counts import remember
from foregather.loader.batches.joined import SMALL_BULK, can_join, join_batches, tensor_bytes
from foregather.loader.batches.lists_ahead import ListsAhead
from foregather.loader.batches.narrow_labels import NarrowLabels
from foregather.loader.batches.pyg_batch import sorted_edge_index, to_pyg
from foregather.loader.links.asked import LinkRows, tree_rows
from foregather.loader.links.left_out import left_out
from foregather.loader.links.link_batch import with_links
from foregather.loader.links.link_seeds import LinkSeeds
from foregather.loader.lookahead import growing_bulks
from foregather.loader.memory.beside import Beside
from foregather.loader.memory.budget import Budget, count_threads, kept_bytes
from foregather.loader.pace import Pace
from foregather.loader.seeds import Seeds
from foregather.observe.trace import span
from foregather.sampling.bulk import Bulk, Sample
from foregather.sampling.disk import DiskTopology
from foregather.sampling.fused import check_trees
from foregather.sampling.sampler import Sampler

__all__ = ["Dealt", "BatchRecipe"]

Ids = npt.NDArray[np.int64]
#: Bytes of a sample above which few of them are made at once.
_LARGE_SAMPLE = 4 << 20
#: Seeds and `input_id` of each batch of a bulk.
Dealt = list[tuple[Ids, Ids]]


@dataclass(frozen=True, slots=True, eq=False)
class BatchRecipe:
    """The graph, the sampler, the input nodes, and the form of batches.

    Attributes:
        graph: the graph to sample.
        sampler: the rule.
        seeds: which input nodes make which batch.
        assembler: what a batch holds.
        threads: threads for sampling.
        edge_index: "tensor" or "EdgeIndex".
        pyg: finish batches as PyG's Data.
        budget: what batches are checked against, or None.
        disjoint: every input node has its own tree, keyed by its `input_id`.
        replay: this many epochs use the samples of the first of them.
        ahead: what models ask for of the edges of batches.
    """

    graph: Graph
    sampler: Sampler
    seeds: Seeds
    assembler: Assembler
    threads: int
    edge_index: str
    pyg: bool
    budget: Budget | None = None
    disjoint: bool = False
    replay: int = 1
    ahead: ListsAhead = field(default_factory=ListsAhead)

    def drawn(self, epoch: int) -> int:
        """The epoch whose order and samples an epoch uses."""
        return epoch - epoch % self.replay

    def reading_edges(self, share: int) -> "BatchRecipe":
        """Returns the same recipe with edge features read from disk in `share` bytes.

        0: there are none.
        """
        if not share:
            return self
        edges = EdgeRows(self.graph, share, self.threads)
        return replaced(self, assembler=replaced(self.assembler, edge_rows=edges))

    def begin(self) -> None:
        """A loop begins."""
        self.ahead.begin()
        if self.assembler.narrow is not None:
            self.assembler.narrow.begin()

    def narrowing(self) -> "BatchRecipe":
        """Returns the same recipe that looks labels up in a narrow copy, which no budget counts."""
        return replaced(self, assembler=replaced(self.assembler, narrow=NarrowLabels()))

    def on(self, graph: Graph) -> "BatchRecipe":
        """Returns the same recipe over the same graph with other arrays in memory."""
        seeds, assembler = self.seeds.on(graph), self.assembler.on(graph)
        return replaced(self, graph=graph, seeds=seeds, assembler=assembler)

    def using(self, threads: int) -> "BatchRecipe":
        """Returns the same recipe with another number of threads."""
        return replaced(self, threads=threads, assembler=self.assembler.using(threads))

    @property
    def leaves_out(self) -> bool:
        """Whether batches leave out edges: the links that they ask about."""
        return isinstance(self.seeds, LinkSeeds) and self.seeds.task.leaves_out is not None

    def deal(self, epoch: int, start: int, count: int) -> Dealt:
        """Returns the seeds of `count` batches from `start` on, or of those left."""
        end = min(start + count, len(self.seeds))
        return self.seeds.deal(epoch, start, end)

    def sample(
        self, dealt: Dealt, epoch: int, start: int, topology: DiskTopology | None = None
    ) -> Bulk:
        """Samples these batches from the graph or from a topology on disk.

        The bits are the same.
        """
        nodes = [nodes for nodes, _ in dealt]
        options: dict[str, Any] = {
            "seed": self.seeds.seed,
            "epoch": epoch,
            "first_batch": start,
            "threads": self.threads,
        }
        exclude = left_out(dealt)
        if exclude is not None:
            options["exclude"] = exclude
        with span("sample"):
            if self.disjoint:
                rows = [tree_rows(one) for one in dealt]
                if topology is not None:
                    return topology.sample_trees(self.sampler, nodes, rows, **options)
                return check_trees(self.sampler).sample_trees(self.graph, nodes, rows, **options)
            if topology is not None:
                return topology.sample_bulk(self.sampler, nodes, **options)
            return self.sampler.sample_bulk(self.graph, nodes, **options)

    def list_makers(
        self,
        epoch: int,
        first: int,
        bulk: int,
        beside: Beside | None = None,
        lean: bool = False,
        pace: Pace | None = None,
    ) -> Iterator[Callable[[], list[Any]]]:
        """Yields what makes batches `first` to the last of an epoch, rows from memory.

        They are sampled up to `bulk` at a time, fewer if samples are large, and come one by one, or
        a bulk at once if it is small. Samples are made here, batches by the calls.

        Args:
            epoch: number of the epoch.
            first: the first batch.
            bulk: batches sampled together.
            beside: told what is held.
            lean: make large samples one at a time.
            pace: says how many threads to use, where that may change.
        """
        joins, held, seen = can_join(self), [SMALL_BULK], beside or Beside()
        # Few, so that no batch waits long for samples and little is held: two threads share one.
        few = 1 if lean else max(1, count_threads(self.threads) // 2)

        def most() -> int:
            return bulk if seen.sample < _LARGE_SAMPLE else min(bulk, few)

        for start, count in growing_bulks(first, len(self.seeds), most):
            seen.tables = max(seen.tables, kept_bytes(self.sampler, self.graph))
            made = self if pace is None or pace.threads == pace.most else self.using(pace.threads)
            if joins and count * held[0] < SMALL_BULK:
                yield partial(made._joined, epoch, start, count, held, seen)
            else:
                yield from made._one_by_one(epoch, start, count, held, seen)

    def _joined(
        self, epoch: int, start: int, count: int, held: list[int], seen: Beside
    ) -> list[Any]:
        """A small bulk."""
        batches = join_batches(self, epoch, start, count)
        held[0] = max(map(tensor_bytes, batches))
        seen.note(0, count, held[0])
        finished = [self.finish(batch) for batch in batches]
        seen.lists = max(seen.lists, self.ahead.largest)
        return finished

    def _one_by_one(
        self, epoch: int, start: int, count: int, held: list[int], seen: Beside
    ) -> Iterator[Callable[[], list[Any]]]:
        """Samples a bulk; yields what makes each batch of it."""
        dealt = self.deal(epoch, start, count)
        sampled = self.sample(dealt, epoch, start)
        seen.note(sampled.nbytes // max(1, len(sampled)), len(sampled), 0)

        def make(sample: Sample, rows: tuple[Ids, Ids], nbytes: int) -> list[Any]:
            with span("assemble"):
                batch = self.assembler.batch(sample, *rows)
            room = None
            if self.budget is not None:
                room = self.budget.check(nbytes, batch.nbytes)
            held[0] = tensor_bytes(batch)
            seen.note(0, 1, held[0])
            finished = self.finish(batch, rows, room)
            seen.lists = max(seen.lists, self.ahead.largest)
            return [finished]

        for sample, rows in zip(sampled, dealt, strict=True):
            yield partial(make, sample, rows, sampled.nbytes)

    def finish(
        self, batch: Batch, rows: tuple[Ids, Ids] | None = None, room: int | None = None
    ) -> Any:
        """Returns the batch in the requested form, with the lists that a model asked for.

        Args:
            batch: as it was assembled.
            rows: those that were dealt for it.
            room: bytes that lists of its edges may take; None if nobody counts.
        """
        if isinstance(rows, LinkRows):
            batch = with_links(batch, rows.asked)
        if self.edge_index == "EdgeIndex" and batch.edge_index is not None:
            edges = sorted_edge_index(batch.edge_index, batch.num_nodes)
            batch = replaced(batch, edge_index=edges)
        if batch.edge_index is not None:
            counts = remember(batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
            counts.ahead = self.ahead
            tie_sums(batch)
            self.ahead.prepare(batch.edge_index, counts, count_threads(self.threads), room)
        return to_pyg(batch) if self.pyg else batch
