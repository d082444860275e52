"""fused: samplers whose bulks are made by one kernel of the core, cached per graph."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk, Sample, to_samples
from foregather.sampling.joined_trees import TreeSeeds
from foregather.sampling.links.excluded import Entries, Excluded, rows_of
from foregather.sampling.matrix import MatrixSampler, keeps_verbs
from foregather.sampling.sampler import Sampler
from foregather.sampling.seeds import flatten

__all__ = [
    "BulkKernel",
    "FusedSampler",
    "KernelSampler",
    "check_excluding",
    "check_trees",
    "gives_weights",
    "leaves_out_anywhere",
]

Array = npt.NDArray[Any]


class BulkKernel(Protocol):
    """The interface of a kernel of the core."""

    def sample(
        self,
        seeds: Array,
        ptr: Array,
        seed: int,
        epoch: int,
        first_batch: int,
        threads: int,
        exclude: Entries | None = None,
        /,
    ) -> Any:
        """The minibatches of a bulk, as arrays."""

    def sample_joined(
        self,
        seeds: Array,
        ptr: Array,
        seed: int,
        epoch: int,
        first_batch: int,
        threads: int,
        exclude: Entries | None = None,
        /,
    ) -> Any:
        """The minibatches of a bulk, one after another in the same arrays."""

    def sample_trees(
        self,
        seeds: Array,
        rows: Array,
        ptr: Array,
        seed: int,
        epoch: int,
        threads: int,
        exclude: Entries | None = None,
        /,
    ) -> Any:
        """The minibatches of a bulk of disjoint trees, as arrays."""


class KernelSampler(MatrixSampler):
    """A matrix sampler with a kernel; program and kernel give the same bits.

    A subclass that overrides a verb runs as a matrix program.
    """

    @abstractmethod
    def _sample_by_kernel(
        self,
        graph: Graph,
        seeds: Sequence[Array],
        seed: int,
        epoch: int,
        first_batch: int,
        threads: int,
    ) -> list[Sample]:
        """The minibatches of a bulk, made by the kernel."""

    def sample_bulk(
        self,
        graph: Graph,
        seeds: Sequence[Array],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
    ) -> Bulk:
        """Samples len(seeds) minibatches at once; see `Sampler.sample_bulk`."""
        if not keeps_verbs(self):
            return super().sample_bulk(
                graph, seeds, seed=seed, epoch=epoch, first_batch=first_batch, threads=threads
            )
        samples = self._sample_by_kernel(graph, seeds, seed, epoch, first_batch, threads)
        return Bulk(samples, seed, epoch, first_batch)


class FusedSampler(KernelSampler):
    """A node-wise sampler whose kernel is made for a graph and kept."""

    @abstractmethod
    def _kernel(self, graph: Graph) -> BulkKernel:
        """The kernel of a graph."""

    def _sample_by_kernel(
        self,
        graph: Graph,
        seeds: Sequence[Array],
        seed: int,
        epoch: int,
        first_batch: int,
        threads: int,
    ) -> list[Sample]:
        """The minibatches of a bulk, made by the graph's kernel."""
        flat, ptr = flatten(seeds)
        made = self._kernel(graph).sample(flat, ptr, seed, epoch, first_batch, threads)
        return to_samples(made, first_batch, self.expand)

    def sample_bulk(
        self,
        graph: Graph,
        seeds: Sequence[Array],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
        exclude: Excluded | None = None,
    ) -> Bulk:
        """Samples len(seeds) minibatches at once; see `Sampler.sample_bulk`.

        Args:
            graph: the graph to sample.
            seeds: seed node ids of each minibatch.
            seed: seed of the run.
            epoch: number of the epoch.
            first_batch: number of the first of these minibatches.
            threads: threads to use, 0 for all; the result does not depend on it.
            exclude: edges that the minibatches leave out, before anything is drawn.

        Raises:
            InputError: a seed is not a node of the graph, or what is left out does not fit.
        """
        if exclude is None:
            return super().sample_bulk(
                graph, seeds, seed=seed, epoch=epoch, first_batch=first_batch, threads=threads
            )
        check_excluding(self)
        flat, ptr = flatten(seeds)
        entries = exclude.of(rows_of(graph), np.diff(ptr), False)
        made = self._kernel(graph).sample(flat, ptr, seed, epoch, first_batch, threads, entries)
        return Bulk(to_samples(made, first_batch, self.expand), seed, epoch, first_batch)

    @property
    def joins(self) -> bool:
        """Whether `sample_joined` makes the minibatches of `sample_bulk`."""
        own = type(self).sample_bulk is FusedSampler.sample_bulk
        return own and keeps_verbs(self) and self.expand == "once" and not self._weighs

    @property
    def _by_number(self) -> bool:
        """Whether picks depend on what a row holds, in its order, and not on where it lies."""
        return True

    @property
    def _weighs(self) -> bool:
        """Whether minibatches have weights."""
        return False

    def sample_joined(
        self,
        graph: Graph,
        seeds: Array,
        ptr: Array,
        seed: int,
        epoch: int,
        first_batch: int,
        threads: int,
        exclude: Excluded | None = None,
    ) -> Any:
        """Samples minibatches whose arrays are cheaper to make than to hold: one after another.

        Args:
            graph: the graph to sample.
            seeds: int64, of all minibatches; minibatch i has those from ptr[i] to ptr[i + 1].
            ptr: int64.
            seed: seed of the run.
            epoch: number of the epoch.
            first_batch: number of the first of these minibatches.
            threads: threads to use, 0 for all; the result does not depend on it.
            exclude: edges that the minibatches leave out.

        Returns:
            int64 arrays that the caller owns: the nodes of all minibatches; the sources and then
            the targets of the first, of the second, ...; the edges of all. Then lists with an entry
            for each minibatch: new nodes (the seeds first) and edges of each layer; where the given
            seeds are, an empty list if none is repeated.

        Raises:
            InputError: a seed is not a node of the graph.
        """
        entries = None if exclude is None else exclude.of(rows_of(graph), np.diff(ptr), False)
        keys = (seed, epoch, first_batch, threads)
        return self._kernel(graph).sample_joined(seeds, ptr, *keys, entries)

    def sample_trees(
        self,
        graph: Graph,
        seeds: Sequence[Array],
        rows: Sequence[Array],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
        exclude: Excluded | None = None,
    ) -> Bulk:
        """Samples len(seeds) minibatches in which every seed has its own tree.

        The tree of a seed is the minibatch of this seed alone whose number is its row: a pure
        function of (graph, sampler, seed, epoch, row), whatever else is in the minibatch. Trees
        share no nodes; nodes and edges are ordered by layer, and within a layer by tree.

        Args:
            graph: the graph to sample.
            seeds: as for `sample_bulk`; a seed given twice has two trees.
            rows: for each seed, the number (0 or more) that its tree is keyed by.
            seed: seed of the run.
            epoch: number of the epoch.
            first_batch: number of the first of these minibatches; no sample depends on it.
            threads: threads to use, 0 for all; the result does not depend on it.
            exclude: edges that single trees leave out.

        Raises:
            InputError: a seed is not a node of the graph, rows do not fit, or the sampler overrides
                a verb or expands per layer.
        """
        check_trees(self)
        given = TreeSeeds.of(seeds, rows)
        trees = (given.flat, given.keys, given.ptr)
        entries = None if exclude is None else exclude.of(rows_of(graph), np.diff(given.ptr), True)
        made = self._kernel(graph).sample_trees(*trees, seed, epoch, threads, entries)
        return Bulk(to_samples(made, first_batch, self.expand), seed, epoch, first_batch)


