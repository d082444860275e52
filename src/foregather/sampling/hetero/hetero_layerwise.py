"""hetero_layerwise: LADIES and FastGCN relation by relation.

In each layer, every relation chooses sources of its own for all its targets together, by the
weights of its own block of the matrix; see `Ladies`. A layer's targets are all nodes known before
it, so each layer has its own edges (`expand` is "per-layer"). A graph of one type and one relation
gives the minibatches of `Ladies` and `FastGCN`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy.typing as npt

from foregather.errors import InputError
from foregather.graph.hetero.graph import HeteroGraph
from foregather.sampling.bulk import Expand
from foregather.sampling.hetero.checks import check_debias
from foregather.sampling.hetero.fanouts import Fanouts
from foregather.sampling.hetero.hetero_bulk import HeteroBulk
from foregather.sampling.hetero.hetero_neighbor import TimeLevel
from foregather.sampling.hetero.inputs import sample_by
from foregather.sampling.hetero.kernel import Kernel, make_layerwise_kernel
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.layerwise import Debias

__all__ = ["HeteroFastGCN", "HeteroLadies"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class HeteroLadies:
    """LADIES in every relation: p is the sum of squared weights over the relation's targets.

    Args:
        layer_sizes: nodes that a relation chooses in each layer, the layer next to the seeds
            first: one list for all relations, or a mapping from (source type, relation, target
            type) to lists. -1 takes all, 0 none.
        debias: how edges are weighted, as for `Ladies`, with the weights of the relation where it
            has some, else 1 / (in-edges of the target in the relation).
        disjoint: only False: sources are chosen for all seeds of a minibatch together.
        time: only None, for the same reason.

    Raises:
        InputError: numbers, names or options that do not go together.
    """

    all_rows: ClassVar[bool] = False
    layer_sizes: Any
    debias: Debias = "exact"
    disjoint: bool = False
    time: TimeLevel | None = None
    _kept: GraphCache[Kernel] = field(
        default_factory=GraphCache, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "layer_sizes", Fanouts.make(self.layer_sizes, "layer_sizes"))
        check_debias(self.debias)
        if self.disjoint or self.time is not None:
            given = "disjoint is True" if self.disjoint else f"time is {self.time!r:.40}"
            raise InputError(
                f"{given}, but {type(self).__name__} chooses sources for all seeds of a minibatch "
                "together, so a seed cannot have a tree or a time of its own; use HeteroNeighbor "
                "or HeteroLabor"
            )

    @property
    def num_layers(self) -> int:
        """Layers of a minibatch."""
        layers: int = self.layer_sizes.num_layers
        return layers

    @property
    def expand(self) -> Expand:
        """How layers are expanded: always "per-layer"."""
        return "per-layer"

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
    ) -> HeteroBulk:
        """Samples k minibatches at once; arguments and errors are those of `HeteroNeighbor`."""
        keys = (seed, epoch, first_batch, threads)
        return sample_by(self._kernel, self, graph, (seeds, rows, times), keys)

    def _kernel(self, graph: HeteroGraph) -> Kernel:
        """The kernel of a graph."""

        def make(graph: HeteroGraph) -> Kernel:
            return make_layerwise_kernel(graph, self.layer_sizes, self.debias, self.all_rows)

        return self._kept.get(graph, make)


@dataclass(frozen=True)
class HeteroFastGCN(HeteroLadies):
    """FastGCN in every relation: p is the sum of squared weights over all rows of the relation.

    p is computed once per graph (20 bytes per source of a relation). Chosen nodes without an edge
    to the layer are dropped. Arguments are those of `HeteroLadies`.
    """

    all_rows: ClassVar[bool] = True
