"""dist_sampler: a sampler over ranks: each gets its own minibatches, equal to those of one rank.

The topology is a whole `Graph` on every rank (nothing is sent) or a `Partition`. Over a partition
the default mode asks the owners of rows once per layer and bulk (expand.py); mode "paper" runs the
published staged product (paper.py). In all of them a minibatch is a pure function of its number, so
they give the same bits.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from foregather.dist.baselines.stages_1_5d import Paper
from foregather.dist.sampling.column_owners import ColumnOwners
from foregather.dist.sampling.expand import layer_expander
from foregather.dist.sampling.layers import Frontier, grow, run
from foregather.dist.sampling.left_out import WHERE, find_left_out
from foregather.dist.sampling.partition import Partition
from foregather.dist.transport.in_order import submit_after
from foregather.dist.transport.ledger import Ledger
from foregather.dist.transport.rank_grid import Channel, RankGrid
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.loader.rank_options import Mode
from foregather.observe.trace import span
from foregather.sampling.bulk import Bulk, Sample
from foregather.sampling.fused import (
    FusedSampler,
    check_trees,
    gives_weights,
    leaves_out_anywhere,
)
from foregather.sampling.identity import values_of
from foregather.sampling.joined_trees import TreeSeeds, join_trees
from foregather.sampling.layerwise import FastGCN
from foregather.sampling.links.excluded import Excluded
from foregather.sampling.matrix import LayerGraph, MatrixSampler, keeps_verbs
from foregather.sampling.sampler import Sampler
from foregather.sampling.seeds import distinct_seeds

__all__ = ["DistSampler", "Mode"]

Array = npt.NDArray[Any]


class DistSampler:
    """A sampler over the ranks of a grid; creation and calls are collective.

    Args:
        sampler: the rule: `Neighbor`, or any matrix program over a partition (mode "paper" supports
            `Neighbor` and `Ladies`); any sampler over a replicated graph.
        topology: the whole graph, or this rank's block of it: block number `grid.row` of
            `grid.num_rows`.
        grid: the ranks.
        mode: see `Mode`.
        threads: threads to use; the result does not depend on it.
        channel: links to use (`Grid.channel`), shared with other samplers that take turns; None
            makes new ones.

    Raises:
        InputError: the sampler has no such mode, the block is not this rank's, the grid does not
            fit the mode, or ranks have different graphs or samplers.
    """

    def __init__(
        self,
        sampler: Sampler,
        topology: Graph | Partition,
        grid: RankGrid,
        *,
        mode: Mode = "owner",
        threads: int = 1,
        channel: Channel | None = None,
    ) -> None:
        self.sampler, self.topology, self.grid = sampler, topology, grid
        self.mode, self.threads = mode, threads
        self._check()
        held = "partitioned" if isinstance(topology, Partition) else "replicated"
        facts = {"graph (its digest)": topology.digest, "sampler": values_of(sampler)}
        grid.agree_all({**facts, "mode": mode, "topology": held})
        self._own_channel = channel is None
        self.channel = channel or grid.channel()
        self._columns: ColumnOwners | None = None
        if isinstance(topology, Partition):
            if mode == "paper":
                self._paper = Paper(self.channel, topology, grid, threads)
            elif isinstance(sampler, FastGCN) and keeps_verbs(sampler):
                task = self.channel.thread.submit(ColumnOwners, self.channel, topology)
                self._columns = task.result()

    @property
    def ledger(self) -> Ledger:
        """What this rank sent for this sampler."""
        return self.channel.ledger

    def sample_bulk(
        self,
        seeds: Sequence[Array],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        step: int = 1,
        exclude: Sequence[Excluded] | None = None,
    ) -> Bulk:
        """Samples this rank's minibatches; a collective call, possibly with none on some ranks.

        Args:
            seeds: seed node ids of each minibatch of this rank.
            seed: seed of the run, the same on all ranks.
            epoch: number of the epoch, the same on all ranks.
            first_batch: number of this rank's first minibatch in the epoch.
            step: its minibatches have the numbers first_batch, first_batch + step, ...
            exclude: edges that are left out before anything is drawn: an `Excluded` of one
                minibatch for each, by ends; None on all ranks, or on none.

        Raises:
            InputError: a seed is not a node of the graph.
            RankError: a rank died or stalled.
        """
        pending = self.sample_bulk_async(
            seeds,
            seed=seed,
            epoch=epoch,
            first_batch=first_batch,
            step=step,
            exclude=exclude,
        )
        return pending.result()

    def sample_bulk_async(
        self,
        seeds: Sequence[Array],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        step: int = 1,
        after: "Future[Bulk] | None" = None,
        exclude: Sequence[Excluded] | None = None,
        rows: Sequence[Array] | None = None,
    ) -> "Future[Bulk]":
        """Like `sample_bulk`, in the background: `result()` of the returned object is the bulk.

        Bulks are sampled in the order of the calls, in separate process groups, so that the
        training step and its collectives continue meanwhile. If the bulk `after`, queued earlier,
        fails, this one is not begun and fails in the same way. With `rows`, minibatches are of
        disjoint trees: see `FusedSampler.sample_trees`.
        """
        batches = [first_batch + step * i for i in range(len(seeds))]
        keys = (seed, epoch, exclude)
        if rows is not None:
            trees = (TreeSeeds.of(seeds, rows), batches, *keys)
            return submit_after(self.channel.thread, after, self._timed, self._trees, *trees)
        arguments = (list(seeds), batches, step, *keys)
        return submit_after(self.channel.thread, after, self._timed, self._sample, *arguments)

    def close(self) -> None:
        """Ends the background thread, unless the channel was passed in."""
        if self._own_channel:
            self.channel.close()

    # ---- how -----------------------------------------------------------------------------------

    def _check(self) -> None:
        topology, grid = self.topology, self.grid
        if self.mode not in ("owner", "paper"):
            raise InputError(f"mode is {self.mode!r}, expected 'owner' or 'paper'")
        if not isinstance(topology, Partition):
            return
        if (topology.num_blocks, topology.block) != (grid.num_rows, grid.row):
            raise InputError(
                f"rank {grid.rank} has block {topology.block} of {topology.num_blocks}, expected "
                f"block {grid.row} of {grid.num_rows}: its row of the grid"
            )
        if self.mode == "paper":
            Paper.check(self.sampler, grid)
        elif not isinstance(self.sampler, MatrixSampler):
            raise InputError(
                f"{type(self.sampler).__name__} walks over the whole graph, which a partition does "
                "not provide; use topology='replicated', all neighbour lists on every rank"
            )

    def _timed(self, how: Callable[..., Bulk], *arguments: Any) -> Bulk:
        with span("sample"), self.channel.clock.phase("frontier"):
            return how(*arguments)

    def _sample(
        self,
        seeds: list[Array],
        batches: list[int],
        step: int,
        seed: int,
        epoch: int,
        exclude: Sequence[Excluded] | None,
    ) -> Bulk:
        topology: Any = self.topology
        if isinstance(topology, Graph):
            with self.channel.clock.phase("picks"):  # its kernels do all phases at once
                return self._replicated(topology, seeds, batches, step, seed, epoch, exclude)
        self._check_excluding(len(seeds), exclude)
        where = self._where(batches, epoch)
        nodes, positions = distinct_seeds(topology, seeds)
        dtype = topology.indices.dtype
        if self.mode == "paper":
            return self._paper.sample(self.sampler, where, nodes, positions, batches, seed, epoch)
        assert isinstance(self.sampler, MatrixSampler)
        expand = self._expander(where, exclude)
        if self._columns is not None:
            self.grid.watch.where = where
            assert isinstance(self.sampler, FastGCN)
            self._columns.choose(self.sampler, batches, seed, epoch)
        return run(self.sampler, expand, dtype, nodes, positions, batches, seed, epoch)

    def _where(self, batches: Sequence[int], epoch: int) -> str:
        """What is being sampled, for messages."""
        numbers = f"{batches[0]} to {batches[-1]}" if batches else "none"
        return f"epoch {epoch}, minibatches {numbers} of rank {self.grid.rank}"

    def _expander(
        self, where: str, exclude: Sequence[Excluded] | None
    ) -> Callable[[Frontier], LayerGraph]:
        """What expands the layers of a bulk over a partition; its calls are collective."""
        assert isinstance(self.sampler, MatrixSampler) and isinstance(self.topology, Partition)
        left = None
        if exclude is not None:
            self.grid.watch.where = where
            left = find_left_out(self.channel, self.topology, exclude)
        expand = layer_expander(
            self.channel, self.topology, self.sampler, self.threads, self._columns, left
        )

        def layer(front: Frontier) -> LayerGraph:
            self.grid.watch.where = f"{where}, layer {front.layer}"
            return expand(front)

        return layer

    def _check_excluding(self, count: int, exclude: Sequence[Excluded] | None) -> None:
        """Refuses what a partition does not leave out; the same on all ranks but for the count."""
        if exclude is None:
            return
        if self.mode == "paper" or not leaves_out_anywhere(self.sampler):
            raise InputError(
                "edges are left out of a partitioned topology by a uniform Neighbor and by Labor "
                f"with mode='owner', not by {type(self.sampler).__name__} with "
                f"mode={self.mode!r}; use topology='replicated', or leave exclude out"
            )
        if len(exclude) != count:
            raise InputError(
                f"exclude is for {len(exclude)} minibatches, but there are {count}; pass one for "
                "each of them"
            )

    def _replicated(
        self,
        graph: Graph,
        seeds: list[Array],
        batches: list[int],
        step: int,
        seed: int,
        epoch: int,
        exclude: Sequence[Excluded] | None,
    ) -> Bulk:
        if exclude is None and (step == 1 or len(seeds) < 2):
            first = batches[0] if batches else 0
            return self.sampler.sample_bulk(
                graph, seeds, seed=seed, epoch=epoch, first_batch=first, threads=self.threads
            )
        given = _each(exclude, len(seeds))
        made = [
            self.sampler.sample_bulk(
                graph,
                [ids],
                seed=seed,
                epoch=epoch,
                first_batch=batch,
                threads=self.threads,
                **options,
            )[0]
            for ids, batch, options in zip(seeds, batches, given, strict=True)
        ]
        return _bulk_of(made, batches, seed, epoch)

    def _trees(
        self,
        trees: TreeSeeds,
        batches: list[int],
        seed: int,
        epoch: int,
        exclude: Sequence[Excluded] | None,
    ) -> Bulk:
        """Minibatches of disjoint trees."""
        rule, topology = check_trees(self.sampler), cast(Any, self.topology)
        if isinstance(topology, Graph):
            with self.channel.clock.phase("picks"):
                return self._replicated_trees(rule, topology, trees, batches, seed, epoch, exclude)
        if self.mode == "paper":
            raise InputError(
                "mode 'paper' multiplies whole minibatches, so it samples no disjoint trees; use "
                "mode='owner'"
            )
        self._check_excluding(len(trees.ptr) - 1, exclude)
        if exclude:  # a rank may have no minibatch
            stacked = Excluded.stack(exclude, WHERE)
            exclude = [stacked.one_by_one(np.diff(trees.ptr), topology.num_nodes, WHERE)]
        nodes, _ = distinct_seeds(topology, trees.one_by_one)
        expand, dtype = self._expander(self._where(batches, epoch), exclude), topology.indices.dtype
        keys = trees.keys.tolist()
        layers = grow(rule, expand, dtype, nodes, keys, seed, epoch)
        seeds = trees.flat.astype(dtype)
        how = (rule.num_layers, gives_weights(rule))
        made = join_trees(layers, seeds, trees.ptr, batches, *how)
        return _bulk_of(made, batches, seed, epoch)

    def _replicated_trees(
        self,
        rule: FusedSampler,
        graph: Graph,
        trees: TreeSeeds,
        batches: list[int],
        seed: int,
        epoch: int,
        exclude: Sequence[Excluded] | None,
    ) -> Bulk:
        """The same where all neighbour lists are here."""
        how: dict[str, Any] = {"seed": seed, "epoch": epoch, "threads": self.threads}
        made = []
        parts = zip(trees.parts(), _each(exclude, len(batches)), strict=True)
        for (ids, keys), options in parts:
            made.append(rule.sample_trees(graph, [ids], [keys], **how, **options)[0])
        return _bulk_of(made, batches, seed, epoch)


def _each(exclude: Sequence[Excluded] | None, count: int) -> list[dict[str, Any]]:
    """What each minibatch leaves out, as an argument."""
    return [{}] * count if exclude is None else [{"exclude": one} for one in exclude]


def _bulk_of(samples: Sequence[Sample], batches: Sequence[int], seed: int, epoch: int) -> Bulk:
    """Minibatches with these numbers."""
    numbered = [replace(s, batch=b) for s, b in zip(samples, batches, strict=True)]
    return Bulk(numbered, seed, epoch, batches[0] if batches else 0)
