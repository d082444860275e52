"""bulk: k sampled minibatches in one arena; what samplers make and plans and gathers read.

A `Sample` is one minibatch: a small graph with its own numbering. Its nodes are in the order in
which they were met: the seeds first, then the new nodes of layer 0, of layer 1, and so on, so
that the targets of a layer are always a prefix of its sources. Edges are grouped by layer and,
inside a layer, ordered by target. Samplers of subgraphs (subgraph.py) make one layer whose targets
are all nodes, not only the seeds. Arrays are views of the bulk's arena and read-only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["Bulk", "Expand", "Sample"]

Array = npt.NDArray[Any]

#: "once": a node is expanded in the layer after the one in which it was met, as PyG does; all
#: layers form one edge_index. "per-layer": every layer expands all nodes met so far, as the
#: papers do; a layer is a bipartite graph of its own.
Expand = Literal["once", "per-layer"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One sampled minibatch.

    Attributes:
        node: ids in the graph, uint32 or int64 [n]; the first `num_nodes[0]` are the seeds, each
            once, in the order given.
        num_nodes: nodes known before layer 0, after layer 0, ... : L + 1 ascending numbers, the
            last is n.
        row: source of each edge as a position in `node`, uint32 [m].
        col: target of each edge as a position in `node`, uint32 [m], ascending inside a layer (and
            over all layers where expand is "once").
        num_edges: edges of each layer, L numbers with sum m.
        edge: position of each edge in the graph's CSC order, int64 [m].
        weight: float32 [m] factor of each edge that keeps the aggregation unbiased, or None for 1.
        seed_position: int64 [seeds given]: where each seed given is in `node`; None when no seed
            was given twice (then it is 0, 1, 2, ...).
        batch: number of the minibatch in its epoch.
        expand: how layers were expanded.
    """

    node: Array
    num_nodes: tuple[int, ...]
    row: npt.NDArray[np.uint32]
    col: npt.NDArray[np.uint32]
    num_edges: tuple[int, ...]
    edge: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float32] | None
    seed_position: npt.NDArray[np.int64] | None
    batch: int
    expand: Expand

    @property
    def num_seeds(self) -> int:
        """Distinct seeds."""
        return self.num_nodes[0]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (self.node, self.row, self.col, self.edge, self.weight, self.seed_position)
        return sum(array.nbytes for array in arrays if array is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Bulk:
    """Minibatches `first_batch` to `first_batch + len - 1` of an epoch, sampled together.

    Attributes:
        samples: the minibatches, in order.
        seed: seed of the run.
        epoch: number of the epoch.
        first_batch: number of the first minibatch.
    """

    samples: Sequence[Sample]
    seed: int
    epoch: int
    first_batch: int

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)

    def __getitem__(self, index: int) -> Sample:
        return self.samples[index]

    @property
    def nbytes(self) -> int:
        """Bytes of all minibatches."""
        return sum(sample.nbytes for sample in self.samples)
