"""cluster: unions of parts of the graph (Cluster-GCN; Chiang et al., KDD 2019).

The nodes were divided into parts with few edges between them. A minibatch is a few parts drawn
together, with all edges inside them and between them. The order of parts is a new one in every
epoch, a pure function of seed and epoch, and an epoch of ceil(parts / size) minibatches has every
part once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk, to_samples
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.seeds import flatten
from foregather.sampling.subgraphs.subgraph import (
    Kernel,
    SubgraphSampler,
    make_kernel,
    whole_number,
)

__all__ = ["Cluster"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Cluster(SubgraphSampler):
    """The induced subgraph of some parts of the graph.

    It does not look at the seeds: only the number of minibatches counts, and all nodes of a
    minibatch, in ascending order, serve as its seeds.

    Args:
        part: the part of each node, [N] whole numbers from 0 on, every part with a node; such as
            METIS makes.
        size: parts of a minibatch.

    Raises:
        InputError: a part is missing or negative, or the size is not positive.
    """

    part: Array
    size: int = 1
    _nodes: list[Array] = field(default_factory=list, init=False, repr=False, compare=False)
    _kept: GraphCache[Kernel] = field(
        default_factory=GraphCache, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        given = np.asarray(self.part)
        if given.ndim != 1 or given.dtype.kind not in "iu" or not given.size:
            raise InputError(
                f"part is {given.dtype} {list(given.shape)}, expected the part of each node as a "
                "whole number"
            )
        part = given.astype(np.int64)
        counts = np.bincount(part) if part.min() >= 0 and part.max() < len(part) else np.zeros(1)
        if not counts.all():
            raise InputError("part has gaps, expected parts numbered from 0 on, each with a node")
        part.flags.writeable = False
        object.__setattr__(self, "part", part)
        object.__setattr__(self, "size", whole_number("size", self.size, 1))
        order = np.argsort(part, kind="stable")
        self._nodes.extend(np.split(order, np.cumsum(counts)[:-1]))

    @property
    def parts(self) -> int:
        """Number of parts."""
        return len(self._nodes)

    @property
    def rounds(self) -> int:
        """Minibatches that have every part once."""
        return -(-self.parts // self.size)

    @property
    def draws_seeds(self) -> bool:
        """Always: minibatches are parts."""
        return True

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
        """Makes len(seeds) minibatches at once; see `Sampler.sample_bulk`.

        Raises:
            InputError: the graph has another number of nodes.
        """
        if len(self.part) != graph.num_nodes:
            raise InputError(
                f"part has {len(self.part)} entries, but the graph has {graph.num_nodes} nodes"
            )
        order = np.empty(self.parts, np.int64)
        _core.shuffled(self.parts, seed, epoch, 0, order)
        nodes = []
        for batch in range(first_batch, first_batch + len(seeds)):
            first = batch % self.rounds * self.size
            chosen = [self._nodes[one] for one in order[first : first + self.size]]
            nodes.append(np.sort(np.concatenate(chosen)))
        kernel = self._kept.get(graph, lambda found: make_kernel(found, "given"))
        flat, ptr = flatten(nodes)
        made = kernel.sample(flat, ptr, seed, epoch, first_batch, threads)
        return Bulk(to_samples(made, first_batch), seed, epoch, first_batch)
