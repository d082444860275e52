"""over_ranks: makes this rank's batches of an epoch; what a Loader with a grid runs on.

Minibatches are those of one rank: the epoch has the same batches, and step t takes the batches
t p, ..., t p + p - 1, one a rank. Where the last step has fewer than p, the ranks that are left
over take batches from the start of the epoch again, marked by `share` 0: every rank takes the same
number of steps. Feature rows cross by plan: the bulk after the one that is fetched is sampled
already, so the plan looks ahead, and the one after that is sampled meanwhile.
"""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foregather.dist.agree import agree
from foregather.dist.crossed import count_crossed, explain_crossed
from foregather.dist.exchange import FeatureExchange
from foregather.dist.facts import facts_of, seed_facts
from foregather.dist.fetch_rows import exchange_of
from foregather.dist.grid import Grid
from foregather.dist.ledger import Entry, Link, added
from foregather.dist.partition import Partition, cut_rows
from foregather.dist.sampling import DistSampler
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk
from foregather.train.feed import ahead
from foregather.train.ranks import BlockStorage, Mode, Topology, WireFormat
from foregather.train.seeds import Seeds

if TYPE_CHECKING:
    from foregather.train.maker import Dealt, Maker

__all__ = ["OverRanks"]

Int = npt.NDArray[np.int64]


