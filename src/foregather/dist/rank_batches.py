"""rank_batches: makes this rank's batches of an epoch, for a Loader with a grid.

Minibatches are those of one rank: the epoch has the same batches, and step t takes the batches t p,
..., t p + p - 1, one per rank. If the last step has fewer than p, the remaining ranks take batches
from the start of the epoch again, marked by `share` 0, so that every rank takes the same number of
steps. Feature rows are exchanged according to a plan: the bulk after the current one is already
sampled, so the plan looks ahead, and the one after that is sampled meanwhile.
"""

from collections.abc import Generator, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from foregather.dist.features.exchange import FeatureExchange
from foregather.dist.features.leaf_rows import LeafRows, TreeRows
from foregather.dist.features.rank_executor import Reduce
from foregather.dist.features.sum_exchange import SumExchange, exchanges_of
from foregather.dist.loader_facts import facts_of, seed_facts
from foregather.dist.sampling.dist_sampler import DistSampler
from foregather.dist.sampling.partition import Partition, cut_rows
from foregather.dist.traffic import count_traffic, explain_traffic
from foregather.dist.transport.agreement import agree
from foregather.dist.transport.ledger import Entry, Link, added
from foregather.dist.transport.rank_grid import RankGrid
from foregather.errors import BudgetError, InputError
from foregather.graph.graph import Graph
from foregather.loader.batch_recipe import BatchRecipe, Dealt
from foregather.loader.batches.leaf_sums import Scratch
from foregather.loader.links.asked import tree_rows
from foregather.loader.links.left_out import left_out
from foregather.loader.lookahead import bulks_with_lookahead
from foregather.loader.loop import Producer, RankProducer
from foregather.loader.prefetch import ahead
from foregather.loader.rank_options import RankSetup
from foregather.loader.seeds import Seeds, share_of
from foregather.observe.trace import span
from foregather.sampling.bulk import Bulk

__all__ = ["RankBatches"]

Int = npt.NDArray[np.int64]


