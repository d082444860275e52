"""hetero_labor: LABOR-0 relation by relation: targets of a relation share the sources they sample.

In each relation of a layer every source has one random number for all targets, and a target takes
the edges whose source's number is below fan-out / its in-edges in that relation; see `Labor`.
Numbers of different relations are independent. A graph of one type and one relation gives the
minibatches of `Labor`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.graph.hetero.names import EdgeType
from foregather.sampling.bulk import Expand
from foregather.sampling.hetero.checks import check_debias, check_one_of
from foregather.sampling.hetero.fanouts import Fanouts
from foregather.sampling.hetero.hetero_bulk import HeteroBulk
from foregather.sampling.hetero.hetero_neighbor import TemporalStrategy, TimeLevel
from foregather.sampling.hetero.inputs import sample_by
from foregather.sampling.hetero.kernel import Kernel, make_labor_kernel
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.layerwise import Debias
from foregather.sampling.links.excluded import Excluded

__all__ = ["HeteroLabor"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class HeteroLabor:
    """Samples in-neighbours relation by relation, with one random number per source.

    Args:
        num_neighbors: the mean numbers per layer, as for `HeteroNeighbor`; a target with no more
            in-edges in a relation than its number gets all of them. -1 takes all, 0 none.
        disjoint: each seed has a tree of its own; the numbers of sources are then shared by the
            targets of a tree. Always so with `time`.
        time: "node" or "edge" as for `HeteroNeighbor`: a target's in-edges are those that its tree
            may see.
        layer_dependency: use the same random numbers in all layers; see `Labor`.
        debias: how edges are weighted, as for `Labor`, with the weights of the relation where it
            has some, else 1 / (in-edges of the target in the relation, of a tree those it may see).
        temporal_strategy: only "uniform": LABOR draws.

    Raises:
        InputError: numbers, names or options that do not go together.
    """

    num_neighbors: Any
    disjoint: bool = False
    time: TimeLevel | None = None
    layer_dependency: bool = False
    debias: Debias = "exact"
    temporal_strategy: TemporalStrategy = "uniform"
    _kept: GraphCache[Kernel] = field(
        default_factory=GraphCache, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "num_neighbors", Fanouts.make(self.num_neighbors))
        check_one_of("temporal_strategy", self.temporal_strategy, TemporalStrategy)
        if self.temporal_strategy == "last":
            raise InputError(
                "temporal_strategy is 'last', but LABOR draws edges, with probabilities that its "
                "weights divide by; use HeteroNeighbor for the last ones"
            )
        if self.time is not None:
            check_one_of("time", self.time, TimeLevel)
            put(self, "disjoint", True)
        check_debias(self.debias)

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
        """Samples k minibatches at once; arguments and errors are those of `HeteroNeighbor`."""
        keys = (seed, epoch, first_batch, threads)
        given = (seeds, rows, times)
        return sample_by(self._kernel, self, graph, given, keys, exclude=exclude)

    def _kernel(self, graph: HeteroGraph) -> Kernel:
        """The kernel of a graph."""

        def make(graph: HeteroGraph) -> Kernel:
            rule = (self.disjoint, self.layer_dependency, self.debias)
            return make_labor_kernel(graph, self.num_neighbors, self.time, rule)

        return self._kept.get(graph, make)
