"""saint: GraphSAINT subgraphs (Zeng et al., ICLR 2020) with weights that remove their bias.

A subgraph contains only some in-edges of each node, and some nodes more often than others. Both are
corrected by counts over subgraphs that are sampled in advance with separate draws, so the weights
are a pure function of sampler, graph and seed. With C_v and C_uv the number of these subgraphs that
hold node v and edge u -> v, and R the number of all:

- the weight of edge u -> v is C_v / C_uv: given that v is in the subgraph, the weighted sum over
  its in-edges is, in expectation, the sum over all its in-edges in the graph;
- the loss weight of node v is R / (N C_v): the weighted sum of the losses of a subgraph is, in
  expectation, the mean loss of the nodes that can be drawn, times their share of N.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Bulk, Sample, to_samples
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.seeds import flatten
from foregather.sampling.subgraphs.subgraph import (
    Kernel,
    SubgraphSampler,
    make_kernel,
    whole_number,
)

__all__ = ["Saint"]

Array = npt.NDArray[Any]

_BULK = 64  # subgraphs that are presampled together; the counts do not depend on it


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often presampled subgraphs held each node and edge."""

    subgraphs: int
    node: npt.NDArray[np.uint32]
    edge: npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Saint(SubgraphSampler):
    """Samples induced subgraphs of random nodes, or of the nodes visited by walks.

    A minibatch has one layer, with all edges between its nodes; a model uses them all in each of
    its layers, and the loss is over all its nodes that have a label, weighted by `loss_weight`. An
    aggregation by mean divides the weighted sum by the in-degree in the graph.

    Kinds "node" and "edge" do not look at the seeds: only the number of minibatches counts, and all
    nodes of a minibatch serve as its seeds. In kind "walk" the seeds are the roots.

    The counts take 4 bytes per node and edge of the graph, and are kept for the last graph and
    seed.

    Args:
        kind: "node" draws nodes with probability in proportion to the squared norm of their column
            in the matrix of mean aggregation (with a self-loop, so that every node can be drawn);
            "edge" draws edges u -> v in proportion to 1 / deg u + 1 / deg v (in-degrees, at least
            1) and takes both ends; "walk" walks from the seeds.
        size: draws of a minibatch, with replacement: nodes or edges. For "walk", seeds of a
            minibatch, for the presampled subgraphs: give the batch size of the training.
        length: steps of a walk; only for "walk".
        normalise: whether to give edges their weights; without, `weight` is None.
        coverage: presampling ends when the subgraphs together hold this many times the number of
            nodes. A node or edge in no presampled subgraph counts as held once.
        split: only for "walk": name of the split from which the roots of presampled subgraphs come,
            the same as the seeds of the training; None for all nodes.

    Raises:
        InputError: an unknown kind, or a number that is not positive.
    """

    kind: Literal["node", "edge", "walk"]
    size: int
    length: int = 2
    normalise: bool = True
    coverage: int = 50
    split: str | None = None
    _kept: GraphCache[Kernel] = field(
        default_factory=GraphCache, init=False, repr=False, compare=False
    )
    _counts: GraphCache[Counts] = field(
        default_factory=GraphCache, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.kind not in ("node", "edge", "walk"):
            raise InputError(f"kind is {self.kind!r}, expected 'node', 'edge' or 'walk'")
        for name in ("size", "length", "coverage"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 1))
        if self.split is not None and self.kind != "walk":
            raise InputError(f"split is {self.split!r}, but kind {self.kind!r} has no roots")

    @property
    def draws_seeds(self) -> bool:
        """Unless walks begin at the seeds."""
        return self.kind != "walk"

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
        """Samples len(seeds) minibatches at once; see `Sampler.sample_bulk`.

        The first call for a graph and a seed presamples if weights are requested.
        """
        if self.kind != "walk":
            seeds = [np.empty(0, np.int64)] * len(seeds)
        flat, ptr = flatten(seeds)
        made = self._kernel(graph).sample(flat, ptr, seed, epoch, first_batch, threads)
        samples = to_samples(made, first_batch)
        if self.normalise:
            counts = self._count(graph, seed, threads)
            samples = [replace(sample, weight=_edge_weight(counts, sample)) for sample in samples]
        return Bulk(samples, seed, epoch, first_batch)

    def loss_weight(self, graph: Graph, *, seed: int, threads: int = 0) -> npt.NDArray[np.float32]:
        """The loss weight of each node, [N], for a run with this seed.

        The loss of a minibatch is the sum of `loss_weight[sample.node]` times the losses of its
        nodes.

        Raises:
            InputError: there is nothing to draw, or the split does not exist or is empty.
        """
        counts = self._count(graph, seed, threads)
        held = np.maximum(counts.node, 1).astype(np.float64)
        return (counts.subgraphs / (graph.num_nodes * held)).astype(np.float32)

    def _kernel(self, graph: Graph) -> Kernel:
        """The kernel of a graph."""
        if self.kind == "edge" and graph.num_edges == 0:
            raise InputError("kind is 'edge', but the graph has no edges; use kind 'node'")
        rule = {"size": self.size, "length": self.length}
        return self._kept.get(graph, lambda found: make_kernel(found, self.kind, **rule))

    def _count(self, graph: Graph, seed: int, threads: int) -> Counts:
        """Returns the counts of presampled subgraphs.

        Those of the last graph and seed are cached.
        """
        return self._counts.get(
            graph, lambda _: self._count_anew(graph, seed, threads), seed, alike=True
        )

    def _count_anew(self, graph: Graph, seed: int, threads: int) -> Counts:
        node = np.zeros(graph.num_nodes, np.uint32)
        edge = np.zeros(graph.num_edges, np.uint32)
        held = subgraphs = 0
        for sample in self._presample(graph, seed, threads):
            node[sample.node] += 1  # a subgraph holds each node and each edge once
            edge[sample.edge] += 1
            subgraphs += 1
            held += len(sample.node)
            if held >= self.coverage * graph.num_nodes:
                break
        return Counts(subgraphs, node, edge)

    def _presample(self, graph: Graph, seed: int, threads: int) -> Iterator[Sample]:
        """Yields subgraphs endlessly."""
        kernel, first = self._kernel(graph), 0
        while True:
            seeds, ptr = self._roots(graph, seed, first)
            made = kernel.sample(seeds, ptr, seed, 0, first, threads, presample=True)
            yield from to_samples(made, first)
            first += _BULK

    def _roots(
        self, graph: Graph, seed: int, first: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Seeds of the next presampled subgraphs: none, or random sets of distinct nodes."""
        if self.kind != "walk":
            return np.empty(0, np.int64), np.zeros(_BULK + 1, np.int64)
        population = graph.num_nodes
        if self.split is not None:
            if self.split not in graph.splits:
                raise InputError(
                    f"split is {self.split!r}, but the graph has {sorted(graph.splits)}"
                )
            population = len(graph.split(self.split))
        if population == 0:
            raise InputError("there are no nodes to presample from; use normalise=False")
        size = min(self.size, population)
        places = np.empty(_BULK * size, np.int64)
        _core.draw_roots(population, size, seed, first, places)
        if self.split is not None:
            places = np.ascontiguousarray(graph.split(self.split)[places], np.int64)
        return places, np.arange(_BULK + 1, dtype=np.int64) * size


def _edge_weight(counts: Counts, sample: Sample) -> npt.NDArray[np.float32]:
    target = np.maximum(counts.node[sample.node], 1).astype(np.float64)[sample.col]
    weight = (target / np.maximum(counts.edge[sample.edge], 1)).astype(np.float32)
    weight.flags.writeable = False
    return weight