def leaves_out_anywhere(sampler: object) -> bool:
    """Whether minibatches are those of a graph without the edges that are left out, bit for bit.

    Then rows can lie with other ranks. Picks by weight are drawn from tables of whole rows.
    """
    return isinstance(sampler, FusedSampler) and keeps_verbs(sampler) and sampler._by_number


def gives_weights(sampler: object) -> bool:
    """Whether the edges of a sampler's minibatches have weights."""
    return isinstance(sampler, FusedSampler) and sampler._weighs


def check_excluding(sampler: object) -> None:
    """Raises InputError unless minibatches of a sampler of plain graphs can leave edges out."""
    if not isinstance(sampler, FusedSampler) or not keeps_verbs(sampler):
        raise InputError(
            f"edges are left out by Neighbor and Labor, not by {type(sampler).__name__}; pass "
            "num_neighbors, or leave exclude out"
        )


def check_trees(sampler: Sampler) -> "FusedSampler":
    """Returns the sampler if its minibatches can be disjoint trees.

    Raises:
        InputError: they cannot; the message says why.
    """
    name = type(sampler).__name__
    if not isinstance(sampler, FusedSampler) or not keeps_verbs(sampler):
        raise InputError(
            f"disjoint trees are sampled by Neighbor and Labor, not by {name}; pass num_neighbors, "
            "or use batch_size=1 for one tree per batch"
        )
    if sampler.expand != "once":
        raise InputError(
            "disjoint trees need expand='once', but this sampler expands per layer; leave out "
            "expand= or disjoint="
        )
    return sampler
