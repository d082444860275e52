"""fused: samplers whose bulks are made by one kernel of the core, kept with the graph it is for."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy.typing as npt

from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk, to_samples
from foregather.sampling.matrix import MatrixSampler, keeps_verbs
from foregather.sampling.seeds import flatten

__all__ = ["BulkKernel", "FusedSampler"]

Array = npt.NDArray[Any]


class BulkKernel(Protocol):
    """What a kernel of the core does."""

    def sample(
        self, seeds: Array, ptr: Array, seed: int, epoch: int, first_batch: int, threads: int, /
    ) -> Any:
        """The minibatches of a bulk, as arrays."""


class FusedSampler(MatrixSampler):
    """A matrix sampler with a kernel; both give the same bits.

    A subclass with verbs of its own runs as a matrix program.
    """

    @abstractmethod
    def _kernel(self, graph: Graph) -> BulkKernel:
        """The kernel of a graph."""

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
        flat, ptr = flatten(seeds)
        made = self._kernel(graph).sample(flat, ptr, seed, epoch, first_batch, threads)
        samples = to_samples(made, first_batch, self.expand)
        return Bulk(samples, seed, epoch, first_batch)