class RankBatches:
    """Makes a Loader's batches over ranks; creation and loops are collective.

    Args:
        recipe: graph, rule and input nodes.
        grid: the ranks.
        options: equal on all ranks.

    Raises:
        InputError: an option breaks its rule, or the ranks differ.
        BudgetError: `memory` is too small; the message states the minimum.
    """

    layout = None

    def __init__(self, recipe: BatchRecipe, grid: RankGrid, options: RankSetup) -> None:
        self.grid, self.bulk = grid, options.bulk
        graph, threads, topology = recipe.graph, recipe.threads, options.topology
        grid.agree_all({**facts_of(recipe), **options.facts()})
        if topology not in ("partitioned", "replicated"):
            raise InputError(f"topology is {topology!r}, expected 'partitioned' or 'replicated'")
        held: Graph | Partition = graph
        starts = cut_rows(graph.indptr, grid.num_rows, "nodes")
        if topology == "partitioned":
            held = self._partition(graph)
            starts = held.row_starts
        self.sampler = DistSampler(recipe.sampler, held, grid, mode=options.mode, threads=threads)
        self.rows: FeatureExchange | None = None
        self.sums: SumExchange | None = None
        if graph.features is not None:
            try:
                self.rows, self.sums = exchanges_of(graph, starts, grid, options, threads)
            except (InputError, BudgetError):  # on all ranks: nobody uses the sampler's links
                self.sampler.close()
                raise
        #: Whether ranks exchange anything; otherwise they loop independently.
        self._meets = topology == "partitioned" or self.rows is not None
        self._number, self._loops = grid.next_number(), 0
        self._closed = False

    def _partition(self, graph: Graph) -> Partition:
        if graph.path is None:
            return Partition.of(graph, self.grid.num_rows, self.grid.row)
        return Partition.open(graph.path, self.grid.num_rows, self.grid.row)

    @property
    def ranks(self) -> int:
        """How many make batches together."""
        return self.grid.size

    def steps(self, seeds: Seeds) -> int:
        """Steps of an epoch, the same on all ranks."""
        return -(-len(seeds) // self.grid.size)

    def start(self, recipe: BatchRecipe, epoch: int, first: int, prefetch: int) -> Producer:
        """Makes a producer of the batches of steps `first` to the last, for one loop."""
        return RankProducer(self.batches(recipe, epoch, first, prefetch))

    def plan(self, recipe: BatchRecipe, epoch: int, batches: int | None) -> NoReturn:
        """Refused: ranks plan together, bulk by bulk.

        Raises:
            InputError: always.
        """
        raise InputError(
            "over ranks a bulk is planned when all have requested its rows; explain() says what "
            "was planned and moved, and `foregather plan --ranks` forecasts an epoch"
        )

    def planned(self) -> None:
        """None: ranks plan bulk by bulk; see `explain`."""

    # ---- one epoch -----------------------------------------------------------------------------

    def batches(
        self, recipe: BatchRecipe, epoch: int, first: int, prefetch: int
    ) -> Generator[Any, None, None]:
        """Batches of the steps `first` to the last, made up to `prefetch` ahead.

        A loop that is left early continues, without a consumer, to a point that every rank is
        certain to reach: requests made by then are answered, and nothing is left over that a later
        loop could mistake for its own.
        """
        if self._closed:
            raise InputError("the loader was closed; make a new one on all ranks")
        if self._meets:
            place = {"epoch": f"{epoch}", "first step of the loop": f"{first}"}
            self._loops += 1
            key = f"loop/{self._number}/{self._loops}"
            agree(self.grid, key, {**seed_facts(recipe.seeds), **place})
        source = self._make(recipe, epoch, first)
        counted = _Counted(source)
        made = ahead(counted, prefetch)
        taken, ended = 0, False
        try:
            for batch in made:
                taken += 1
                yield batch
                del batch
            ended = True
        finally:
            made.close()
            if not ended and not counted.failed:
                while counted.count < taken + prefetch and next(counted, None) is not None:
                    pass
            source.close()

    def _make(self, recipe: BatchRecipe, epoch: int, first: int) -> Generator[Any, None, None]:
        steps = range(first, self.steps(recipe.seeds), self.bulk)
        looks = self.rows is not None and self.rows.mode == "planned"
        begun: list[Future[Bulk]] = []
        scratch = recipe.assembler.scratch()

        def begin() -> Iterator[_Begun]:
            before: Future[Bulk] | None = None
            for step in steps:
                made = self._sample(recipe, epoch, step, before)
                before = made.pending
                begun.append(before)
                yield made

        try:
            # planned rows: the next bulk is sampled, and the one after it is being sampled
            for now, *later in bulks_with_lookahead(begin(), 2 if looks else 1):
                begun.remove(now.pending)
                following = later[0].pending.result() if looks and later else None
                yield from self._finish(recipe, now, following, scratch)
                del now, later, following
        except GeneratorExit:
            wait(begun)  # other ranks depend on this one
            raise

    def _sample(
        self, recipe: BatchRecipe, epoch: int, start: int, before: "Future[Bulk] | None"
    ) -> "_Begun":
        """Queues this rank's batches of the steps from `start` on; not begun if `before` failed."""
        seeds, size = recipe.seeds, self.grid.size
        end = min(start + self.bulk, self.steps(seeds))
        numbers = [step * size + self.grid.rank for step in range(start, end)]
        dealt = [seeds.batch(epoch, number % len(seeds)) for number in numbers]
        pending = self.sampler.sample_bulk_async(
            [nodes for nodes, _ in dealt],
            seed=seeds.seed,
            epoch=epoch,
            first_batch=numbers[0],
            step=size,
            after=before,
            exclude=[out for one in dealt if (out := left_out([one])) is not None]
            if recipe.leaves_out
            else None,
            rows=[tree_rows(one) for one in dealt] if recipe.disjoint else None,
        )
        return _Begun(start, pending, dealt)

    def _finish(
        self, recipe: BatchRecipe, now: "_Begun", later: Bulk | None, scratch: Scratch
    ) -> Iterator[Any]:
        bulk, dealt, start = now.pending.result(), now.dealt, now.start
        rows = None
        if self.rows is not None:
            empty = recipe.assembler.empty_rows  # memory of earlier batches, where it is free again
            reduce = self._reduce(recipe, bulk, later, scratch)
            rows = self.rows.fetch(bulk, later, empty, reduce)
        for step, (sample, asked) in enumerate(zip(bulk, dealt, strict=True), start):
            own = next(rows) if rows is not None else None
            with span("assemble"):
                batch = recipe.assembler.batch(sample, *asked, own)
            yield recipe.finish(replace(batch, share=self.share(recipe.seeds, step)), asked)
            del batch, own

    def _reduce(
        self, recipe: BatchRecipe, bulk: Bulk, later: Bulk | None, scratch: Scratch
    ) -> Reduce | None:
        """What makes sums of leaf rows, or repeats rows for trees; None if batches have them."""
        form, ahead = recipe.assembler, () if later is None else later.samples
        if recipe.disjoint:
            return TreeRows(form, bulk, ahead, scratch)
        if form.leaves == "rows":
            return None
        if self.sums is None:
            return LeafRows(form, bulk, ahead, scratch)
        return self.sums.of(form, bulk, ahead, scratch)

    def share(self, seeds: Seeds, step: int) -> float:
        """The weight of this rank's mean loss in the step: its seeds over the mean of all ranks."""
        return share_of(seeds, step, self.grid.rank, self.grid.size)

    # ---- queries -------------------------------------------------------------------------------

    def gather_ledger(self) -> dict[Link, Entry]:
        """What all ranks sent for samples and features; a collective call."""
        table = self.grid.gather_ledger(self.sampler.ledger)
        if self.rows is not None:
            self.rows.settle()  # other ranks may still need rows of this one
            table = added(table, self.grid.gather_ledger(self.rows.ledger))
        return table

    def counters(self) -> dict[str, Any]:
        """Rows this rank used and bytes it sent so far; see `traffic.count_traffic`."""
        return count_traffic(self.sampler, self.rows, self.sums)

    def explain(self) -> str:
        """Describes the grid, how rows are exchanged, and what was planned and sent so far."""
        return explain_traffic(self.grid, self.sampler, self.rows, self.sums)

    def close(self) -> None:
        """Serves other ranks' pending requests and ends threads; a collective call."""
        self._closed = True
        if self.rows is not None:
            self.rows.close()
        self.sampler.close()


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """A bulk that is being sampled."""

    start: int
    pending: "Future[Bulk]"
    dealt: Dealt


class _Counted:
    """An iterator that knows how many items it gave, and whether it raised."""

    def __init__(self, source: Iterator[Any]) -> None:
        self.source, self.count, self.failed = source, 0, False

    def __iter__(self) -> "_Counted":
        return self

    def __next__(self) -> Any:
        try:
            item = next(self.source)
        except StopIteration:
            raise
        except BaseException:
            self.failed = True
            raise
        self.count += 1
        return item
