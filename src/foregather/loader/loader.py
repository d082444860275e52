"""loader: yields the batches of an epoch; the step from a graph and a sampler to a training loop.

Batches are a pure function of (graph, sampler, input nodes, seed, epoch): threads, bulk size and
prefetch change when they are made, never what they are. So a position in training is a few
integers, and resuming is exact.
"""

from collections.abc import Callable
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any, Literal

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.graph.load import as_mapped
from foregather.graph.on_disk.stamp import Stamp
from foregather.loader.arguments import (
    check_disjoint,
    check_engine,
    check_norm,
    check_replay,
    check_storage,
    count_ahead,
    has_edge_attr,
    make_sampler,
    refuse,
)
from foregather.loader.arranged import DEFAULT_BULK, arrange_alone, arrange_over_ranks
from foregather.loader.batch_recipe import BatchRecipe
from foregather.loader.batches.assemble import Assembler
from foregather.loader.batches.leaf_sums import apply, check_leaves
from foregather.loader.batches.lists_ahead import ListsAhead
from foregather.loader.disk.epoch_plan import EpochPlan
from foregather.loader.epoch_loader import EpochLoader
from foregather.loader.loader_state import identity
from foregather.loader.loop import Turns
from foregather.loader.memory.layout import Layout
from foregather.loader.memory.storage import Storage
from foregather.loader.near import Near
from foregather.loader.one_batch import one_batch
from foregather.loader.options import OLD_ARGUMENTS, BatchContents, contents_from, ranks_from
from foregather.loader.rank_options import GridOfRanks, RankOptions, RankSource, rank_setup
from foregather.loader.seeds import MOST_EPOCH, Seeds
from foregather.loader.source import BatchSource, MemorySource
from foregather.sampling.bulk import Expand
from foregather.sampling.sampler import Sampler
from foregather.units import to_whole

if TYPE_CHECKING:
    import torch

    from foregather.plan.cost import PlanCost
    from foregather.plan.planner import PlanSummary

__all__ = ["Loader"]


