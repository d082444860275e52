"""labor: LABOR-0 (Balin and Çatalyürek, NeurIPS 2023): targets share the neighbours they sample.

Every source has one random number for all targets of a layer, and target v takes the edges whose
source's number is below fan-out / degree of v. Each edge is as likely as with `Neighbor`, but
targets that share in-neighbours take the same ones, so a minibatch has fewer nodes. The number of
edges of a target is the fan-out on average, not always. `Labor` is a matrix program; `sample_bulk`
runs it as one C++ kernel that gives the same bits without building P.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from foregather import _core
from foregather.errors import InputError
from foregather.graph.graph import Graph
from foregather.sampling.bulk import Expand
from foregather.sampling.fused import FusedSampler
from foregather.sampling.kernel_cache import GraphCache
from foregather.sampling.layerwise import Debias
from foregather.sampling.neighbor import check_expand, check_fanouts
from foregather.sampling.rows import Picks, Rows
from foregather.units import to_whole

__all__ = ["Labor"]

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]
Kernel = _core.LaborKernel32 | _core.LaborKernel64

_DEBIAS: tuple[Debias, ...] = (None, "exact", "reference")  # as in labor.hpp


@dataclass(frozen=True)
class Labor(FusedSampler):
    """Samples in-neighbours with one random number per source, shared by all targets.

    Args:
        num_neighbors: the mean number per layer, the layer next to the seeds first; -1 takes all. A
            target with no more in-neighbours than that gets all of them.
        expand: "once" as PyG, or "per-layer" as the papers; see `Expand`.
        layer_dependency: use the same random numbers in all layers, so that they choose the same
            nodes: even fewer nodes, but the layers are then not independent.
        debias: how edges are weighted. With A the graph's edge weights, or 1 / degree of the target
            where there are none, and p the probability that the edge is taken: "exact" is A / p, so
            that the expected sum is the sum over all in-neighbours; "reference" divides that by the
            sum over the target's edges, as the published code does: a mean over what was taken,
            which varies less but is biased; None gives no weights.
        batch_dependency: this many minibatches in a row use the same random numbers, so that they
            choose many of the same nodes, and fewer rows are read: minibatch b uses those of
            b // batch_dependency. Each is sampled as before, but they are not independent.
            Minibatches of trees (`disjoint`) are keyed by their seeds, and do not change.

    Raises:
        InputError: an option is invalid.
    """

    whole_weights: ClassVar[bool] = True
    num_neighbors: Sequence[int]
    expand: Expand = "once"
    layer_dependency: bool = False
    debias: Debias = "exact"
    batch_dependency: int = 1
    _kept: GraphCache[Kernel] = field(
        default_factory=GraphCache, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_neighbors", check_fanouts(self.num_neighbors))
        check_expand(self.expand)
        if self.debias not in _DEBIAS:
            raise InputError(f'debias is {self.debias!r}, expected "exact", "reference" or None')
        every = to_whole(self.batch_dependency, "batch_dependency", 1, 1 << 62)
        object.__setattr__(self, "batch_dependency", every)

    def __repr__(self) -> str:
        """All options; a dependency of 1 is left out, as it was before there was one."""
        names = ["num_neighbors", "expand", "layer_dependency", "debias"]
        names += ["batch_dependency"] if self.batch_dependency > 1 else []
        return f"Labor({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def layer_sizes(self) -> Sequence[int]:
        """The fan-outs."""
        return self.num_neighbors

    @property
    def _weighs(self) -> bool:
        """Whether minibatches have weights."""
        return self.debias is not None

    def key_layer(self, layer: int) -> int:
        """The layer whose random numbers a layer uses."""
        return 0 if self.layer_dependency else layer

    def key_batch(self, batch: int) -> int:
        """The minibatch whose random numbers a minibatch uses."""
        return batch // self.batch_dependency

    def sample(self, p: Rows) -> Picks:
        """Picks entries whose column has a number below the limit of the row."""
        degree = np.diff(p.ptr)
        limit = _core.labor_limits(self.num_neighbors[p.layer], degree)
        entry = np.flatnonzero(p.column_draws() < limit[p.row])
        return Picks(entry, self.weigh(p.layer, p.row[entry], degree, p.values[entry]))

    def weigh(self, layer: int, row: Int, degree: Int, values: Float) -> Float | None:
        """Returns the weights of picks.

        Args:
            layer: number of the layer.
            row: int64, the row of each pick, ascending.
            degree: int64, entries of each row.
            values: float64, value of each pick's entry.
        """
        if self.debias is None:
            return None
        limit = _core.labor_limits(self.num_neighbors[layer], degree)
        weight: Float = values / (limit[row].astype(np.float64) / 2**32)
        if self.debias == "reference":
            sums = np.bincount(row, weight, len(degree))  # adds in the order of the entries
            weight = weight / np.where(sums == 0, 1, sums)[row]
        return weight

    def _kernel(self, graph: Graph) -> Kernel:
        """The kernel of a graph."""

        def make(graph: Graph) -> Kernel:
            fanouts, once = list(self.num_neighbors), self.expand == "once"
            rule = (fanouts, once, self.layer_dependency, _DEBIAS.index(self.debias))
            return _core.labor_kernel(
                graph.indptr, graph.indices, *rule, graph.edge_weight, self.batch_dependency
            )

        return self._kept.get(graph, make)
