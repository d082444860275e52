"""sampler: the rule that chooses a minibatch's nodes and edges.

A sampler is a frozen value: the same sampler, graph, seed, epoch and batch number give the same
minibatch, bit for bit, whatever the threads, the bulk size or the storage.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy.typing as npt

from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk, Expand

__all__ = ["Sampler"]

Array = npt.NDArray[Any]


class Sampler(ABC):
    """Makes bulks of minibatches.

    Subclasses are frozen dataclasses; their fields are the options of the rule.

    Attributes:
        whole_weights: whether `Sample.weight` already holds the graph's edge weights (or 1 / degree
            of the target if it has none), as in layer-wise samplers; False: it is a factor to
            multiply with them.
    """

    whole_weights: ClassVar[bool] = False

    @property
    def draws_seeds(self) -> bool:
        """Whether minibatches have nodes of the sampler's own choice in place of their seeds."""
        return False

    @property
    @abstractmethod
    def num_layers(self) -> int:
        """Layers of a minibatch."""

    @property
    @abstractmethod
    def expand(self) -> Expand:
        """How layers are expanded."""

    @abstractmethod
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
        """Samples len(seeds) minibatches at once.

        Args:
            graph: the graph to sample.
            seeds: seed node ids (any integer dtype) of each minibatch; repeats are allowed.
            seed: seed of the run.
            epoch: number of the epoch.
            first_batch: number of the first of these minibatches in the epoch.
            threads: threads to use, 0 for all; the result does not depend on it.

        Raises:
            InputError: a seed is not a node of the graph.
        """
