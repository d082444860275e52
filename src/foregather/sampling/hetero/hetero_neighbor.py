"""hetero_neighbor: neighbour sampling of graphs with node types, relations and times.

A minibatch is a pure function of (graph, sampler, seed, epoch, batch number), a disjoint tree of
(graph, sampler, seed, epoch, input row, time): threads, bulk size and, for trees, whatever else is
in the minibatch cannot change it. A graph of one type and one relation gives the minibatches of
`Neighbor`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType
from foregather.sampling.bulk import Expand
from foregather.sampling.hetero.bidirectional import (
    add_reverse_edges,
    leave_out,
    reverse_relations,
)
from foregather.sampling.hetero.checks import check_one_of
from foregather.sampling.hetero.fanouts import Fanouts
from foregather.sampling.hetero.hetero_bulk import HeteroBulk
from foregather.sampling.hetero.inputs import sample_by
from foregather.sampling.hetero.kernel import Kernel, make_kernel
from foregather.sampling.hetero.relation_weights import RelationWeights
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.links.excluded import Excluded

__all__ = ["HeteroNeighbor", "SubgraphType", "TemporalStrategy", "TimeLevel"]

Array = npt.NDArray[Any]

#: Whose times limit a tree: those of the nodes it reaches, or those of the edges it takes.
TimeLevel = Literal["node", "edge"]
TemporalStrategy = Literal["uniform", "last"]
SubgraphType = Literal["directional", "bidirectional", "induced"]


@dataclass(frozen=True)
class HeteroNeighbor:
    """Samples in-neighbours relation by relation, uniformly, by weight or the last ones.

    In layer l every relation expands those nodes of its target type that layer l - 1 found, in the
    order of the sorted names of relations.

    Args:
        num_neighbors: the numbers per layer, the layer next to the seeds first: one list for all
            relations, a mapping from (source type, relation, target type) to lists, or PyG's
            `NumNeighbors`. -1 takes all, 0 none. A mapping without a default names every relation.
        replace: draw with replacement; see `Neighbor`.
        subgraph_type: "directional": the sampled edges. "bidirectional": also, in the reverse
            relation, each in the other direction; the reverse of r is `rev_r`, or r itself between
            nodes of one type, or the only relation the other way. "induced": all edges between the
            nodes of the minibatch (of a tree, and no later than its time), of the relations that
            have a fan-out other than 0.
        disjoint: each seed has a tree of its own, which shares no nodes with the others; always so
            with `time`.
        temporal_strategy: "uniform" draws among the edges a tree may see; "last" takes the last of
            them. A relation without times is drawn from as without `time`.
        time: "node": a tree reaches no node later than the time of its seed; "edge": it takes no
            edge later than that. Types (relations) without times are not limited. None: times are
            not looked at.
        weights: True for the `weights` of those relations that have them, or a mapping from edge
            types to True or one number per edge in the order in which the edges were given. Other
            relations are drawn from uniformly. May be used together with `time`.

    Raises:
        InputError: numbers, names or options that do not go together.
    """

    num_neighbors: Any
    replace: bool = False
    subgraph_type: SubgraphType = "directional"
    disjoint: bool = False
    temporal_strategy: TemporalStrategy = "uniform"
    time: TimeLevel | None = None
    weights: Any = None
    _kept: GraphCache[Kernel] = field(
        default_factory=GraphCache, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "num_neighbors", Fanouts.make(self.num_neighbors))
        put(self, "weights", RelationWeights.make(self.weights))
        check_one_of("subgraph_type", self.subgraph_type, SubgraphType)
        check_one_of("temporal_strategy", self.temporal_strategy, TemporalStrategy)
        if self.time is not None:
            check_one_of("time", self.time, TimeLevel)
            put(self, "disjoint", True)
        if self.temporal_strategy == "last":
            if self.time is None:
                raise InputError("temporal_strategy is 'last', which needs time='node' or 'edge'")
            if self.replace or self.weights is not None:
                what = "replace" if self.replace else "weights"
                raise InputError(
                    f"temporal_strategy is 'last', which draws nothing, so {what} has no effect; "
                    "leave one of them out"
                )

    @property
    def num_layers(self) -> int:
        """Layers of a minibatch."""
        layers: int = self.num_neighbors.num_layers
        return layers

    @property
    def expand(self) -> Expand:
        """How layers are expanded: always "once"."""
        return "once"

    def sample_bulk(
        self,
        graph: HeteroGraph,
        seeds: Mapping[str, Sequence[Array]],
        *,
        seed: int,
        epoch: int = 0,
        first_batch: int = 0,
        threads: int = 0,
        rows: Mapping[str, Sequence[Array]] | None = None,
        times: Mapping[str, Sequence[Array]] | None = None,
        exclude: Mapping[EdgeType, Excluded] | None = None,
    ) -> HeteroBulk:
        """Samples k minibatches at once.

        Args:
            graph: the graph to sample.
            seeds: by node type, seed node ids of each of the k minibatches; repeats are allowed.
            seed: seed of the run.
            epoch: number of the epoch.
            first_batch: number of the first of these minibatches in the epoch.
            threads: threads to use, 0 for all; the result does not depend on it.
            rows: by node type, for each seed the number (0 or more) that its tree is keyed by; only
                with `disjoint`, and needed there. Trees with equal numbers draw alike where
                they meet, so seeds of several types need different ones.
            times: by node type, for each seed the latest time its tree may see; only with `time`.
                None: with time="node" the seeds' own times.
            exclude: by edge type, edges that the minibatches (with `disjoint`, their trees) leave
                out before anything is drawn, in whatever `subgraph_type`.

        Raises:
            InputError: a type that does not exist (the nearest is named), a seed that is not a
                node, or rows or times that do not fit.
            FormatError: the graph is damaged.
            StorageError: it cannot be read.
        """
        keys, layers = (seed, epoch, first_batch, threads), self.subgraph_type == "directional"
        given = (seeds, rows, times)
        bulk = sample_by(self._kernel, self, graph, given, keys, layers, exclude)
        if self.subgraph_type != "bidirectional":
            return bulk
        reverse = reverse_relations(graph.edge_types)
        made = [add_reverse_edges(sample, reverse) for sample in bulk]
        if exclude is not None:
            made = [leave_out(sample, exclude, at) for at, sample in enumerate(made)]
        return replace(bulk, samples=made)

    def _kernel(self, graph: HeteroGraph) -> Kernel:
        """The kernel of a graph."""

        def make(graph: HeteroGraph) -> Kernel:
            return make_kernel(
                graph,
                self.num_neighbors,
                self.weights,
                self.time,
                (self.replace, self.disjoint, self.temporal_strategy == "last"),
                self.subgraph_type == "induced",
            )

        return self._kept.get(graph, make)