class Loader(EpochLoader):
    """Iterates over minibatches, with PyG's argument names.

    `for batch in loader` is one epoch; the next loop is the next epoch, also after a `break`. After
    `load_state_dict` the first loop continues inside the epoch. Background threads sample and
    gather ahead; they end with the loop, however it ends.

    Several loops: each yields its own batches, whatever the others do. With `memory=` they take
    turns, because the budget is for one: a loop inside another (an evaluation with `beside` in
    mid-epoch) costs the outer one its cache and its prefetched batches; for concurrent loops make
    one Loader each. Over ranks all must take turns in the same order, in one thread.

    Args:
        graph: the graph to sample.
        num_neighbors: fan-outs, one per layer, -1 for all, with `replace` too; or pass `sampler`.
        input_nodes: the name of a split, a boolean mask, node ids (repeats allowed), or None for
            all nodes.
        batch_size: input nodes per batch.
        sampler: any Sampler, instead of num_neighbors, replace and expand.
        shuffle: a new order of the input nodes each epoch. A `foregather.Near` deals nodes whose
            feature rows lie together to the same batches, so that less is read; batches are then
            less mixed.
        drop_last: drop a smaller last batch.
        replace: sample neighbours with replacement.
        expand: "once" (PyG's rule, one edge_index) or "per-layer" (the papers' rule, `layers`).
        disjoint: every seed has its own tree (`batch.batch` numbers them), so that a seed
            given twice has two; a tree is a pure function of (seed, epoch, its `input_id`),
            whatever else is in the batch.
        seed: what order and samples are derived from.
        transform: called with each batch, in the thread that iterates.
        device: where batches are moved to.
        contents: what batches hold and in which form: labels, edge features, weights of a GCN,
            PyG's Data or a plain Batch.
        threads: of sampling and gathering; 0: all, or half of them while nobody waits for batches.
        bulk: batches sampled together, or "auto": as many as `memory` holds, 8 without it. The
            first have 1, 2, 4, ... batches, from disk 1 and 2. In memory large samples are made
            one for two threads at a time, and two at least.
        prefetch: batches made ahead, at most 4096; bulks, if they are small and in memory. "auto":
            2, or of large batches of a graph in memory 1. 0, for a graph in memory: samples are
            made ahead, and rows only when their batch is asked for, which takes the least memory.
        memory: bytes ("2GB"), or "auto": most of what the machine has free. None loads a graph
            from a folder when the first loop begins, or does as "auto" if it does not fit. For a
            graph from a folder: for everything, the graph included; what does not fit is read from
            disk according to a plan (see `storage`). For a graph in memory: for what the Loader
            holds in addition to it; see `loader.memory.budget`. With `grid`: on each rank, for its
            feature block and for feature rows of other ranks; for those alone if the graph, or by
            `storage` the block, is in memory.
        storage: with `memory`: "features" reads feature rows from disk, "topology" neighbour
            lists, "disk" both, "memory" nothing (then `memory` covers everything but the graph);
            "auto" keeps everything in memory if it fits, and otherwise takes the way whose epoch is
            predicted to take the fewest seconds. With `grid` "features" and "disk" read the rows
            of the rank's block from its own disk, and neighbour lists are in memory.
        grid: the ranks of a run under torchrun: each takes its own batches, one per step, and all
            take the same number of steps; `batch_size` is that of one rank, and `len` counts
            steps. Together they are the batches of one rank; see `Batch.share` for the last step.
        ranks: how the ranks of `grid` hold the graph, sample and send; refused without it.
        others: replay=E uses order and samples of one epoch for E epochs; rows read from disk are
            then packed in the order of use by the first, so that the others read from front to
            back. Gradients of these epochs are not independent; see `loader.disk.replay`. Then
            other arguments of PyG; refused unless they ask for nothing. One is understood:
            weight_attr="edge_weight" samples neighbours by the graph's edge weights. Fields of
            `contents` and `ranks` are taken too, with a warning, as in release 0.1.

    Raises:
        InputError: an argument breaks its rule; the message says which.
        BudgetError: `memory` does not hold one batch; the message states the minimum. In a loop: a
            batch is so much larger than the first ones that it would exceed `memory`.
        FormatError: the folder of the graph changed since it was opened; also at the start of
            each loop, which reads it: then also for a block that does not match its checksum.
        StorageError: a file cannot be read; likewise.
    """

    _maker: BatchRecipe
    _source: BatchSource

    def __init__(
        self,
        graph: Graph,
        num_neighbors: Any = None,
        input_nodes: Any = None,
        batch_size: int = 1,
        *,
        sampler: Sampler | None = None,
        shuffle: bool | Near = False,
        drop_last: bool = False,
        replace: bool = False,
        expand: Expand = "once",
        disjoint: bool = False,
        seed: int = 0,
        transform: Callable[[Any], Any] | None = None,
        device: "torch.device | str | None" = None,
        contents: BatchContents | None = None,
        threads: int = 0,
        bulk: int | Literal["auto"] = DEFAULT_BULK,
        prefetch: int | Literal["auto"] = "auto",
        memory: str | int | None = None,
        storage: Storage = "auto",
        grid: GridOfRanks | None = None,
        ranks: RankOptions | None = None,
        **others: Any,
    ) -> None:
        replay = check_replay(others.pop("replay", 1), grid)
        held, over = contents_from(contents, others), ranks_from(ranks, others, grid)
        refuse(others, Loader, OLD_ARGUMENTS)
        check_engine(graph, threads, transform, device)
        check_storage(storage, bulk)
        self.device, self.transform = device, transform
        self.prefetch = count_ahead(prefetch, grid)
        pin = str(device).startswith("cuda")
        rule = make_sampler(num_neighbors, sampler, replace, expand, others.get("weight_attr"))
        self._check_rule(rule)
        check_norm(held.norm, rule)
        check_leaves(held.leaves, graph, rule, held.norm)
        edges = has_edge_attr(graph, held.edge_attr)
        self._graph = graph
        view = as_mapped(graph)  # nothing is loaded until it is known what fits
        recipe = BatchRecipe(
            view,
            rule,
            self._seeds(graph, input_nodes, (batch_size, shuffle, drop_last, seed)),
            Assembler(
                view,
                held.labels,
                edges,
                held.norm,
                pin,
                threads,
                rule.whole_weights,
                leaves=held.leaves,
            ),
            threads,
            held.edge_index,
            held.uses_pyg(),
            disjoint=check_disjoint(disjoint, rule, memory, grid, held.leaves),
            replay=replay,
        )
        self._stamp = Stamp.of(graph)
        self._go_to(0, 0)
        if grid is not None:
            setup = rank_setup(recipe, over, bulk, memory, storage, self.prefetch)
            made = arrange_over_ranks(graph, recipe, grid, setup)
        else:
            made = arrange_alone(graph, recipe, memory, bulk, self.prefetch, storage)
        self._maker, self._home, self._source = made.recipe, made.home, made.source
        self._ranks, self._bulk = made.ranks, made.bulk
        if isinstance(self._source, MemorySource):
            self._source.adapts = prefetch == "auto"
        # loops under a budget, or over ranks, take turns; others share nothing
        self._turns = Turns(grid is not None) if made.turns else None

    def _check_rule(self, rule: Sampler) -> None:
        """Refuses samplers that cannot do what is asked of batches; of nodes nothing is."""

    def _seeds(self, graph: Graph, asked: Any, dealt: tuple[Any, Any, Any, Any]) -> Seeds:
        """What is asked about, and how it is dealt: batch_size, shuffle, drop_last and seed."""
        return Seeds.make(graph, asked, *dealt)

    # ---- queries ---------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that batches are sampled from."""
        return self._graph

    data = graph  # PyG's name

    def _check_source(self) -> None:
        if self._stamp is not None:
            self._stamp.check()

    def _furnished(self, maker: BatchRecipe) -> BatchRecipe:
        return self._home.furnish(maker)

    def _identity(self) -> dict[str, Any]:
        return identity(self._maker, self._source.ranks)

    def beside(self, input_nodes: Any, batch_size: int | None = None) -> "Loader":
        """Returns a loader of other input nodes, in order, with the same sampler and memory.

        Cache, topology on disk and budget are shared, so with a budget the two take turns: see
        "Several loops" above.

        Args:
            input_nodes: as for a new loader.
            batch_size: None takes half of this one's: room for nodes with more neighbours.
        """
        size = max(1, self.batch_size // 2) if batch_size is None else batch_size
        seeds = Seeds.make(self.graph, input_nodes, size, seed=self.seed)
        other = self.__copy__()
        other._maker = replaced(self._maker, seeds=seeds, replay=1, ahead=ListsAhead())
        other._go_to(0, 0)
        return other

    def one(self, nodes: Any, epoch: int = 0) -> Any:
        """Returns the batch of these nodes at once: no thread, and the position is not changed.

        It is a pure function of (seed, epoch, nodes): bit for bit the first batch of that epoch of
        `beside(nodes, len(nodes))`, from memory as from disk. Rows read for it are not kept, and
        it takes memory beside the budget.

        Args:
            nodes: ids, a mask or the name of a split; their order and repeats count.
            epoch: number of the epoch whose samples are drawn.

        Raises:
            InputError: there is no node, one does not exist, the loader is over ranks, or its
                sampler chooses the nodes of batches itself.
        """
        if self._ranks is not None:
            raise InputError(
                "this Loader is over ranks, which make batches together; for one batch at once "
                "make a Loader without grid="
            )
        if self.sampler.draws_seeds:
            raise InputError(
                f"{type(self.sampler).__name__} chooses the nodes of batches itself, so there is "
                "no batch of given ones; use Neighbor, Labor, Full or RandomWalk"
            )
        number = to_whole(epoch, "epoch", 0, MOST_EPOCH)
        seeds = Seeds.make(self.graph, nodes, 1, seed=self.seed)
        if not seeds.count:
            raise InputError("nodes is empty, expected at least one node")
        self._check_source()
        topology = getattr(self._source, "topology", None)
        if topology is not None and self._turns is not None:
            self._turns.stop()  # a loop that reads the same lists goes on after this
        seeds = replaced(seeds, batch_size=seeds.count)
        maker = replaced(self._maker, seeds=seeds, ahead=ListsAhead())
        batch = one_batch(self._furnished(maker), number, topology)
        if self.device is not None:
            batch = batch.to(self.device, non_blocking=True)
        return batch if self.transform is None else apply(self.transform, batch)

    # ---- memory and disk -------------------------------------------------------------------

    @property
    def layout(self) -> Layout | None:
        """How `memory` is divided if the graph is read from disk; otherwise None."""
        return self._source.layout

    def plan(self, epoch: int | None = None, batches: int | None = None) -> EpochPlan:
        """Predicts what an epoch will read, by only sampling and planning it.

        Args:
            epoch: number of the epoch; None is the next.
            batches: plan only this many, from the first.

        Raises:
            InputError: nothing is planned (no `memory=`, or all fits), or the loader is over ranks.
        """
        number = self.epoch if epoch is None else epoch
        maker = self._home.furnish(self._maker)
        return self._source.plan(maker, maker.drawn(number), batches)

    def counters(self) -> dict[str, Any]:
        """Counters of what was read or sent so far, by part; empty if there are none."""
        facts = self._source.counters()
        edges = self._maker.assembler.edge_rows
        return facts if edges is None else facts | {"edge_features": edges.counters()}

    def planned(self) -> "tuple[PlanSummary, PlanCost] | None":
        """The totals of the plans of the current or last epoch; None if nothing is planned."""
        return self._source.planned()

    def explain(self) -> str:
        """Describes layout, way of reading, predicted and measured reads, and what batches lack."""
        lines, extra = [self._source.explain()], ", ".join(sorted(self.graph.extra))
        if lists := self._maker.ahead.explain():
            lines.append(lists)
        if extra:
            lines.append(f"not in batches: {extra} (look them up by n_id)")
        return "\n".join(lines)

    @property
    def ranks(self) -> RankSource | None:
        """The source of batches over ranks, with its ledger; None on one rank."""
        return self._ranks

    def close(self) -> None:
        """Frees the cache and stops reading; a loop that continues starts with an empty cache.

        Over ranks it is a collective call, and no loop may continue.
        """
        if self._turns is not None:
            self._turns.stop()
        self._source.close()
        if self._maker.assembler.edge_rows is not None:
            self._maker.assembler.edge_rows.close()
        self._maker.assembler.clear()
        self._home.release(self.sampler)
