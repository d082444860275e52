"""walk: random walks, and the subgraph of the nodes they visit.

A walk goes from a node to one of its in-neighbours, against the flow of messages: each in-edge is
equally likely. A walk stays at a node without in-neighbours until its end. Draws are keyed by
(seed, epoch, batch, step, start, number of the walk), so threads and bulk size change nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.graph.graph import Graph
from foregather.graph.integrity.check_topology import walkable
from foregather.sampling.bulk import Bulk, to_samples
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.seeds import flatten
from foregather.sampling.subgraphs.subgraph import (
    Kernel,
    SubgraphSampler,
    make_kernel,
    whole_number,
)

__all__ = ["RandomWalk", "random_walks"]

Array = npt.NDArray[Any]


def random_walks(
    graph: Graph,
    starts: Sequence[Array],
    length: int,
    *,
    seed: int,
    epoch: int = 0,
    first_batch: int = 0,
    threads: int = 0,
) -> list[Array]:
    """Returns the walks of len(starts) minibatches.

    Args:
        graph: the graph.
        starts: node ids at which the walks of each minibatch begin; an id may occur repeatedly.
        length: steps of a walk.
        seed: seed of the run.
        epoch: number of the epoch.
        first_batch: number of the first minibatch.
        threads: threads to use, 0 for all; the result does not depend on it.

    Returns:
        For each minibatch the nodes visited, [starts, length + 1], in the graph's id dtype; the
        first column holds the starts.

    Raises:
        InputError: a start is not a node of the graph, or the length is negative.
    """
    length = whole_number("length", length, 0)
    graph = walkable(graph, threads)
    flat, ptr = flatten(starts)
    path = np.empty(len(flat) * (length + 1), graph.indices.dtype)
    keys = (length, seed, epoch, first_batch)
    _core.random_walk(graph.indptr, graph.indices, flat, ptr, *keys, path, threads)
    table = path.reshape(len(flat), length + 1)
    return [table[begin:end] for begin, end in pairwise(ptr)]


@dataclass(frozen=True)
class RandomWalk(SubgraphSampler):
    """The induced subgraph of the nodes that random walks from the seeds visit.

    A minibatch has one layer, with all edges between its nodes; a model uses them all in each of
    its layers. The seeds come first, then the other nodes in the order of walks and of steps.

    Args:
        length: steps of a walk.
        walks: walks from each seed; a seed given twice has twice as many.

    Raises:
        InputError: a number is not positive.
    """

    length: int
    walks: int = 1
    _kept: GraphCache[Kernel] = field(
        default_factory=GraphCache, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for name in ("length", "walks"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 1))

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
        rule = {"length": self.length, "walks": self.walks}
        kernel = self._kept.get(graph, lambda found: make_kernel(found, "walk", **rule))
        flat, ptr = flatten(seeds)
        made = kernel.sample(flat, ptr, seed, epoch, first_batch, threads)
        return Bulk(to_samples(made, first_batch), seed, epoch, first_batch)