class OverRanks:
    """How a Loader makes its batches over ranks; all ranks make it and loop together.

    Args:
        maker: graph, rule and input nodes.
        grid: the ranks.
        topology: see `Topology`.
        mode: of sampling over a partition, see `Mode`.
        bulk: batches of this rank sampled together.
        memory: bytes for feature rows; None decides by the size of the blocks, see
            `fetch_rows.exchange_of`.
        wire: what rows are while they cross.
        storage: where this rank's feature block is.
        prefetch: batches that a loop makes ahead; a loop that is left early goes on so far.

    Raises:
        InputError: an argument breaks its rule, or the ranks differ.
        BudgetError: `memory` is too small; the message says the minimum.
    """

    def __init__(
        self,
        maker: "Maker",
        grid: Grid,
        topology: Topology = "partitioned",
        mode: Mode = "owner",
        bulk: int = 8,
        memory: int | None = None,
        wire: WireFormat = "exact",
        storage: BlockStorage = "auto",
        prefetch: int = 2,
    ) -> None:
        self.grid, self.bulk = grid, bulk
        graph, threads = maker.graph, maker.threads
        how = {
            "topology": topology,
            "mode": mode,
            "bulk": f"{bulk} batches",
            "memory": "not given" if memory is None else f"{memory} bytes",
            "wire": wire,
            "storage": storage,
            "prefetch": f"{prefetch} batches",
        }
        grid.agree_all({**facts_of(maker), **how})
        if topology not in ("partitioned", "replicated"):
            raise InputError(f"topology is {topology!r}, expected 'partitioned' or 'replicated'")
        held: Graph | Partition = graph
        starts = cut_rows(graph.indptr, grid.num_rows, "nodes")
        if topology == "partitioned":
            held = self._partition(graph)
            starts = held.row_starts
        self.sampler = DistSampler(maker.sampler, held, grid, mode=mode, threads=threads)
        self.rows: FeatureExchange | None = None
        if graph.features is not None:
            self.rows = exchange_of(graph, starts, grid, mode, memory, wire, threads, storage)
        #: Whether anything crosses: without, ranks loop independently of each other.
        self._meets = topology == "partitioned" or self.rows is not None
        self._number, self._loops = grid.next_number(), 0
        self._closed = False

    def _partition(self, graph: Graph) -> Partition:
        if graph.path is None:
            return Partition.of(graph, self.grid.num_rows, self.grid.row)
        return Partition.open(graph.path, self.grid.num_rows, self.grid.row)

    @property
    def size(self) -> int:
        """Ranks."""
        return self.grid.size

    def steps(self, seeds: Seeds) -> int:
        """Steps of an epoch, the same on all ranks."""
        return -(-len(seeds) // self.grid.size)

    # ---- one epoch -----------------------------------------------------------------------------

    def batches(
        self, maker: "Maker", epoch: int, first: int, prefetch: int
    ) -> Generator[Any, None, None]:
        """Batches of the steps `first` to the last, made up to `prefetch` ahead.

        A loop that is left early goes on, without a consumer, to where every rank is certain to
        come: what one rank has asked of the others by then is answered, and nothing is left over
        that a later loop could take for its own.
        """
        if self._closed:
            raise InputError("the loader was closed; make a new one on all ranks")
        if self._meets:
            place = {"epoch": f"{epoch}", "first step of the loop": f"{first}"}
            self._loops += 1
            key = f"loop/{self._number}/{self._loops}"
            agree(self.grid, key, {**seed_facts(maker.seeds), **place})
        source = self._make(maker, epoch, first)
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

    def _make(self, maker: "Maker", epoch: int, first: int) -> Generator[Any, None, None]:
        starts = range(first, self.steps(maker.seeds), self.bulk)
        looks = self.rows is not None and self.rows.mode == "planned"
        ahead_of = 2 if looks else 1  # bulks that are sampled, or being sampled, beyond this one
        begun: deque[tuple[Future[Bulk], Dealt]] = deque()
        left = iter(starts)
        try:
            for start in starts:
                while len(begun) < ahead_of and (following := next(left, None)) is not None:
                    begun.append(self._sample(maker, epoch, following))
                pending, dealt = begun.popleft()
                bulk = pending.result()
                later = begun[0][0].result() if looks and begun else None
                if (following := next(left, None)) is not None:
                    begun.append(self._sample(maker, epoch, following))
                yield from self._finish(maker, bulk, later, dealt, start)
                del bulk, later
        except GeneratorExit:
            wait([pending for pending, _ in begun])  # other ranks count on this one
            raise

    def _sample(self, maker: "Maker", epoch: int, start: int) -> "tuple[Future[Bulk], Dealt]":
        """Begins to sample this rank's batches of the steps from `start` on."""
        seeds, size = maker.seeds, self.grid.size
        end = min(start + self.bulk, self.steps(seeds))
        numbers = [step * size + self.grid.rank for step in range(start, end)]
        dealt = [seeds.batch(epoch, number % len(seeds)) for number in numbers]
        options = {"seed": seeds.seed, "epoch": epoch, "first_batch": numbers[0], "step": size}
        return self.sampler.sample_bulk_async([nodes for nodes, _ in dealt], **options), dealt

    def _finish(
        self, maker: "Maker", bulk: Bulk, later: Bulk | None, dealt: "Dealt", start: int
    ) -> Iterator[Any]:
        rows = self.rows.fetch(bulk, later) if self.rows is not None else None
        for step, (sample, (nodes, input_id)) in enumerate(zip(bulk, dealt, strict=True), start):
            own = next(rows) if rows is not None else None
            batch = maker.assembler.batch(sample, nodes, input_id, own)
            yield maker.finish(replace(batch, share=self.share(maker.seeds, step)))
            del batch, own

    def share(self, seeds: Seeds, step: int) -> float:
        """What this rank's mean loss counts in the step: its seeds over the mean of all ranks."""
        size = self.grid.size
        counts = [
            max(0, min(seeds.batch_size, seeds.count - number * seeds.batch_size))
            for number in range(step * size, min((step + 1) * size, len(seeds)))
        ]
        own = counts[self.grid.rank] if self.grid.rank < len(counts) else 0
        return own * size / sum(counts)

    # ---- what can be asked ---------------------------------------------------------------------

    def gather_ledger(self) -> dict[Link, Entry]:
        """What all ranks sent for samples and features; all ranks call this together."""
        table = self.grid.gather_ledger(self.sampler.ledger)
        if self.rows is not None:
            self.rows.settle()  # other ranks may still want rows of this one
            table = added(table, self.grid.gather_ledger(self.rows.ledger))
        return table

    def counters(self) -> dict[str, Any]:
        """Rows this rank used and bytes it sent so far; see `crossed.count_crossed`."""
        return count_crossed(self.sampler, self.rows)

    def explain(self) -> str:
        """The grid, how rows cross, and what crossed so far, planned beside sent."""
        return explain_crossed(self.grid, self.sampler, self.rows)

    def close(self) -> None:
        """Lets other ranks have what they count on, and ends threads; all ranks call this."""
        self._closed = True
        if self.rows is not None:
            self.rows.close()
        self.sampler.close()


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
